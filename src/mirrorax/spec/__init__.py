"""What a run is: a study in TOML becomes runs. Imports no jax.

    study.toml --read--> Study (frozen blocks of axes) --expand--> Runs (columns)

- `form`: the keys of a file.
- `study`: a file, every mistake in it reported at once; its runs, in the documented order.
"""
