"""A search for temperatures: Optuna asks, lanes train, the worse half of a batch is stopped.

    ask as many cells as there are lanes -> train a quarter -> keep the better half -> train to a
    half -> keep the better half -> train to the end -> tell -> ask again, until the budget is used

Then the best cells, smoothed over their neighbourhood, get further seeds; the winner of those gets
fresh ones, and its score is of these alone, with its neighbours beside it. The best of many noisy
scores flatters itself: nothing the search has seen is reported as the result.

What was asked and told is in Optuna's journal (see `mirrorax.tuning.journal`): a search that is
interrupted goes on from its last whole batch and ends exactly as it would have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float

from mirrorax.errors import UserError
from mirrorax.formatting import counted
from mirrorax.training import finite
from mirrorax.tuning.journal import (
    check_batch,
    check_scores,
    damaged,
    difference,
    import_optuna,
    read_scores,
)
from mirrorax.tuning.space import (
    Axis,
    Budget,
    Cell,
    batch_cost,
    batch_size,
    distance,
    kept,
    rounded,
    rung_updates,
)

if TYPE_CHECKING:
    import optuna

_NAME = "mirrorax"
#: Seeds of the three parts: no run of one is a run of another.
SEARCH_SEEDS, CANDIDATE_SEEDS, CHECK_SEEDS = 0, 1_000_000, 2_000_000
_SEED_STRIDE = 10_000_000
#: Smoothing among the scores of the search, in decades, and the weight of their mean.
_BANDWIDTH, _PRIOR = 0.25, 1.0
#: Candidates are at least this far apart, in decades.
_APART = 0.15
#: The fewest cells of a batch, if there are as many lanes: of fewer, halving compares little.
_FEWEST = 4


class Group(Protocol):
    """Some runs in training."""

    def train(self, until: int) -> Float[np.ndarray, " runs"]:
        """Train on to an update; return the score of each run there, larger is better.

        A run that diverged has NaN: it is worse than any other, whatever scores are counted in.
        """

    def keep(self, rows: Sequence[int]) -> Group:
        """Return a group of some of the runs."""


class Trainer(Protocol):
    """Whoever can train runs: `mirrorax.tuning.lanes.LaneTrainer`, or a stand-in."""

    lanes: int
    updates: int

    def start(self, cells: Sequence[Cell], seeds: Sequence[int]) -> Group:
        """Return a group of fresh runs, at most as many as there are lanes."""


@dataclass(frozen=True)
class Batch:
    """What became of one batch: a row per cell that was asked for."""

    number: int
    cells: tuple[Cell, ...]
    scores: tuple[float, ...]  # of the last rung each reached; NaN if it diverged
    reached: tuple[int, ...]  # the update at which each was stopped
    cost: float  # in runs of full length


@dataclass(frozen=True)
class Checked:
    """A cell and the scores of its fresh runs; NaN is one that diverged."""

    cell: Cell
    scores: tuple[float, ...]

    @property
    def whole(self) -> tuple[float, ...]:
        """The scores of the runs that did not diverge."""
        return tuple(score for score in self.scores if math.isfinite(score))

    @property
    def diverged(self) -> int:
        """How many runs diverged."""
        return len(self.scores) - len(self.whole)

    @property
    def mean(self) -> float:
        """The mean score of the runs that did not diverge; NaN if all did."""
        return float(np.mean(self.whole)) if self.whole else math.nan

    @property
    def worth(self) -> float:
        """The mean score; below any other if all runs diverged."""
        return self.mean if self.whole else -math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """What the better of two cells has more of: runs that held, then score."""
        return -self.diverged, self.worth


@dataclass
class Found:
    """Everything a search found."""

    batches: list[Batch] = field(default_factory=list)
    candidates: list[Checked] = field(default_factory=list)
    best: Checked | None = None
    neighbours: list[Checked] = field(default_factory=list)
    spent: float = 0.0

    @property
    def searched(self) -> float:
        """The best score the search itself saw at full length: optimistic, for comparison only."""
        return max(
            (s for _, s in at_full_length(self.batches) if math.isfinite(s)), default=math.nan
        )


class Search:
    """One search. `run` does what is left of it."""

    def __init__(
        self,
        trainer: Trainer,
        axes: Sequence[Axis],
        budget: Budget,
        storage: Any,
        *,
        arguments: Mapping[str, Any],
        first: Cell | None = None,
        seed: int = 0,
        on_batch: Callable[[Found, str], None] | None = None,
        sampler: str = "tpe",
    ) -> None:
        self.trainer, self.axes, self.budget = trainer, tuple(axes), budget
        self._storage, self._first, self._seed = storage, first, seed
        self._tell_people = on_batch or (lambda found, part: None)
        self._optuna = import_optuna()
        self._rungs = rung_updates(trainer.updates)
        self._sampler_name = sampler
        self._study = self._open(json.loads(json.dumps(dict(arguments))))
        self.found = Found()

    def _open(self, arguments: dict[str, Any]) -> optuna.Study:
        try:
            study = self._optuna.create_study(
                study_name=_NAME, storage=self._storage, direction="maximize", load_if_exists=True
            )
            study.get_trials(deepcopy=False)
            if len(self._storage.get_all_studies()) > 1:
                raise ValueError("a journal holds one search")
        except Exception:  # whatever Optuna raises for a journal that is not its own
            raise damaged() from None
        before = study.user_attrs.get("arguments")
        if before is None:
            study.set_user_attr("arguments", arguments)
        elif before != arguments:
            what = difference(before if isinstance(before, dict) else {}, arguments)
            raise UserError(
                f"store: it holds a search with other arguments ({what}); choose another folder"
            )
        return study

    # Search

    def run(self) -> Found:
        """Search, choose, check; what the journal has already is not done again."""
        while (batch := self._next_batch()) is not None:
            self.found.batches.append(batch)
            self.found.spent += batch.cost
            self._tell_people(self.found, "search")
        self._choose()
        self._check()
        return self.found

    def _next_batch(self) -> Batch | None:
        number = len(self.found.batches)
        recorded = self._study.user_attrs.get(f"batch-{number}")
        if recorded is None:
            recorded = self._do_batch(number)
            if recorded is None:
                return None
            # One line of the journal: after it the batch is done, before it it was never begun.
            self._study.set_user_attr(f"batch-{number}", recorded)
        trials = {trial.number for trial in self._study.get_trials(deepcopy=False)}
        check_batch(json.loads(json.dumps(recorded)), trials, [axis.name for axis in self.axes])
        self._tell(recorded)
        return Batch(
            number=number,
            cells=tuple(recorded["cells"]),
            scores=tuple(read_scores(recorded["scores"])),
            reached=tuple(recorded["reached"]),
            cost=recorded["cost"],
        )

    def _do_batch(self, number: int) -> dict[str, Any] | None:
        left = self.budget.search - self.found.spent
        # At least four batches, or there would be nothing to learn from.
        fewest = min(_FEWEST, self.trainer.lanes)
        widest = max(batch_size(self.trainer.lanes, self.budget.search / 4, self._rungs), fewest)
        size = min(batch_size(self.trainer.lanes, left, self._rungs), widest)
        if size < fewest:
            return None
        self._forget_unfinished()
        trials = self._ask(number, size)
        cells = [dict(trial.params) for trial in trials]
        for cell in cells:
            cell.update({name: rounded(value) for name, value in cell.items()})
        base = self._seed * _SEED_STRIDE + SEARCH_SEEDS
        first = sum(len(batch.cells) for batch in self.found.batches)
        group = self.trainer.start(cells, [base + first + i for i in range(size)])
        alive = list(range(size))
        scores: list[float | None] = [None] * size
        reached = [0] * size
        curves: list[list[tuple[int, float]]] = [[] for _ in range(size)]
        for rung, until in enumerate(self._rungs):
            seen = finite(group.train(until).tolist())
            for row, score in zip(alive, seen, strict=True):
                scores[row], reached[row] = score, until
                if score is not None:
                    curves[row].append((until, score))
            if rung + 1 < len(self._rungs):
                worth = np.array([-math.inf if score is None else score for score in seen])
                order = np.argsort(-worth, kind="stable")[: kept(len(alive))]
                rows = sorted(int(i) for i in order)
                group, alive = group.keep(rows), [alive[i] for i in rows]
        return {
            "trials": [trial.number for trial in trials],
            "cells": cells,
            "scores": scores,
            "reached": reached,
            "curves": curves,
            "cost": batch_cost(size, self._rungs),
        }

    def _ask(self, number: int, size: int) -> list[optuna.Trial]:
        samplers = self._optuna.samplers
        # A sampler per batch, seeded by its number: where a search was interrupted leaves no trace.
        seed = int(np.random.default_rng([self._seed, number]).integers(2**31))
        if self._sampler_name == "random":
            self._study.sampler = samplers.RandomSampler(seed=seed)
        else:
            self._study.sampler = samplers.TPESampler(
                seed=seed, multivariate=True, constant_liar=True, n_startup_trials=_FEWEST
            )
        space = {
            axis.name: self._optuna.distributions.FloatDistribution(
                axis.low, axis.high, log=axis.log
            )
            for axis in self.axes
        }
        if number == 0 and self._sampler_name != "random":
            rng = np.random.default_rng([self._seed, 0, 1])
            drawn = [{axis.name: axis.draw(rng) for axis in self.axes} for _ in range(size)]
            if self._first is not None:
                drawn[0] = {axis.name: self._first[axis.name] for axis in self.axes}
            for cell in drawn:
                self._study.enqueue_trial(cell)
        return [self._study.ask(space) for _ in range(size)]

    def _forget_unfinished(self) -> None:
        """Give up what an interrupted batch asked for; it will be asked for again."""
        states = self._optuna.trial.TrialState
        while self._study.get_trials(deepcopy=False, states=(states.WAITING,)):
            self._study.ask()
        for trial in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            self._study.tell(trial.number, state=states.FAIL)

    def _tell(self, recorded: Mapping[str, Any]) -> None:
        states = self._optuna.trial.TrialState
        trials = {t.number: t for t in self._study.get_trials(deepcopy=False)}
        last = self._rungs[-1]
        for index, number in enumerate(recorded["trials"]):
            known = trials[number]
            if known.state.is_finished():
                continue
            asked = self._optuna.trial.Trial(self._study, known._trial_id)
            if recorded["scores"][index] is None:
                # Stopped, without anything to report: the sampler takes it for the worst there is.
                self._study.tell(asked, state=states.PRUNED)
                continue
            for until, score in recorded["curves"][index]:
                if until not in known.intermediate_values:
                    asked.report(score, until)
            if recorded["reached"][index] == last:
                self._study.tell(asked, recorded["scores"][index])
            else:
                self._study.tell(asked, state=states.PRUNED)

    # Choose and check

    def _choose(self) -> None:
        """Give the best cells further seeds; a winner is chosen by these alone."""
        cells = best_cells(self.axes, self.found.batches, self.budget.candidates)
        each = self.budget.candidate_seeds
        wanted = [(cell, CANDIDATE_SEEDS + i) for cell in cells for i in range(each)]
        scores = self._runs("candidates", wanted)
        for i, cell in enumerate(cells):
            self.found.candidates.append(Checked(cell, tuple(scores[i * each : (i + 1) * each])))
        self._tell_people(self.found, "choose")

    def _check(self) -> None:
        """Score the winner and its neighbours on seeds that nobody has seen."""
        winner = max(self.found.candidates, key=lambda one: one.rank).cell
        around = neighbours(self.axes, winner)
        wanted = [(winner, CHECK_SEEDS + i) for i in range(self.budget.check_seeds)]
        each = self.budget.neighbour_seeds
        wanted += [(cell, CHECK_SEEDS + i) for cell in around for i in range(each)]
        scores = self._runs("check", wanted)
        at = self.budget.check_seeds
        self.found.best = Checked(winner, tuple(scores[:at]))
        for cell in around:
            self.found.neighbours.append(Checked(cell, tuple(scores[at : at + each])))
            at += each
        self._tell_people(self.found, "check")

    def _runs(self, part: str, wanted: Sequence[tuple[Cell, int]]) -> list[float]:
        """Train runs to their end, group by group; each group is a line of the journal."""
        scores: list[float] = []
        base = self._seed * _SEED_STRIDE
        for first in range(0, len(wanted), self.trainer.lanes):
            here = wanted[first : first + self.trainer.lanes]
            name = f"{part}-{first}"
            recorded = self._study.user_attrs.get(name)
            if recorded is None:
                group = self.trainer.start([c for c, _ in here], [base + s for _, s in here])
                recorded = finite(group.train(self._rungs[-1]).tolist())
                self._study.set_user_attr(name, recorded)
            check_scores(recorded, len(here))
            scores += read_scores(recorded)
            self.found.spent += len(here)
        return scores


def at_full_length(batches: Sequence[Batch]) -> list[tuple[Cell, float]]:
    """Return the cells that were trained to the end, with their scores."""
    return [
        (cell, score)
        for batch in batches
        for cell, score, at in zip(batch.cells, batch.scores, batch.reached, strict=True)
        if at == max(batch.reached)
    ]


def best_cells(axes: Sequence[Axis], batches: Sequence[Batch], count: int) -> list[Cell]:
    """Return the best cells that were trained to the end, by scores smoothed over neighbours.

    One run is a noisy score: a cell whose neighbours did well, too, is to be preferred to a lonely
    lucky one. Cells that are nearly the same count once, and those that diverged not at all; to
    their neighbours they are as bad as the worst.
    """
    rows = at_full_length(batches)
    given = np.array([score for _, score in rows])
    held = np.isfinite(given)
    if not held.any():
        raise UserError(
            f"tune: all {counted(len(rows), 'run')} that the search finished diverged; narrow "
            "alpha_range and lam_range, or lower the learning rates"
        )
    place = np.array([[a.to_unit(cell[a.name]) for a in axes] for cell, _ in rows])
    scores = np.where(held, given, given[held].min())
    apart = ((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=-1)
    weight = np.exp(-apart / (2 * _BANDWIDTH**2))
    smoothed = (weight @ scores + _PRIOR * scores.mean()) / (weight.sum(axis=1) + _PRIOR)
    chosen: list[Cell] = []
    for index in np.argsort(np.where(held, -smoothed, np.inf), kind="stable")[: held.sum()]:
        cell = rows[int(index)][0]
        if all(distance(axes, cell, other) >= _APART for other in chosen):
            chosen.append(cell)
        if len(chosen) == count:
            break
    return chosen


def neighbours(axes: Sequence[Axis], cell: Cell) -> list[Cell]:
    """Return the cells one step away in one temperature."""
    return [{**cell, axis.name: v} for axis in axes for v in axis.neighbours(cell[axis.name])]
