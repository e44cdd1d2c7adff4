"""`mirrorax.sweep`: run a study from Python."""

from __future__ import annotations

import os

from mirrorax.errors import UserError
from mirrorax.spec.study import Study, read
from mirrorax.sweep import driver, execute
from mirrorax.sweep.driver import SweepSummary
from mirrorax.sweep.engines.local import LocalEngine
from mirrorax.sweep.progress import make_display


def run_study(
    study: Study | str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    workers: int | None = None,
    lanes: int | None = None,
    retry_failed: bool = False,
    progress: bool = True,
) -> SweepSummary:
    """Run what a study has left to do, on this machine; the same call resumes it.

    `study` is a `mirrorax.Study` or the path of a TOML file, `workers` the number of worker
    processes (one for each core). `mirrorax.load(store)` gives the runs.
    """
    if workers is not None and (isinstance(workers, bool) or workers < 1):
        raise UserError(f"workers: {workers!r} is not allowed: a whole number >= 1")
    return driver.sweep(
        study if isinstance(study, Study) else read(os.fspath(study)),
        store,
        lambda logs: LocalEngine(
            logs=logs, workers=workers, gpus=0, function=execute.CHUNK_FUNCTION
        ),
        lanes=lanes,
        retry_failed=retry_failed,
        check_memory=True,
        display=make_display(quiet=not progress),
    )
