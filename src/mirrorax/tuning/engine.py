"""The runs of a search: what the store has is looked up, the rest goes to an engine.

Every finished chunk is committed to the store before its scores are used. So a search that was
stopped, or killed, looks up what it had done and goes on; it makes the same runs as one that was
not. The workers stay, with their compiled programs, from the first batch to the last.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs import arrow
from mirrorax.runs.chunk import Chunk, make_chunk
from mirrorax.runs.results import Results
from mirrorax.runs.settings import Settings
from mirrorax.store.reading import Reader
from mirrorax.store.store import Store
from mirrorax.sweep.driver import Signals
from mirrorax.sweep.engine import Engine
from mirrorax.sweep.plan import QueuedChunk
from mirrorax.tuning.propose import Cell, Run

#: Runs side by side. Results depend on the width, so it does not depend on the machine. Few: a
#: batch is to be shared among workers.
LANES = 4
_POLL = 0.2


class ChunkList:
    """Chunks that wait for a worker. Batches are added as the search proposes them."""

    def __init__(self) -> None:
        self._waiting: list[QueuedChunk] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, chunks: Iterable[QueuedChunk]) -> None:
        """Add the chunks of a batch."""
        self._waiting += chunks

    def take(self, prefer: int | None = None) -> QueuedChunk | None:
        """Return the next chunk, of the configuration that the worker has compiled if possible."""
        for index, queued in enumerate(self._waiting):
            if queued.configuration == prefer:
                return self._waiting.pop(index)
        return self._waiting.pop(0) if self._waiting else None

    def put_back(self, queued: QueuedChunk) -> None:
        """Return a chunk that has to be run again."""
        self._waiting.insert(0, queued)

    def clear(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()


class SearchRuns:
    """Makes runs for a search and returns their scores."""

    def __init__(
        self,
        store: Store,
        make_engine: Callable[[Path], Engine],
        arms: Sequence[Settings],
        names: Sequence[str],
        fixed: Mapping[str, float],
        *,
        lanes: int = LANES,
        normalise: bool = True,
    ) -> None:
        self._store, self._make_engine = store, make_engine
        self._arms, self._names, self._fixed = arms, names, dict(fixed)
        self._lanes, self._normalise = lanes, normalise
        self._queue = ChunkList()
        self._engine: Engine | None = None
        self._number = 0
        reader = Reader(store.root)
        reader.refresh()
        self._scores: dict[bytes, float] = {}
        self._learn(reader.results())

    def close(self) -> None:
        """End the workers."""
        if self._engine is not None:
            self._engine.close()

    def scores(self, runs: Sequence[Run]) -> list[float]:
        """Return the score of each run, in order; NaN if it diverged."""
        by_arm: dict[int, list[int]] = defaultdict(list)
        for index, run in enumerate(runs):
            by_arm[run.cell.arm].append(index)
        ids: dict[int, bytes] = {}
        missing: list[QueuedChunk] = []
        for arm, indices in by_arm.items():
            whole = self._chunk(arm, [runs[i] for i in indices])
            ids |= dict(zip(indices, whole.ids.tolist(), strict=True))
            left = np.array([k for k, i in enumerate(indices) if ids[i] not in self._scores])
            for first in range(0, len(left), self._lanes):
                missing.append(self._queued(arm, whole.select(left[first : first + self._lanes])))
        if missing:
            self._train(missing)
        return [self._scores[ids[index]] for index in range(len(runs))]

    def _chunk(self, arm: int, runs: Sequence[Run]) -> Chunk:
        columns: dict[str, list[float | int | None]] = {
            name: [value] * len(runs) for name, value in self._fixed.items()
        }
        for place, name in enumerate(self._names):
            columns[name] = [run.cell.values[place] for run in runs]
        settings = self._arms[arm]
        if settings.learned_alpha:
            columns["alpha"] = [None] * len(runs)
        if settings.learned_lam:
            columns["lam"] = [None] * len(runs)
        columns["seed"] = [run.seed for run in runs]
        return make_chunk(settings, columns, self._lanes)

    def _queued(self, arm: int, chunk: Chunk) -> QueuedChunk:
        self._number += 1
        settings = chunk.settings
        label = f"{settings.environment} {settings.potential} {settings.drift}"
        return QueuedChunk(self._number, arm, chunk, label, 0.0)

    def _train(self, chunks: Sequence[QueuedChunk]) -> None:
        self._queue.add(chunks)
        if self._engine is None:
            self._engine = self._make_engine(self._store.scratch("logs"))
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


def cell_values(names: Sequence[str], cell: Cell) -> dict[str, float]:
    """Return the values of a cell by their names."""
    return dict(zip(names, cell.values, strict=True))
