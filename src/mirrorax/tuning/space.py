"""What a budget of runs is spent on, and how numbers of a cell are rounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mirrorax.errors import UserError

#: A cell's numbers are rounded to this many digits, so that a command can repeat it.
DIGITS = 3

#: Of a budget this part is kept for choosing among the best, and as much again for the check.
KEPT_SHARE = 8
LEAST_BUDGET = 32
MOST_BUDGET = 1_000_000
#: The check of the best cell has at least so many fresh seeds.
LEAST_CHECK = 5


def rounded(value: float) -> float:
    """Round to the digits of a cell."""
    return float(f"{value:.{DIGITS}g}")


@dataclass(frozen=True)
class Budget:
    """How many runs each part of a tuning may use."""

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
    budget = Budget(
        total=int(total),
        candidates=max(part // seeds, 2),
        candidate_seeds=seeds,
        check_seeds=max(part // 2, LEAST_CHECK),
        neighbour_seeds=max((part - part // 2) // max(neighbours, 1), 1),
        neighbours=neighbours,
    )
    if 2 * budget.search < budget.total:
        raise UserError(
            f"budget: {total} is not allowed for so many values: {budget.after} runs choose and "
            "check, which is more than half; give more runs or search fewer values"
        )
    return budget
