"""A search for temperatures: Optuna proposes cells, lanes train them, the worse half is stopped.

    propose as many cells as there are lanes -> train a quarter -> keep the better half -> train to
    a half -> keep the better half -> train to the end -> propose again, until the budget is used

Then the best cells, smoothed over their neighbourhood, get further seeds. The winner gets fresh
seeds, and its score is the mean of these alone. The best of many noisy scores is too optimistic, so
no score of the search itself is reported as the result.

Proposals and scores are in Optuna's journal (see `mirrorax.tuning.journal`): an interrupted search
resumes after its last whole batch and ends exactly as it would have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jaxtyping import Float

from mirrorax.errors import UserError
from mirrorax.training.result import finite
from mirrorax.tuning.cells import CheckedCell, SearchBatch, SearchRecord, best_cells
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
#: The fewest cells of a batch, if there are as many lanes: halving fewer compares little.
_FEWEST = 4


class RunGroup(Protocol):
    """Some runs in training."""

    def train(self, until: int) -> Float[np.ndarray, " runs"]:
        """Train on to an update; return the score of each run there, larger is better.

        A run that diverged has NaN, which is worse than any score.
        """

    def keep(self, rows: Sequence[int]) -> RunGroup:
        """Return a group of some of the runs."""


class Trainer(Protocol):
    """What can train runs: `mirrorax.tuning.lanes.LaneTrainer`, or a substitute in tests."""

    lanes: int
    updates: int

    def start(self, cells: Sequence[Cell], seeds: Sequence[int]) -> RunGroup:
        """Return a group of fresh runs, at most as many as there are lanes."""


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
        on_batch: Callable[[SearchRecord, str], None] | None = None,
        sampler: str = "tpe",
    ) -> None:
        self.trainer, self.axes, self.budget = trainer, tuple(axes), budget
        self._storage, self._first, self._seed = storage, first, seed
        self.on_batch = on_batch or (lambda record, part: None)
        self._optuna = import_optuna()
        self.rungs = rung_updates(trainer.updates)
        self._sampler_name = sampler
        self._study = self._open(json.loads(json.dumps(dict(arguments))))
        self.record = SearchRecord()

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

    def run(self) -> SearchRecord:
        """Search, choose, check; what is in the journal is not done again."""
        while (batch := self._next_batch()) is not None:
            self.record.batches.append(batch)
            self.record.spent += batch.cost
            self.on_batch(self.record, "search")
        self._choose()
        self._check()
        return self.record

    def _next_batch(self) -> SearchBatch | None:
        number = len(self.record.batches)
        recorded = self._study.user_attrs.get(f"batch-{number}")
        if recorded is None:
            recorded = self._do_batch(number)
            if recorded is None:
                return None
            # One line of the journal: the batch is done with it, and not begun without it.
            self._study.set_user_attr(f"batch-{number}", recorded)
        trials = {trial.number for trial in self._study.get_trials(deepcopy=False)}
        check_batch(json.loads(json.dumps(recorded)), trials, [axis.name for axis in self.axes])
        self._tell(recorded)
        return SearchBatch(
            number=number,
            cells=tuple(recorded["cells"]),
            scores=tuple(read_scores(recorded["scores"])),
            reached=tuple(recorded["reached"]),
            cost=recorded["cost"],
        )

    def _do_batch(self, number: int) -> dict[str, Any] | None:
        left = self.budget.search - self.record.spent
        # At least four batches, or there would be nothing to learn from.
        fewest = min(_FEWEST, self.trainer.lanes)
        widest = max(batch_size(self.trainer.lanes, self.budget.search / 4, self.rungs), fewest)
        size = min(batch_size(self.trainer.lanes, left, self.rungs), widest)
        if size < fewest:
            return None
        self._forget_unfinished()
        trials = self._ask(number, size)
        cells = [dict(trial.params) for trial in trials]
        for cell in cells:
            cell.update({name: rounded(value) for name, value in cell.items()})
        base = self._seed * _SEED_STRIDE + SEARCH_SEEDS
        first = sum(len(batch.cells) for batch in self.record.batches)
        group = self.trainer.start(cells, [base + first + i for i in range(size)])
        alive = list(range(size))
        scores: list[float | None] = [None] * size
        reached = [0] * size
        curves: list[list[tuple[int, float]]] = [[] for _ in range(size)]
        for rung, until in enumerate(self.rungs):
            seen = finite(group.train(until).tolist())
            for row, score in zip(alive, seen, strict=True):
                scores[row], reached[row] = score, until
                if score is not None:
                    curves[row].append((until, score))
            if rung + 1 < len(self.rungs):
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
            "cost": batch_cost(size, self.rungs),
        }

    def _ask(self, number: int, size: int) -> list[optuna.Trial]:
        samplers = self._optuna.samplers
        # A sampler per batch, seeded by its number: an interruption changes nothing.
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
        """Close the trials of an interrupted batch; the batch is proposed again."""
        states = self._optuna.trial.TrialState
        while self._study.get_trials(deepcopy=False, states=(states.WAITING,)):
            self._study.ask()
        for trial in self._study.get_trials(deepcopy=False, states=(states.RUNNING,)):
            self._study.tell(trial.number, state=states.FAIL)

    def _tell(self, recorded: Mapping[str, Any]) -> None:
        states = self._optuna.trial.TrialState
        trials = {t.number: t for t in self._study.get_trials(deepcopy=False)}
        last = self.rungs[-1]
        for index, number in enumerate(recorded["trials"]):
            stored = trials[number]
            if stored.state.is_finished():
                continue
            trial = self._optuna.trial.Trial(self._study, stored._trial_id)
            if recorded["scores"][index] is None:
                # Pruned without a score: the sampler takes it for the worst.
                self._study.tell(trial, state=states.PRUNED)
                continue
            for until, score in recorded["curves"][index]:
                if until not in stored.intermediate_values:
                    trial.report(score, until)
            if recorded["reached"][index] == last:
                self._study.tell(trial, recorded["scores"][index])
            else:
                self._study.tell(trial, state=states.PRUNED)

    def _choose(self) -> None:
        """Give the best cells further seeds, which alone choose the winner."""
        cells = best_cells(self.axes, self.record.batches, self.budget.candidates)
        each = self.budget.candidate_seeds
        wanted = [(cell, CANDIDATE_SEEDS + i) for cell in cells for i in range(each)]
        scores = self._runs("candidates", wanted)
        for i, cell in enumerate(cells):
            self.record.candidates.append(
                CheckedCell(cell, tuple(scores[i * each : (i + 1) * each]))
            )
        self.on_batch(self.record, "choose")

    def _check(self) -> None:
        """Score the winner and its neighbours on fresh seeds."""
        winner = max(self.record.candidates, key=lambda candidate: candidate.rank).cell
        around = neighbours(self.axes, winner)
        wanted = [(winner, CHECK_SEEDS + i) for i in range(self.budget.check_seeds)]
        each = self.budget.neighbour_seeds
        wanted += [(cell, CHECK_SEEDS + i) for cell in around for i in range(each)]
        scores = self._runs("check", wanted)
        at = self.budget.check_seeds
        self.record.best = CheckedCell(winner, tuple(scores[:at]))
        for cell in around:
            self.record.neighbours.append(CheckedCell(cell, tuple(scores[at : at + each])))
            at += each
        self.on_batch(self.record, "check")

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
                recorded = finite(group.train(self.rungs[-1]).tolist())
                self._study.set_user_attr(name, recorded)
            check_scores(recorded, len(here))
            scores += read_scores(recorded)
            self.record.spent += len(here)
        return scores


def neighbours(axes: Sequence[Axis], cell: Cell) -> list[Cell]:
    """Return the cells one step away in one temperature."""
    return [{**cell, axis.name: v} for axis in axes for v in axis.neighbours(cell[axis.name])]
