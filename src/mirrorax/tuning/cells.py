"""What a search has found: its batches, the cells that were checked, and how to rank them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mirrorax.errors import UserError
from mirrorax.formatting import counted
from mirrorax.tuning.space import Axis, Cell, distance

#: Smoothing among the scores of the search, in decades, and the weight of their mean.
_BANDWIDTH, _PRIOR = 0.25, 1.0
#: Candidates are at least this far apart, in decades.
_APART = 0.15


@dataclass(frozen=True)
class SearchBatch:
    """One batch of the search: a row per cell."""

    number: int
    cells: tuple[Cell, ...]
    scores: tuple[float, ...]  # where each stopped; NaN if it diverged
    reached: tuple[int, ...]  # the update at which each stopped
    cost: float  # in runs of full length


@dataclass(frozen=True)
class CheckedCell:
    """A cell and the scores of its fresh runs; NaN is a run that diverged."""

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
        """Cells are ranked by how few runs diverged, then by the score."""
        return -self.diverged, self.worth


@dataclass
class SearchRecord:
    """Everything a search found."""

    batches: list[SearchBatch] = field(default_factory=list)
    candidates: list[CheckedCell] = field(default_factory=list)
    best: CheckedCell | None = None
    neighbours: list[CheckedCell] = field(default_factory=list)
    spent: float = 0.0

    @property
    def best_single(self) -> float:
        """The best score of one run of the search: optimistic, for comparison only."""
        scores = (score for _, score in at_full_length(self.batches) if math.isfinite(score))
        return max(scores, default=math.nan)


def at_full_length(batches: Sequence[SearchBatch]) -> list[tuple[Cell, float]]:
    """Return the cells that were trained to the end, with their scores."""
    return [
        (cell, score)
        for batch in batches
        for cell, score, at in zip(batch.cells, batch.scores, batch.reached, strict=True)
        if at == max(batch.reached)
    ]


def best_cells(axes: Sequence[Axis], batches: Sequence[SearchBatch], count: int) -> list[Cell]:
    """Return the best cells that were trained to the end, by scores smoothed over neighbours.

    One run is a noisy score: a cell whose neighbours did well is better than a lonely lucky one.
    Cells that are nearly the same count once. Cells that diverged are not chosen, and count like
    the worst score for their neighbours.
    """
    rows = at_full_length(batches)
    raw = np.array([score for _, score in rows])
    held = np.isfinite(raw)
    if not held.any():
        raise UserError(
            f"tune: all {counted(len(rows), 'run')} that the search finished diverged; narrow "
            "alpha_range and lam_range, or lower the learning rates"
        )
    place = np.array([[axis.to_unit(cell[axis.name]) for axis in axes] for cell, _ in rows])
    scores = np.where(held, raw, raw[held].min())
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
