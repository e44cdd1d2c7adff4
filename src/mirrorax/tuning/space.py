"""The temperatures a search may choose from, and what a budget of runs is spent on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirrorax.errors import UserError

#: A cell's numbers are rounded to this many digits, so that a command can repeat it.
DIGITS = 3
#: The search may go this far beyond what was suggested, in decades.
BEYOND = 1.0
#: A neighbour is this far away: half a decade, or a tenth of the range of w.
STEP_DECADES = 0.5
STEP_W = 0.1

#: Of a budget this part is kept for choosing among the best, and as much again for the check.
KEPT_SHARE = 8
LEAST_BUDGET = 32
MOST_BUDGET = 1_000_000
#: The check of the best cell has at least so many fresh seeds.
LEAST_CHECK = 5

#: Shares of a run's length at which the worse half of a batch is stopped, and its end.
RUNGS = (0.25, 0.5, 1.0)

Cell = dict[str, float]


@dataclass(frozen=True)
class Axis:
    """One temperature: its name, the range to search, and where to start in it."""

    name: str
    low: float
    high: float
    log: bool
    start: tuple[float, float]

    def to_unit(self, value: float) -> float:
        """Return where a value lies, in decades, or in tenths where the scale is linear."""
        return math.log10(value) if self.log else 10 * value

    def draw(self, rng: np.random.Generator) -> float:
        """Draw from the range to start in."""
        low, high = self.start
        if self.log:
            return rounded(float(np.exp(rng.uniform(np.log(low), np.log(high)))))
        return rounded(float(rng.uniform(low, high)))

    def neighbours(self, value: float) -> tuple[float, ...]:
        """Return the value one step below and one above, where the scale has them."""
        if self.log:
            return tuple(rounded(value * 10**step) for step in (-STEP_DECADES, STEP_DECADES))
        return tuple(rounded(v) for v in (value - STEP_W, value + STEP_W) if 0 <= v <= 1)


def rounded(value: float) -> float:
    """Round to the digits of a cell."""
    return float(f"{value:.{DIGITS}g}")


def log_axis(
    name: str, suggested: tuple[float, float], limits: Sequence[float] | None = None
) -> Axis:
    """Return the axis of a temperature: its limits, or the suggested range and a decade more."""
    if limits is not None:
        low, high = _range(name, limits)
        return Axis(name, low, high, True, (low, high))
    wide = suggested[0] * 10**-BEYOND, suggested[1] * 10**BEYOND
    return Axis(name, rounded(wide[0]), rounded(wide[1]), True, suggested)


def w_axis() -> Axis:
    """Return the axis of the target of a learned alpha."""
    return Axis("w", 0.0, 1.0, False, (0.0, 1.0))


def _range(name: str, limits: Sequence[Any]) -> tuple[float, float]:
    try:
        low, high = map(float, limits)
    except (TypeError, ValueError):
        raise UserError(
            f"{name}_range: {limits!r} is not allowed: two numbers, low and high"
        ) from None
    if not (0 < low < high and math.isfinite(high)):
        raise UserError(
            f"{name}_range: {low:g}, {high:g} is not allowed: 0 < low < high, both finite"
        )
    return low, high


def distance(axes: Sequence[Axis], a: Cell, b: Cell) -> float:
    """Return how far two cells are apart, in decades (a tenth of w counts as one)."""
    return math.sqrt(sum((x.to_unit(a[x.name]) - x.to_unit(b[x.name])) ** 2 for x in axes))


@dataclass(frozen=True)
class Budget:
    """How many runs each part of a tuning may use, in runs of full length."""

    total: int
    candidates: int  # cells that get further seeds after the search
    candidate_seeds: int
    check_seeds: int  # fresh seeds of the winner
    neighbour_seeds: int
    neighbours: int

    @property
    def after(self) -> int:
        """Runs of the parts after the search."""
        check = self.check_seeds + self.neighbours * self.neighbour_seeds
        return self.candidates * self.candidate_seeds + check

    @property
    def search(self) -> int:
        """Runs of the search."""
        return self.total - self.after


def plan_budget(total: Any, neighbours: int = 4) -> Budget:
    """Split a budget: three quarters to search, an eighth to choose, an eighth to check."""
    if isinstance(total, bool) or not isinstance(total, int | np.integer):
        raise UserError(f"budget: {total!r} is not a whole number of runs")
    if not LEAST_BUDGET <= total <= MOST_BUDGET:
        raise UserError(
            f"budget: {total} is not allowed: {LEAST_BUDGET} to {MOST_BUDGET:,} runs, of which "
            "some choose and check what the search found"
        )
    part = int(total) // KEPT_SHARE
    seeds = 4 if part >= 8 else 2
    check = max(part // 2, LEAST_CHECK)
    return Budget(
        total=int(total),
        candidates=max(part // seeds, 2),
        candidate_seeds=seeds,
        check_seeds=check,
        neighbour_seeds=max((part - part // 2) // max(neighbours, 1), 1),
        neighbours=neighbours,
    )


def rung_updates(updates: int, rungs: Sequence[float] = RUNGS) -> tuple[int, ...]:
    """Return the updates at which a batch is looked at: rising, the last one the end."""
    return tuple(sorted({max(1, round(updates * share)) for share in rungs} | {updates}))


def kept(count: int) -> int:
    """Return how many of a batch go on to the next rung."""
    return -(-count // 2)


def batch_cost(count: int, rungs: Sequence[int]) -> float:
    """Return what a batch of cells costs, in runs of full length."""
    spent, before, alive = 0, 0, count
    for until in rungs:
        spent += alive * (until - before)
        before, alive = until, kept(alive)
    return spent / rungs[-1]


def batch_size(lanes: int, left: float, rungs: Sequence[int]) -> int:
    """Return how many cells the next batch has: as wide as the lanes, if the budget allows."""
    size = lanes
    while size > 0 and batch_cost(size, rungs) > left:
        size -= 1
    return size
