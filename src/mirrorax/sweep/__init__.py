"""Running studies: plan, engine, store. The one room that calls the trainer, and only in workers.

    Runs - finished --plan--> chunks (longest first) --Queue--> Engine: train_chunk --> Store
                                driver: one process, the only one that writes

- `plan`: runs minus finished runs, as chunks of one configuration.
- `measure`: what a run costs.
- `execute`, `worker`: a chunk in another process, bytes in and bytes out.
- `engine`: the contract (pull chunks, yield outcomes, cancel); `engines/`: local, ray, inline.
- `driver`: the loop: commit outcomes, show progress, react to signals.
- `progress`, `status`: what is shown.

Nothing here imports jax at module level: the driver never does, workers do when they start.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.callbacks import Logger
    from mirrorax.spec.study import Study
    from mirrorax.sweep.driver import SweepSummary


def run_study(
    study: Study | str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    workers: int | None = None,
    lanes: int | None = None,
    retry_failed: bool = False,
    progress: bool = True,
    log: Logger | None = None,
) -> SweepSummary:
    """Run what a study has left to do, on this machine; the same call resumes it.

    `study` is a `mirrorax.Study` or the path of a TOML file, `workers` the number of worker
    processes (one for each core), `log` a logger of `mirrorax.callbacks`. `mirrorax.load(store)`
    gives the runs.
    """
    from mirrorax.spec.study import Study, read
    from mirrorax.sweep import driver, execute
    from mirrorax.sweep.engine import Engine
    from mirrorax.sweep.engines.local import LocalEngine
    from mirrorax.sweep.engines.logged import LoggedEngine
    from mirrorax.sweep.progress import Display

    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise UserError(f"workers: {workers!r} is not allowed: a whole number >= 1")
    display = Display(quiet=not progress)

    def make_engine(logs: Path) -> Engine:
        engine = LocalEngine(logs=logs, workers=workers, function=execute.CHUNK_FUNCTION)
        return engine if log is None else cast(Engine, LoggedEngine(engine, log, display.say))

    return driver.sweep(
        study if isinstance(study, Study) else read(os.fspath(study)),
        store,
        make_engine,
        lanes=lanes,
        retry_failed=retry_failed,
        check_memory=True,
        display=display,
    )


class _CallableRoom(types.ModuleType):
    """This module, as `mirrorax.sweep(study, store, workers=...)`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run what a study has left to do; see `run_study`."""
        return run_study(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
