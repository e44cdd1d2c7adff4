"""The driver: one process that takes outcomes from an engine and commits them to the store."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from mirrorax.errors import UserError, in_one_line
from mirrorax.formatting import Shown, check_whole, counted
from mirrorax.spec.study import Study, expand, read
from mirrorax.store.files import Fault, no_fault
from mirrorax.store.reading import Reader
from mirrorax.store.store import Store, write_live
from mirrorax.sweep import plan as planning
from mirrorax.sweep.engine import Engine, FinishedChunk
from mirrorax.sweep.progress import SCORE_COLUMNS, Display, SweepProgress

if TYPE_CHECKING:
    from mirrorax.callbacks import Logger

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL = 0.2
_LIVE_EVERY = 1.0
_HELD_EVERY = 5.0
#: How long a worker may take to reach its next segment after a stop was asked for.
_GRACE = 10.0
_SHOW_CURSOR = b"\x1b[?25h"


@dataclass(frozen=True, repr=False)
class SweepSummary(Shown):
    """What a sweep did."""

    total: int
    done: int  # in the study, now
    failed: int
    session_done: int
    session_failed: int
    stopped_by: int | None  # the signal

    def _summary(self) -> tuple[str, list[list[str]]]:
        numbers = [self.total, self.done, self.failed, self.session_done]
        title = f"{self.done:,} of {self.total:,} runs done, {self.failed:,} failed"
        head = ["runs of the study", "done", "failed", "done by this call"]
        return title, [head, [f"{n:,}" for n in numbers]]

    @property
    def exit_code(self) -> int:
        """The conventional exit code."""
        if self.stopped_by is not None:
            return 128 + self.stopped_by
        return 0 if self.done == self.total else 1


class Signals:
    """Turn the first signal into a request to stop and the second into an immediate end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._before: dict[int, Any] = {}
        self.received: int | None = None

    def __enter__(self) -> Signals:
        # Only the main thread may set handlers.
        here = threading.current_thread() is threading.main_thread()
        for number in _SIGNALS if here else ():
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            return
        # The second: a file that is being written is either visible and whole or not visible.
        self._engine.kill()
        if os.isatty(2):
            os.write(2, _SHOW_CURSOR)
        os._exit(128 + number)


