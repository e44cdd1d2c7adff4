"""`tune`: temperatures for one environment, found with a fixed budget of runs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.analysis.few_seeds import AGREE, UNIT, mean_interval, seeds_in_words
from mirrorax.errors import UserError
from mirrorax.runs.settings import OTHER_NUMBERS, TEMPERATURES, RunValues, Settings, make_settings
from mirrorax.training import check_env_alone, check_lanes, check_layout
from mirrorax.training.result import finite
from mirrorax.tuning.cells import CheckedCell, SearchRecord
from mirrorax.tuning.journal import import_optuna, open_journal
from mirrorax.tuning.search import Search
from mirrorax.tuning.space import Axis, Cell, log_axis, plan_budget, w_axis
from mirrorax.tuning.suggestion import Suggestion, as_flags, suggest, without_evidence

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress

#: Bounds of returns that are not known.
_ANY = (-math.inf, math.inf)
#: Settings that have their own flags in a command.
_NAMED = ("environment", "potential", "drift", "plugins")


@dataclass(frozen=True)
class TuneResult:
    """The best cell, its scores on fresh seeds, the scores of its neighbours, and the search."""

    settings: Settings
    fixed: Mapping[str, float]
    cell: Cell  # alpha (or w) and lam
    scores: tuple[float, ...]  # of the fresh seeds; NaN is one that diverged
    neighbours: tuple[CheckedCell, ...]
    search: SearchRecord
    budget: int
    units: str  # "normalised return", or "return" where bounds are not known
    suggestion: Suggestion

    @property
    def best(self) -> CheckedCell:
        """The best cell with its fresh runs."""
        return CheckedCell(self.cell, self.scores)

    @property
    def mean(self) -> float:
        """The mean score of the best cell over the fresh seeds that did not diverge."""
        return self.best.mean

    @property
    def diverged(self) -> int:
        """How many of the fresh seeds diverged."""
        return self.best.diverged

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of that mean; None for fewer than three seeds or if they agree."""
        return mean_interval(np.array(self.best.whole), *self._scale)

    @property
    def seeds_in_words(self) -> str:
        """That interval as text, or what stands in its place."""
        bounds, agree = self._scale
        return seeds_in_words(np.array([self.best.whole]), bounds, agree=agree)

    @property
    def _scale(self) -> tuple[tuple[float, float], float]:
        """The bounds of scores, and how far apart seeds are that agree."""
        return (UNIT, AGREE) if self.units == "normalised return" else (_ANY, 0.0)

    @property
    def spent(self) -> float:
        """Runs of full length that were used."""
        return self.search.spent

    @property
    def searched(self) -> float:
        """The best single score of the search: optimistic, never the result."""
        return self.search.best_single

    @property
    def largest_drop(self) -> float:
        """How much the worst neighbour is below the best cell; infinite if it diverged."""
        return self.mean - min(cell.worth for cell in self.neighbours)

    @property
    def largest_rise(self) -> float:
        """How much the best neighbour is above the best cell."""
        return max(cell.worth for cell in self.neighbours) - self.mean

    @property
    def command(self) -> str:
        """The command that trains the best cell."""
        settings = self.settings
        names = {"env": settings.environment, "potential": settings.potential}
        parts = ["mirrorax train", *as_flags({**names, "drift": settings.drift, **self.cell})]
        parts += as_flags(
            {
                name: getattr(settings, name)
                for name, info in Settings.model_fields.items()
                if name not in _NAMED and getattr(settings, name) != info.default
            }
        )
        parts += [f"--plugin {plugin.partition('==')[0]}" for plugin in settings.plugins]
        parts += as_flags(self.fixed)
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "environment": self.settings.environment,
            "potential": self.settings.potential,
            "drift": self.settings.drift,
            "cell": dict(self.cell),
            "units": self.units,
            "mean": self.mean,
            "interval": self.interval,
            "scores": list(self.scores),
            "diverged": self.diverged,
            "neighbours": [_row(cell) for cell in self.neighbours],
            "largest_drop": self.largest_drop,
            "largest_rise": self.largest_rise,
            "budget": self.budget,
            "spent": self.spent,
            "tried": sum(len(batch.cells) for batch in self.search.batches),
            "searched": self.searched,
            "candidates": [_row(cell) for cell in self.search.candidates],
            "trials": [
                {**cell, "score": score, "updates": at, "batch": batch.number}
                for batch in self.search.batches
                for cell, score, at in zip(batch.cells, batch.scores, batch.reached, strict=True)
            ],
            "suggestion": self.suggestion.to_dict(),
            "settings": self.settings.model_dump(mode="json"),
            "command": self.command,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one line; a number that is not finite becomes null."""
        return json.dumps(finite(self.to_dict()), allow_nan=False)


def _row(checked: CheckedCell) -> dict[str, Any]:
    runs = {"runs": len(checked.scores), "diverged": checked.diverged}
    return {**checked.cell, "mean": checked.mean, **runs}


@dataclass(frozen=True)
class TuneTask:
    """A search whose arguments are checked."""

    settings: Settings
    fixed: Mapping[str, float]
    axes: tuple[Axis, ...]
    suggestion: Suggestion
    budget: int
    seed: int
    lanes: int | None
    layout: Any


def prepare(
    env: str,
    potential: str | None = None,
    drift: str | None = None,
    *,
    budget: int = 256,
    seed: int = 0,
    steps: int | None = None,
    preset: str = "default",
    alpha_range: Sequence[float] | None = None,
    lam_range: Sequence[float] | None = None,
    results: str | os.PathLike[str] | None = None,
    lanes: int | None = None,
    layout: Any = None,
    **more: Any,
) -> TuneTask:
    """Check the arguments of `tune`, before anything heavy is imported."""
    import_optuna()
    fixed = {name: more.pop(name) for name in OTHER_NUMBERS if more.get(name) is not None}
    more = {name: value for name, value in more.items() if value is not None}
    for name in TEMPERATURES:
        if name in more:
            raise UserError(f"{name}: the search finds it; give {name}_range to limit it")
    check_env_alone(env, more)
    plan_budget(budget)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 10**6:
        raise UserError(f"seed: {seed!r} is not allowed: a whole number from 0 to 999999")
    check_lanes(lanes)
    check_layout(layout)
    # Everything but the pair is checked first: a suggestion takes a while.
    if steps is not None:
        more["steps"] = steps
    pair = {"potential": potential, "drift": drift}
    known = {name: value for name, value in pair.items() if value is not None}
    draft = make_settings(preset, **{**more, **known, "environment": env})
    if draft.on_policy and results is None:
        suggestion = without_evidence(draft.environment, potential, drift)
    else:
        scale = float(RunValues(**fixed).reward_scale)
        suggestion = suggest(
            draft.environment,
            reward_scale=scale,
            potential=potential,
            drift=drift,
            results=results,
        )
    pair = {"potential": suggestion.potential, "drift": suggestion.drift}
    settings = make_settings(preset, **{**more, "environment": env, **pair})
    if settings.learned_alpha:
        if alpha_range is not None:
            raise UserError("alpha_range: alpha is learned; the search is over w in [0, 1]")
        first = w_axis()
    else:
        first = log_axis("alpha", suggestion.alpha_range, alpha_range)
    second = log_axis("lam", suggestion.lam_range, lam_range)
    for axis in (first, second):
        _check_ends(axis)
    return TuneTask(
        settings, fixed, (first, second), suggestion, int(budget), int(seed), lanes, layout
    )


def _check_ends(axis: Axis) -> None:
    """Refuse a range of which a run, or one of the winner's neighbours, could not be trained."""
    if not axis.log:
        return
    for value in (min(axis.neighbours(axis.low)), max(axis.neighbours(axis.high))):
        values: dict[str, Any] = {axis.name: value}
        try:
            RunValues(**values)
        except UserError as error:
            reason = str(error).removeprefix(f"{axis.name}: ")
            raise UserError(f"{axis.name}_range: {reason}, a neighbour of the range") from None


