"""Temperatures for a new task: suggest them from what was measured, or search for them.

- `evidence`: what results say, as a small table that is shipped
- `prediction`, `validation`, `suggestion`: a recommendation from it, and how far to trust it
- `space`, `search`, `lanes`, `tune`: a search with a fixed budget of runs

Only `lanes`, which trains, imports jax.
"""
