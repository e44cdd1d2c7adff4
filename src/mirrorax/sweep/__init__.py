"""Running studies: plan, engine, store. The one room that calls the trainer, and only in workers.

    Runs - finished --plan--> chunks (longest first) --Queue--> Engine: train_chunk --> Store
                                driver: one process, the only one that writes

- `plan`: runs minus finished runs, as chunks of one configuration.
- `measure`: what a run costs.
- `worker`: a chunk in another process, bytes in and bytes out.
- `engine`: the contract (pull chunks, yield outcomes, cancel); `engines/`: local, ray.
- `driver`: the loop: commit outcomes, show progress, react to signals.
- `progress`: what is shown, of a running sweep and of a store.

Nothing here imports jax at module level: the driver never does, workers do when they start.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _CallableRoom(types.ModuleType):
    """This module, as `mirrorax.sweep(study, store, workers=...)`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run what a study has left to do; see `mirrorax.sweep.driver.run_study`."""
        from mirrorax.sweep.driver import run_study

        return run_study(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
