"""Temperatures for a new task: suggest them from what was measured, or search for them.

- `evidence`: what the published results say, as a small table that is shipped
- `suggest`: a recommendation from that table, with its reasons
- `search`: a search with a fixed budget of runs

Importing this imports no jax.
"""
