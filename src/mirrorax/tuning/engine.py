"""The runs of a search: what the store has is looked up, the rest goes to an engine.

Every finished chunk is committed to the store before its scores are used. So a search that was
stopped, or killed, looks up what it had done and goes on; it makes the same runs as one that was
not. The workers stay, with their compiled programs, from the first batch to the last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs import arrow
from mirrorax.runs.chunk import Chunk, make_chunk
from mirrorax.runs.results import Results
from mirrorax.store.reading import Reader
from mirrorax.store.store import Store
from mirrorax.sweep.driver import Signals
from mirrorax.sweep.engine import Engine
from mirrorax.sweep.plan import Queue, QueuedChunk
from mirrorax.tuning.space import Run
from mirrorax.tuning.task import TuneTask

_POLL = 0.2


class SearchRuns:
    """Makes runs for a search and returns their scores."""

    def __init__(
        self, task: TuneTask, store: Store, workers: int | None = None, *, normalise: bool = True
    ) -> None:
        self._task, self._store, self._normalise = task, store, normalise
        self._workers = workers
        self._queue = Queue()
        self._engine: Engine | None = None
        self._number = 0
        self._scores: dict[bytes, float] = {}
        self._learn(Reader(store.root).results())

    def __enter__(self) -> SearchRuns:
        return self

    def __exit__(self, *error: object) -> None:
        """End the workers."""
        if self._engine is not None:
            self._engine.close()

    def scores(self, runs: Sequence[Run]) -> list[float]:
        """Return the score of each run, in order; NaN if it diverged."""
        by_arm: dict[int, list[int]] = defaultdict(list)
        for index, run in enumerate(runs):
            by_arm[run.cell.arm].append(index)
        lanes = self._task.lanes
        ids: dict[int, bytes] = {}
        missing: list[QueuedChunk] = []
        for arm, indices in by_arm.items():
            whole = self._chunk(arm, [runs[i] for i in indices])
            ids |= dict(zip(indices, whole.ids.tolist(), strict=True))
            left = np.array([k for k, i in enumerate(indices) if ids[i] not in self._scores])
            for first in range(0, len(left), lanes):
                missing.append(self._queued(arm, whole.select(left[first : first + lanes])))
        if missing:
            self._train(missing)
        return [self._scores[ids[index]] for index in range(len(runs))]

    def _chunk(self, arm: int, runs: Sequence[Run]) -> Chunk:
        columns: dict[str, list[float | int | None]] = {
            name: [value] * len(runs) for name, value in self._task.fixed.items()
        }
        for place, name in enumerate(self._task.names):
            columns[name] = [run.cell.values[place] for run in runs]
        settings = self._task.arms[arm]
        if settings.learned_alpha:
            columns["alpha"] = [None] * len(runs)
        if settings.learned_lam:
            columns["lam"] = [None] * len(runs)
        columns["seed"] = [run.seed for run in runs]
        return make_chunk(settings, columns, self._task.lanes)

    def _queued(self, arm: int, chunk: Chunk) -> QueuedChunk:
        self._number += 1
        return QueuedChunk(self._number, arm, chunk)

    def _train(self, chunks: Sequence[QueuedChunk]) -> None:
        self._queue.add(chunks)
        if self._engine is None:
            self._engine = _engine(self._workers, self._store.scratch("logs"))
            self._engine.start(self._queue)
        engine = self._engine
        with Signals(engine) as signals:
            while engine.busy():
                for finished in engine.finished(_POLL):
                    self._store.commit(finished.data)
                    if failure := finished.results.origins[0].failure:
                        raise UserError(f"tune: a chunk of runs failed: {failure.splitlines()[0]}")
                    self._learn(finished.results)
                if signals.received is not None:
                    engine.cancel()
                    raise KeyboardInterrupt

    def _learn(self, results: Results) -> None:
        """Take the scores of finished runs."""
        if not len(results):
            return
        bounds = [(math.nan, math.nan) if o.bounds is None else o.bounds for o in results.origins]
        ends = [(low, math.nan if high is None else high) for low, high in bounds]
        low, high = results.of_origins(ends, np.float64).reshape(-1, 2).T
        scale = results.numbers("reward_scale")
        lists, lengths = arrow.read_lists(results.rows["returns"])
        with np.errstate(invalid="ignore"):
            returns = np.nansum(lists, axis=1) / np.maximum(lengths, 1)
        score = suite.normalize(returns, (low, high), scale) if self._normalise else returns / scale
        score = np.where(np.isfinite(lists).sum(axis=1) == lengths, score, np.nan)
        score = np.where(results.diverged, np.nan, score)
        for run, value, done in zip(results.ids.tolist(), score, results.done, strict=True):
            if done:
                self._scores[run] = float(value)


def _engine(workers: int | None, logs: Path) -> Engine:
    if workers == 0:
        from mirrorax.sweep.engine import InlineEngine
        from mirrorax.sweep.worker import CHUNK_FUNCTION, resolve

        return InlineEngine(resolve(CHUNK_FUNCTION))
    from mirrorax.sweep.engines.local import LocalEngine

    return LocalEngine(logs=logs, workers=workers)