def tune(
    env: str,
    potential: str | None = None,
    drift: str | None = None,
    *,
    budget: int = 256,
    store: str | os.PathLike[str] | None = None,
    on_batch: Callable[[SearchRecord, str], None] | None = None,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    **more: Any,
) -> TuneResult:
    """Find temperatures for an environment with a budget of runs.

    Unless given, the pair is the suggested one. `budget` counts runs of full length: a run that is
    stopped half-way counts as half. `store` is a folder for the search's journal; the same call
    with the same folder resumes the search. `seed`, `steps`, `preset`, `lanes`, `layout`, `results`
    (see `suggest`), `alpha_range` and `lam_range` (two numbers each), `gamma`, `reward_scale`, the
    learning rates, and every setting of `train` can be given too.

    The result's score is of fresh seeds, which took no part in the search or the choice.
    """
    task = prepare(env, potential, drift, budget=budget, **more)
    return run_task(task, store=store, on_batch=on_batch, on_segment=on_segment)


def run_task(
    task: TuneTask,
    *,
    store: str | os.PathLike[str] | None = None,
    on_batch: Callable[[SearchRecord, str], None] | None = None,
    on_segment: Callable[[SegmentProgress], None] | None = None,
) -> TuneResult:
    """Do a prepared search, or what is left of it."""
    folder = None if store is None else Path(os.fspath(store))
    if folder is not None and folder.exists() and not folder.is_dir():
        raise UserError(f"store: {str(folder)!r} is a file; name a folder")
    with open_journal(folder) as storage:
        from mirrorax.mdpo.machine import check_memory
        from mirrorax.tuning.lanes import LaneTrainer

        trainer = LaneTrainer(
            task.settings,
            task.fixed,
            lanes=task.lanes,
            layout=task.layout,
            on_segment=on_segment,
        )
        # The better half of a batch exists twice for a moment.
        check_memory(trainer.program, trainer.lanes, copies=2)
        search = Search(
            trainer,
            task.axes,
            plan_budget(task.budget),
            storage,
            arguments={
                "settings": task.settings.model_dump(mode="json"),
                "fixed": dict(task.fixed),
                "budget": task.budget,
                "seed": task.seed,
                "lanes": trainer.lanes,
                "layout": trainer.layout,
                "axes": [[a.name, a.low, a.high, list(a.start)] for a in task.axes],
                "algorithm_version": ALGORITHM_VERSION,
            },
            first=_first(task),
            seed=task.seed,
            on_batch=on_batch,
        )
        record = search.run()
    assert record.best is not None
    return TuneResult(
        settings=task.settings,
        fixed=task.fixed,
        cell=record.best.cell,
        scores=record.best.scores,
        neighbours=tuple(record.neighbours),
        search=record,
        budget=task.budget,
        units="return" if trainer.bounds is None else "normalised return",
        suggestion=task.suggestion,
    )


def _first(task: TuneTask) -> Cell | None:
    """Return the suggested cell, if it lies within the range of the search."""
    suggested = {"alpha": task.suggestion.alpha, "lam": task.suggestion.lam}
    if any(axis.name not in suggested for axis in task.axes):
        return None
    if any(not axis.low <= suggested[axis.name] <= axis.high for axis in task.axes):
        return None
    return suggested
