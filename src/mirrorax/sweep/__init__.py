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
from typing import TYPE_CHECKING, Any, Literal

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.spec.study import Study
    from mirrorax.sweep.driver import SweepSummary
    from mirrorax.sweep.engine import Engine


def run_study(
    study: Study | str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    engine: Literal["local", "ray"] = "local",
    address: str = "auto",
    workers: int | None = None,
    gpus: int | None = None,
    chunk_timeout: float | None = None,
    progress: bool = True,
    **options: Any,
) -> SweepSummary:
    """Run what a study has left to do; the same call resumes it.

    Args:
        study: a `mirrorax.Study`, or the path of a TOML file.
        store: the folder of results; `mirrorax.load(store)` gives the runs.
        engine: worker processes on this machine, or tasks on a Ray cluster.
        address: of the Ray cluster: auto or HOST:PORT.
        workers: how many chunks are trained at once; one for each core unless given.
        gpus: how many GPUs are used, one for each worker.
        chunk_timeout: with worker processes: the seconds after which a chunk is tried again.
        progress: whether progress is shown.
        options: `lanes`, `retry_failed`, `fail_fast`, `take_over`, and `log`, a logger of
            `mirrorax.callbacks`; see `mirrorax.sweep.driver.sweep`.
    """
    from mirrorax.spec.study import Study, read
    from mirrorax.sweep import driver
    from mirrorax.sweep.progress import Display

    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise UserError(f"workers: {workers!r} is not allowed: a whole number >= 1")
    if engine == "ray":
        from mirrorax.sweep.engines import ray

        ray.check(address)  # before the store is made

    def make_engine(logs: Path) -> Engine:
        if engine == "ray":
            return ray.RayEngine(address=address, workers=workers or gpus, gpus=float(bool(gpus)))
        from mirrorax.sweep.engines.local import LocalEngine

        return LocalEngine(logs=logs, workers=workers, gpus=gpus or 0, chunk_timeout=chunk_timeout)

    return driver.sweep(
        study if isinstance(study, Study) else read(os.fspath(study)),
        store,
        make_engine,
        gpu=bool(gpus),
        check_memory=engine == "local" and not gpus,
        display=Display(quiet=not progress),
        **options,
    )


class _CallableRoom(types.ModuleType):
    """This module, as `mirrorax.sweep(study, store, workers=...)`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Run what a study has left to do; see `run_study`."""
        return run_study(*arguments, **options)


sys.modules[__name__].__class__ = _CallableRoom
