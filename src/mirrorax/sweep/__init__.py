"""Running studies: plan, engine, store. The one room that calls the trainer, and only in workers.

    Runs - finished --plan--> chunks (longest first) --Queue--> Engine (workers) --Outcome--> Store
                                   driver: one process, the only one that writes

- `plan`: runs minus finished runs, as chunks of one configuration; memory and time.
- `rates`: what a run costs, from the store or a shipped table.     - `measure`: by trying.
- `task`, `execute`, `wire`, `worker`: a chunk, computed elsewhere.
- `engine`: the contract (pull chunks, yield outcomes, cancel); `engines/`: local, ray, inline.
- `driver`: the loop: take outcomes, commit, show, react to signals.
- `rows`, `provenance`: what is written.    - `display`, `status`: what is shown.

Nothing here imports jax at module level: the driver never does, workers do when they start.
"""
