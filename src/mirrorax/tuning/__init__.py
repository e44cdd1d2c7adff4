"""Temperatures for a new task: suggest them from what was measured, or search for them.

- `evidence`: what results say of each cell; the shipped results
- `prediction`, `validation`, `suggestion`: a recommendation from it, and how far to trust it
- `space`, `task`: what a search is over, from checked arguments
- `surrogate`, `propose`: what a search tries next, a function of the scores so far
- `tune`, `result`: the search with real runs, and what it found
"""
