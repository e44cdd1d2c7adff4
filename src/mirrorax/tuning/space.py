"""What a search is over: ranges of values, cells, runs, and what a budget of runs is spent on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mirrorax.errors import UserError
from mirrorax.runs.settings import Settings

#: Runs side by side. Results depend on the width, so it does not depend on the machine. Few: a
#: batch is to be shared among workers.
LANES = 4
#: A cell's numbers are rounded to this many digits, so that a command can repeat it.
DIGITS = 3
#: Of a budget this part is kept for choosing among the best, and as much again for the check.
KEPT_SHARE = 8
LEAST_BUDGET, MOST_BUDGET = 32, 1_000_000
#: The check of the best cell has at least so many fresh seeds.
LEAST_CHECK = 5


def rounded(value: float) -> float:
    """Round to the digits of a cell."""
    return float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True)
class Range:
    """A value to search: its range, its scale, and how far the range may grow."""

    name: str
    low: float
    high: float
    #: `log`; `linear`; `complement`: the logarithm of 1 - value, for a discount
    scale: str = "log"
    #: The range never grows beyond these; None: it does not grow.
    limits: tuple[float, float] | None = None

    def place(self, value: float) -> float:
        """Return where a value lies: in decades, or in thirds of the range from 0 to 1."""
        if self.scale == "log":
            return math.log10(value)
        if self.scale == "complement":
            return -math.log10(1 - value)
        return 3 * value

    def value(self, place: float) -> float:
        """Return the value at a place, rounded so that a command can repeat it."""
        if self.scale == "log":
            return rounded(10**place)
        if self.scale == "complement":
            return 1 - rounded(10**-place)
        return rounded(place / 3)

    @property
    def ends(self) -> tuple[float, float]:
        """The places of the ends."""
        return self.place(self.low), self.place(self.high)

    def at(self, share: float) -> float:
        """Return the value at a share of the way from the low end to the high end."""
        low, high = self.ends
        return self.value(low + share * (high - low))

    def grown(self, below: bool, above: bool) -> Range:
        """Return the range with a decade more at the given ends, within its limits."""
        if self.limits is None:
            return self
        low, high = self.ends
        least, most = self.place(self.limits[0]), self.place(self.limits[1])
        low = max(low - 1, least) if below else low
        high = min(high + 1, most) if above else high
        return replace(self, low=self.value(low), high=self.value(high))

    def neighbours(self, value: float) -> tuple[float, ...]:
        """Return the values half a decade, or a tenth, below and above, where there are any."""
        if self.scale == "linear":
            return tuple(rounded(v) for v in (value - 0.1, value + 0.1) if 0 <= v <= 1)
        values = (self.value(self.place(value) + step) for step in (-0.5, 0.5))
        low, high = self.limits or (-math.inf, math.inf)
        return tuple(v for v in values if low <= v <= high)


@dataclass(frozen=True)
class Cell:
    """A static choice, by its number, and the values of the ranges in order."""

    arm: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """One run to make."""

    cell: Cell
    seed: int


@dataclass(frozen=True)
class Budget:
    """How many runs each part of a search may use."""

    total: int
    search: int
    candidates: int  # cells that get further seeds after the search
    candidate_seeds: int
    check_seeds: int  # fresh seeds of the winner
    neighbour_seeds: int


@dataclass(frozen=True)
class Specification:
    """Everything that a search depends on, apart from the scores of its runs."""

    ranges: tuple[Range, ...]
    budget: Budget
    #: the static choices
    arms: tuple[Settings, ...]
    #: cells to start with
    starts: tuple[Cell, ...] = ()
    seed: int = 0
    #: values that all runs share
    fixed: Mapping[str, float] = field(default_factory=dict)
    lanes: int = LANES
    #: the scores of random play and of the best policy, where known
    random: float | None = None
    best: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The values that are searched."""
        return tuple(each.name for each in self.ranges)


def plan_budget(total: Any, neighbours: int = 4) -> Budget:
    """Split a budget: three quarters to search, an eighth to choose, an eighth to check.

    A small budget spends more on the choice and the check.
    """
    if isinstance(total, bool) or not isinstance(total, int | np.integer):
        raise UserError(f"budget: {total!r} is not a whole number of runs")
    if not LEAST_BUDGET <= total <= MOST_BUDGET:
        raise UserError(
            f"budget: {total} is not allowed: {LEAST_BUDGET} to {MOST_BUDGET:,} runs, of which "
            "some choose and check what the search found"
        )
    part = int(total) // KEPT_SHARE
    candidate_seeds = 4 if part >= 8 else 2
    candidates = max(part // candidate_seeds, 2)
    check_seeds = max(part // 2, LEAST_CHECK)
    neighbour_seeds = max((part - part // 2) // neighbours, 1)
    after = candidates * candidate_seeds + check_seeds + neighbours * neighbour_seeds
    if 2 * after > total:
        raise UserError(
            f"budget: {total} is not allowed for so many values: {after} runs choose and check, "
            "which is more than half; give more runs or search fewer values"
        )
    search = int(total) - after
    return Budget(int(total), search, candidates, candidate_seeds, check_seeds, neighbour_seeds)
