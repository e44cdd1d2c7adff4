"""`tune`: temperatures for one environment, found with a fixed budget of runs.

What the store has of a search's runs is looked up, the rest goes to an engine. Every finished chunk
is committed to the store before its scores are used. So a search that was stopped, or killed, looks
up what it had done and goes on; it makes the same runs as one that was not. The workers stay, with
their compiled programs, from the first batch to the last.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs import arrow
from mirrorax.runs.chunk import Chunk, make_chunk
from mirrorax.runs.results import Results
from mirrorax.store.reading import Reader
from mirrorax.store.store import Store
from mirrorax.sweep.driver import Signals
from mirrorax.sweep.engine import Engine, InlineEngine
from mirrorax.sweep.plan import Queue, QueuedChunk
from mirrorax.tuning.propose import Record, search
from mirrorax.tuning.result import TuneResult
from mirrorax.tuning.space import Run, Specification
from mirrorax.tuning.task import prepare

_POLL = 0.2
#: Called after each batch with what was found so far and the part of the search.
OnBatch = Callable[[Record, str], None]


def tune(
    env: str,
    potential: str | Sequence[str] | None = None,
    drift: str | Sequence[str] | None = None,
    *,
    budget: int = 256,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on_batch: OnBatch | None = None,
    **more: Any,
) -> TuneResult:
    """Find temperatures for an environment with a budget of runs.

    Args:
        env: the environment.
        potential: the potential h, or several to choose among; suggested or the default if None.
        drift: the drift D, or several.
        budget: how many runs.
        store: a store for the runs; the same call with the same store resumes.
        workers: worker processes; all cores if None; 0 trains in this process.
        on_batch: called after each batch with what was found so far and the part of the search.
        more: `seed`, `steps`, `preset`, `lanes`, `results` (see `suggest`), ranges such as
            `alpha_range` and `lam_range` (two numbers each), `ranges` (name -> two numbers) for
            learning rates and `gamma`, `choices` (setting -> values) for static choices, and every
            setting and value of `train`.

    The result's score is of fresh seeds, which took no part in the search or the choice.
    """
    spec = prepare(env, potential, drift, budget=budget, **more)
    return run_search(spec, store=store, workers=workers, on_batch=on_batch)


def run_search(
    spec: Specification,
    *,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on_batch: OnBatch | None = None,
) -> TuneResult:
    """Do a prepared search, or what is left of it."""
    spec, record = with_random_play(spec), Record()
    with ExitStack() as stack:
        place = store or stack.enter_context(tempfile.TemporaryDirectory(prefix="mirrorax-tune-"))
        held = stack.enter_context(Store(place))
        runs = stack.enter_context(SearchRuns(spec, held, workers))
        proposals = search(spec, record)
        batch = next(proposals)
        while True:
            try:
                batch = proposals.send(runs.scores(batch))
            except StopIteration:
                break
            if on_batch is not None:
                on_batch(record, "choose" if record.candidates else "search")
        if on_batch is not None:
            on_batch(record, "check")
        held.consolidate()
    return TuneResult(spec, record)


def with_random_play(spec: Specification) -> Specification:
    """Return a specification with the score of random play, the mean of a hundred episodes.

    Scores are normalised where the bounds of returns are known; the best is then 1.
    """
    from mirrorax.envs import adapter
    from mirrorax.mdpo.session import random_return

    env = adapter.make(spec.arms[0].environment)
    played = random_return(env)
    if env.return_bounds is None:
        return replace(spec, random=played)
    return replace(spec, random=suite.normalize(played, env.return_bounds), best=1.0)


class SearchRuns:
    """Makes runs for a search and returns their scores."""

    def __init__(self, spec: Specification, store: Store, workers: int | None = None) -> None:
        self._spec, self._store, self._workers = spec, store, workers
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
        lanes = self._spec.lanes
        ids: dict[int, bytes] = {}
        missing: list[QueuedChunk] = []
        for arm, indices in by_arm.items():
            whole = self._chunk(arm, [runs[i] for i in indices])
            ids |= dict(zip(indices, whole.ids.tolist(), strict=True))
            left = np.array([k for k, i in enumerate(indices) if ids[i] not in self._scores])
            for first in range(0, len(left), lanes):
                self._number += 1
                chunk = whole.select(left[first : first + lanes])
                missing.append(QueuedChunk(self._number, arm, chunk))
        if missing:
            self._train(missing)
        return [self._scores[ids[index]] for index in range(len(runs))]

    def _chunk(self, arm: int, runs: Sequence[Run]) -> Chunk:
        settings = self._spec.arms[arm]
        columns: dict[str, list[float | int | None]] = {
            name: [value] * len(runs) for name, value in self._spec.fixed.items()
        }
        for place, name in enumerate(self._spec.names):
            columns[name] = [run.cell.values[place] for run in runs]
        for name in {"alpha", "lam"} - set(settings.axes):  # learned
            columns[name] = [None] * len(runs)
        columns["seed"] = [run.seed for run in runs]
        return make_chunk(settings, columns, self._spec.lanes)

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
        """Take the scores of finished runs; NaN of those that diverged."""
        returns, lengths = arrow.read_lists(results.rows["returns"])
        score = np.nansum(returns, axis=1) / np.maximum(lengths, 1)
        bounds: list[Any] = [origin.bounds or (np.nan, np.nan) for origin in results.origins]
        if self._spec.best is None:  # the bounds are not known: plain returns
            bounds = [(0.0, 1.0)] * len(bounds)
        low, high = results.of_origins(bounds, np.float64).reshape(-1, 2).T
        score = suite.normalize(score, (low, high), results.numbers("reward_scale"))
        lost = results.diverged | (np.isfinite(returns).sum(axis=1) < lengths)
        score = np.where(lost, np.nan, score)
        for run, value, done in zip(results.ids.tolist(), score, results.done, strict=True):
            if done:
                self._scores[run] = float(value)


def _engine(workers: int | None, logs: Path) -> Engine:
    if workers == 0:
        from mirrorax.sweep.worker import CHUNK_FUNCTION, resolve

        return InlineEngine(resolve(CHUNK_FUNCTION))
    from mirrorax.sweep.engines.local import LocalEngine

    return LocalEngine(logs=logs, workers=workers)
