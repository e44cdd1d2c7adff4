"""What a search tries next: a deterministic function of its specification and of the scores so far.

    proposals = search(specification)          # a generator
    runs = next(proposals)
    while True: runs = proposals.send(scores)  # until StopIteration, whose value is the `Record`

It yields batches of runs and is sent their scores. It keeps nothing else: whoever sends the same
scores again gets the same batches again. So a search whose finished runs are in a store needs no
record of its own, and goes on after an interruption by being asked from the start.

- The first batch: the starting cells (the default, and what evidence suggests), and cells spread
  over the whole range, denser in its middle.
- Each further batch: a third goes on with the spread, so that no place is left out for good; the
  others are where a run is expected to raise the best expected score most (see `most_telling`).
  While nothing is better than random play, the whole batch is of the spread.
- The range grows by a decade where the best cell is at its edge, and on all sides while nothing is
  better than random play.
- Then the best cells get further seeds. The best by all of its runs gets fresh seeds, and so do
  its neighbours. Only those are the result: the best of many noisy scores flatters itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv

from mirrorax.formatting import Shown
from mirrorax.tuning import surrogate
from mirrorax.tuning.space import Cell, Range, Run, Specification

#: Seeds of the three parts: no run of one is a run of another.
SEARCH_SEEDS, CHOICE_SEEDS, CHECK_SEEDS = 0, 1_000_000, 2_000_000
SEED_STRIDE = 10_000_000
#: Of a batch, one in so many goes on with the spread.
SPREAD_EVERY = 3
#: The first batch is this part of the search; further ones are smaller.
FIRST_PART, NEXT_PART = 8, 12
LEAST_FIRST, LEAST_NEXT = 8, 4
#: A best cell this close to an end of the range, of its width, is at its edge.
EDGE = 0.1
#: A score is near random play if it is no more than this part of the way to the best possible.
NEAR_RANDOM = 0.1
#: Candidates for further seeds are at least this far apart.
APART = 0.15
#: The density of the spread over a range is proportional to (u (1 - u))^(MIDDLE - 1).
MIDDLE = 2.0
#: Places that are compared: all over the range, and around the best cells, so far in decades.
PLACES, BEST_CELLS, AROUND, NEAR = 96, 6, 16, 0.35
#: Points and weights of a mean over a standard normal variable.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_NORMAL = tuple(zip(_POINTS.tolist(), (_WEIGHTS / _WEIGHTS.sum()).tolist(), strict=True))


@dataclass(frozen=True)
class Trial:
    """A run and its score; NaN if it diverged."""

    run: Run
    score: float


@dataclass(frozen=True)
class CellScores:
    """A cell and the scores of its runs; NaN is one that diverged."""

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


@dataclass(repr=False)
class Record(Shown):
    """What a search has seen, and its result once it is complete."""

    batches: list[list[Trial]] = field(default_factory=list)
    ranges: tuple[Range, ...] = ()
    candidates: list[CellScores] = field(default_factory=list)
    best: CellScores | None = None
    neighbours: list[CellScores] = field(default_factory=list)
    #: the surrogate after so many runs: a memory, nothing depends on it
    _models: dict[int, surrogate.Surrogate] = field(default_factory=dict, repr=False)

    @property
    def trials(self) -> list[Trial]:
        """The runs of the search, in order."""
        return [item for batch in self.batches for item in batch]

    @property
    def spent(self) -> int:
        """How many runs were made for it."""
        checked = [*self.candidates, *self.neighbours, *([self.best] if self.best else [])]
        return len(self.trials) + sum(len(item.scores) for item in checked)

    @property
    def searched(self) -> float:
        """The best score of a run of the search: optimistic, for comparison only."""
        return max((t.score for t in self.trials if math.isfinite(t.score)), default=math.nan)


Proposals = Generator[list[Run], Sequence[float], Record]


def search(specification: Specification, record: Record | None = None) -> Proposals:
    """Yield batches of runs; take their scores; return the record.

    `record`, if given, is filled on the way, so that a caller can look at it between batches.
    """
    record = Record() if record is None else record
    yield from explore(specification, record)
    winner = yield from choose(specification, record)
    yield from check(specification, record, winner)
    return record


def explore(spec: Specification, record: Record) -> Generator[list[Run], Sequence[float], None]:
    """Yield the batches of the search itself."""
    record.ranges = spec.ranges
    left = runs = spec.budget.search
    while left > 0:
        size = max(runs // NEXT_PART, LEAST_NEXT)
        if not record.batches:
            size = max(runs // FIRST_PART, LEAST_FIRST)
        batch = propose(spec, record, min(left, size))
        scores = yield batch
        record.batches.append([Trial(r, float(s)) for r, s in zip(batch, scores, strict=True)])
        record.ranges = grow(spec, record)
        left -= len(batch)


def choose(spec: Specification, record: Record) -> Generator[list[Run], Sequence[float], Cell]:
    """Give the best cells further seeds; return the best of them by all of its runs."""
    cells = best_cells(spec, record, spec.budget.candidates)
    counts = [spec.budget.candidate_seeds] * len(cells)
    record.candidates = yield from _score(spec, cells, CHOICE_SEEDS, counts)
    worth = dict(zip(cells, _worth(_model(spec, record), spec, cells), strict=True))
    return max(record.candidates, key=lambda item: (-item.diverged, worth[item.cell])).cell


def check(
    spec: Specification, record: Record, winner: Cell
) -> Generator[list[Run], Sequence[float], None]:
    """Give the winner and its neighbours fresh seeds: the result."""
    around = neighbours(spec, winner)
    counts = [spec.budget.check_seeds] + [spec.budget.neighbour_seeds] * len(around)
    record.best, *record.neighbours = yield from _score(
        spec, [winner, *around], CHECK_SEEDS, counts
    )


def _score(
    spec: Specification, cells: Sequence[Cell], base: int, counts: Sequence[int]
) -> Generator[list[Run], Sequence[float], list[CellScores]]:
    first = spec.seed * SEED_STRIDE + base
    runs = [Run(c, first + i) for c, n in zip(cells, counts, strict=True) for i in range(n)]
    scores = iter((yield runs))
    return [
        CellScores(cell, tuple(float(next(scores)) for _ in range(count)))
        for cell, count in zip(cells, counts, strict=True)
    ]


def propose(spec: Specification, record: Record, size: int) -> list[Run]:
    """Return the runs of the next batch."""
    if not record.batches:
        cells = list(spec.starts[:size])
        cells += spread(spec, record.ranges, 0, size - len(cells))
    else:
        # No point of the spread comes twice; some are left out.
        lost = near_random(spec, record.searched)  # there is nothing to learn from yet
        first = len(record.trials)
        cells = spread(spec, record.ranges, first, size if lost else -(-size // SPREAD_EVERY))
        cells += most_telling(spec, record, size - len(cells))
    return _numbered(spec, record, cells)


def spread(spec: Specification, ranges: Sequence[Range], first: int, count: int) -> list[Cell]:
    """Return points of an additive recurrence over the range, one arm after the other.

    Its steps are powers of the root of x^(d+1) = x + 1, which spread evenly in d dimensions. They
    are then drawn towards the middle of the range: good temperatures are seldom at its ends.
    """
    axes = len(ranges)
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (axes + 1))
    steps = root ** -np.arange(1, axes + 1)
    offset = np.random.default_rng([spec.seed, 1_000_003]).random(axes)
    out = []
    for index in range(first, first + count):
        unit = betaincinv(MIDDLE, MIDDLE, (offset + (index + 1) * steps) % 1.0)
        values = tuple(r.at(float(u)) for r, u in zip(ranges, unit, strict=True))
        out.append(Cell(index % len(spec.arms), values))
    return out


def _numbered(spec: Specification, record: Record, cells: Sequence[Cell]) -> list[Run]:
    """Give each cell the next seed that it has not had."""
    had = Counter(item.run.cell for item in record.trials)
    out = []
    for cell in cells:
        out.append(Run(cell, spec.seed * SEED_STRIDE + SEARCH_SEEDS + had[cell]))
        had[cell] += 1
    return out


def _places(ranges: Sequence[Range], cells: Sequence[Cell]) -> Float[np.ndarray, "cells axes"]:
    rows = [[r.place(v) for r, v in zip(ranges, c.values, strict=True)] for c in cells]
    return np.array(rows, dtype=np.float64).reshape(len(cells), len(ranges))


def _model(spec: Specification, record: Record) -> surrogate.Surrogate:
    """Fit the surrogate to all runs; a run that diverged counts as the worst there is."""
    pairs = [(item.run.cell, item.score) for item in record.trials]
    pairs += [(item.cell, score) for item in record.candidates for score in item.scores]
    if len(pairs) in record._models:
        return record._models[len(pairs)]
    cells = [cell for cell, _ in pairs]
    scores = np.array([score for _, score in pairs])
    known = scores[np.isfinite(scores)].tolist()
    floor = min([*known, *([] if spec.random is None else [spec.random])], default=0.0)
    arms = np.array([cell.arm for cell in cells])
    scores = np.where(np.isfinite(scores), scores, floor)
    model = surrogate.fit(_places(spec.ranges, cells), arms, scores)
    record._models[len(pairs)] = model
    return model


def most_telling(spec: Specification, record: Record, count: int) -> list[Cell]:
    """Return the cells where a run is expected to raise the best expected score most.

    With the expected scores m and their covariance C at some places, a run at place j with noise v
    changes m by Z C[:, j] / sqrt(C[j, j] + v), where Z is standard normal. Its worth is the mean
    over Z of the largest entry of the new m (the knowledge gradient: Frazier et al., 2009). The
    next one is chosen as if that run had scored as expected: m stays, C shrinks. A cell that was
    tried is one of the places, so a cell whose score is in doubt is tried again.
    """
    if count <= 0:
        return []
    model, rng = _model(spec, record), np.random.default_rng([spec.seed, len(record.batches)])
    tried = list(dict.fromkeys(item.run.cell for item in record.trials))
    known, arms = _places(spec.ranges, tried), np.array([cell.arm for cell in tried])
    low, high = np.array([r.ends for r in record.ranges]).T
    best = np.argsort(-model.predict(known, arms)[0], kind="stable")[:BEST_CELLS]
    near = np.repeat(known[best], AROUND, axis=0)
    near = np.clip(near + NEAR * rng.standard_normal(near.shape), low, high)
    far = low + rng.random((max(PLACES, AROUND * len(spec.arms)), len(low))) * (high - low)
    x = np.concatenate([known, near, far])
    arm = np.concatenate(
        [arms, np.repeat(arms[best], AROUND), np.arange(len(far)) % len(spec.arms)]
    )
    mean, covariance = model.predict(x, arm)
    out = []
    for _ in range(count):
        change = covariance / np.sqrt(np.diag(covariance) + model.noise)
        worth = sum(w * (mean[:, None] + z * change).max(axis=0) for z, w in _NORMAL)
        j = int(np.argmax(worth))
        values = (r.value(float(place)) for r, place in zip(record.ranges, x[j], strict=True))
        out.append(tried[j] if j < len(tried) else Cell(int(arm[j]), tuple(values)))
        row = covariance[j]
        covariance = covariance - np.outer(row, row) / (row[j] + model.noise)
    return out


def best_cells(spec: Specification, record: Record, count: int) -> list[Cell]:
    """Return the best cells by what the surrogate makes of all runs, some distance apart.

    One run is a noisy score: a cell whose neighbours did well, too, is to be preferred to a lonely
    lucky one. A cell of which every run diverged is none.
    """
    scores: dict[Cell, list[float]] = {}
    for item in record.trials:
        scores.setdefault(item.run.cell, []).append(item.score)
    cells = [c for c, values in scores.items() if np.isfinite(values).any()] or list(scores)
    x = _places(spec.ranges, cells)
    chosen: list[int] = []
    for index in np.argsort(-_worth(_model(spec, record), spec, cells), kind="stable"):
        apart = all(
            cells[index].arm != cells[other].arm or np.linalg.norm(x[index] - x[other]) >= APART
            for other in chosen
        )
        if apart:
            chosen.append(int(index))
        if len(chosen) == count:
            break
    return [cells[index] for index in chosen]


def _worth(
    model: surrogate.Surrogate, spec: Specification, cells: Sequence[Cell]
) -> Float[np.ndarray, " cells"]:
    """Return the expected scores less one standard error, so that a lucky cell does not win."""
    arms = np.array([cell.arm for cell in cells])
    mean, covariance = model.predict(_places(spec.ranges, cells), arms)
    return mean - np.sqrt(np.maximum(np.diag(covariance), 0.0))


def grow(spec: Specification, record: Record) -> tuple[Range, ...]:
    """Return the ranges of the next batch: wider where the best cell is at an edge.

    Near random play no place is better than another, and every range grows.
    """
    lost = near_random(spec, record.searched)
    if lost:
        # Not before the range has been looked at: a run for every square decade.
        area = math.prod(high - low for low, high in (r.ends for r in record.ranges))
        if len(record.trials) < area * len(spec.arms):
            return record.ranges
    (best,) = best_cells(spec, record, 1)
    out = []
    for r, value in zip(record.ranges, best.values, strict=True):
        low, high = r.ends
        at, width = r.place(value), high - low
        below = lost or at - low < EDGE * width
        above = lost or high - at < EDGE * width
        out.append(r.grown(below, above))
    return tuple(out)


def near_random(spec: Specification, score: float) -> bool:
    """Whether a score is hardly better than random play, as far as that is known."""
    if spec.random is None:
        return False
    if math.isnan(score):
        return True  # every run diverged
    most = spec.best if spec.best is not None else max(score, spec.random)
    return score <= spec.random + NEAR_RANDOM * (most - spec.random)


def neighbours(spec: Specification, cell: Cell) -> list[Cell]:
    """Return the cells one step away in one value."""
    out = []
    for index, r in enumerate(spec.ranges):
        for value in r.neighbours(cell.values[index]):
            values = (*cell.values[:index], value, *cell.values[index + 1 :])
            out.append(Cell(cell.arm, values))
    return out
