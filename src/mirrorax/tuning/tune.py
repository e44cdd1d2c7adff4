"""`tune`: temperatures for one environment, found with a fixed budget of runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from mirrorax.store.store import Store
from mirrorax.tuning.engine import SearchRuns
from mirrorax.tuning.propose import Record, Specification, search
from mirrorax.tuning.result import TuneResult
from mirrorax.tuning.task import TuneTask, prepare


def tune(
    env: str,
    potential: str | Sequence[str] | None = None,
    drift: str | Sequence[str] | None = None,
    *,
    budget: int = 256,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on_batch: Callable[[Record, str], None] | None = None,
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
    task = prepare(env, potential, drift, budget=budget, **more)
    return run_task(task, store=store, workers=workers, on_batch=on_batch)


def run_task(
    task: TuneTask,
    *,
    store: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    on_batch: Callable[[Record, str], None] | None = None,
) -> TuneResult:
    """Do a prepared search, or what is left of it."""
    spec = specification(task)
    record = Record()
    with ExitStack() as stack:
        place = store or stack.enter_context(tempfile.TemporaryDirectory(prefix="mirrorax-tune-"))
        held = stack.enter_context(Store(place))
        runs = stack.enter_context(SearchRuns(task, held, workers, normalise=spec.best is not None))
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
    units = "return" if spec.best is None else "normalised return"
    return TuneResult(task.arms, dict(task.fixed), task.names, record, spec, units)


def specification(task: TuneTask) -> Specification:
    """Return what the search depends on, after a hundred episodes of random play.

    Scores are normalised where the bounds of returns are known.
    """
    from mirrorax.envs import adapter
    from mirrorax.mdpo import host

    env = adapter.make(task.arms[0].environment)
    play = adapter.random_return if isinstance(env, adapter.Environment) else host.random_return
    random, best = play(env), None
    if env.return_bounds is not None:
        low, high = env.return_bounds
        random, best = (random - low) / (high - low), 1.0
    return Specification(
        task.ranges, task.budget, len(task.arms), task.starts, task.seed, random, best
    )