def run_study(
    study: Study | str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    engine: Literal["local", "ray"] | Callable[[Path], Engine] = "local",
    address: str = "auto",
    workers: int | None = None,
    gpus: int | None = None,
    chunk_timeout: float | None = None,
    lanes: int | None = None,
    retry_failed: bool = False,
    fail_fast: bool = False,
    take_over: bool = False,
    progress: bool | Display = True,
    log: Logger | None = None,
    fault: Fault = no_fault,
) -> SweepSummary:
    """Run what a study has left to do; the same call resumes it.

    Raises `UserError` if the store is held by another process, `StoreError` if it cannot be
    written, `EngineError` if nothing can be computed.

    Args:
        study: a `mirrorax.Study`, or the path of a TOML file.
        store: the folder of results; `mirrorax.load(store)` gives the runs.
        engine: worker processes on this machine, tasks on a Ray cluster, or a function that makes
            another engine; it is given a folder for the logs of workers.
        address: of the Ray cluster: auto or HOST:PORT.
        workers: how many chunks are trained at once; one for each core unless given.
        gpus: how many GPUs are used, one for each worker.
        chunk_timeout: with worker processes: the seconds after which a chunk is tried again.
        lanes: runs trained side by side; the store's width, or one that suits the study.
        retry_failed: whether failed runs are run again.
        fail_fast: whether to stop at the first failed chunk.
        take_over: whether to take the store from a holder on another machine.
        progress: whether progress is shown.
        log: a logger of `mirrorax.callbacks`, which writes finished chunks.
        fault: called at every point of a write, for tests.
    """
    for name, value in (("workers", workers), ("gpus", gpus)):
        if value is not None:
            check_whole(name, value, 1)
    if engine == "ray" and chunk_timeout:
        raise UserError("chunk_timeout: a worker of this machine can be ended, not one of Ray's")
    if engine != "ray" and address != "auto":
        raise UserError(f"address: {address!r} is for the engine ray")
    if engine == "ray":
        from mirrorax.sweep.engines import ray

        ray.check(address)

    def make_engine(logs: Path) -> Engine:
        if callable(engine):
            return engine(logs)
        if engine == "ray":
            return ray.RayEngine(address=address, workers=workers or gpus, gpus=float(bool(gpus)))
        from mirrorax.sweep.engines.local import LocalEngine

        return LocalEngine(logs=logs, workers=workers, gpus=gpus or 0, chunk_timeout=chunk_timeout)

    study = study if isinstance(study, Study) else read(study)
    runs = expand(study)
    if lanes is not None:
        check_whole("lanes", lanes, 1, planning.LARGEST_WIDTH)
    shown = Display(quiet=not progress) if isinstance(progress, bool) else progress
    with Store(store, take_over=take_over, fault=fault) as held:
        width = planning.lanes_for(runs, held.root, lanes, gpu=bool(gpus))
        for name in held.set_aside:
            shown.say(f"damaged, set aside; its runs are run again: {name}")
        stored = Reader(held.root, ["wall_seconds", *SCORE_COLUMNS]).results()
        plan = planning.make(runs, stored, lanes=width, retry_failed=retry_failed)
        for name, values in plan.mixed.items():
            shown.say(f"this store mixes results with different {name}: {', '.join(values)}")
        if plan.beyond:
            shown.say(f"{plan.beyond:,} runs in the store are not in this study; they are kept")
        working = make_engine(held.scratch("logs"))
        try:
            if engine == "local" and not gpus and plan.chunks:
                plan.check_memory(working.workers)
            held.record(study, runs, width)
            state = SweepProgress(plan, working.workers)
            state.add_stored(stored)
            log_chunk = _ChunkLog(log, shown.say)
            stopped_by = _loop(held, plan, working, state, shown, log_chunk, fail_fast)
        finally:
            working.close()
        if state.done or state.failed:
            held.consolidate()
        return SweepSummary(
            total=state.total,
            done=state.before + state.done,
            failed=state.failed_before + state.failed,
            session_done=state.done,
            session_failed=state.failed,
            stopped_by=stopped_by,
        )


class _ChunkLog:
    """Write chunks with a logger. One that fails is named once and then left out."""

    def __init__(self, logger: Logger | None, say: Callable[[str], None]) -> None:
        self._logger, self._say = logger, say

    def __call__(self, finished: FinishedChunk) -> None:
        if self._logger is None or not finished.results.done.all():
            return
        name = f"{finished.queued.label}, {finished.results.ids[0].decode()[:8]}"
        try:
            self._logger.log_chunk(name.replace("/", "_"), finished.results)
        except Exception as error:
            name = type(self._logger).__name__
            self._logger = None
            self._say(f"log: {name} raised {in_one_line(error)}; nothing more is logged")


def _loop(
    store: Store,
    plan: planning.Plan,
    engine: Engine,
    progress: SweepProgress,
    display: Display,
    log_chunk: _ChunkLog,
    fail_fast: bool,
) -> int | None:
    """Commit outcomes until nothing is left or a stop is asked for; return the signal, if any."""
    deadline: float | None = None
    last_live = last_held = 0.0
    with Signals(engine) as signals:
        engine.start(planning.Queue(plan.chunks))
        try:
            while engine.busy():
                for finished in engine.finished(_POLL):
                    store.commit(finished.data)
                    progress.add(finished.queued, finished.results)
                    log_chunk(finished)
                    if failure := finished.results.origins[0].failure:
                        what = f"{finished.queued.label}, {counted(len(finished.queued), 'run')}"
                        display.say(f"failed: {what}: {failure.splitlines()[0]}")
                now = time.monotonic()
                progress.activities = engine.activities()
                if now - last_live >= _LIVE_EVERY:
                    last_live = now
                    write_live(store.root, progress.state())
                    display.show(progress)
                if now - last_held >= _HELD_EVERY:
                    last_held = now
                    store.lock.check()
                stop = signals.received is not None or (fail_fast and progress.failed > 0)
                if stop and deadline is None:
                    deadline = now + _GRACE
                    display.say(
                        "stopping: what is under way is dropped (Ctrl-C again ends at once)"
                    )
                    engine.cancel()
                if deadline is not None and now > deadline:
                    break
        finally:
            progress.activities = []
            display.close(progress)
        return signals.received
