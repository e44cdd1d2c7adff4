"""The smallest temperature that works.

Alpha is read along the `STRIP` lowest lambdas, lambda along the `STRIP` lowest alphas. The value is
the smallest of the grid whose mean over strip and seeds reaches the threshold and whose next grid
value does too, so that one lucky cell decides nothing. A value of the strip that solves the task
while the temperature in question is zero says nothing about it and is left out. Whether the growth
is linear is a question for `power_law`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.scores import environment_scores, reaches
from mirrorax.errors import UserError, unknown

Temperature = Literal["alpha", "lam"]
#: When a task counts as solved.
THRESHOLDS = (0.75, 0.85)
#: How many of the lowest values of the other temperature are averaged over.
STRIP = 3


@dataclass(frozen=True)
class Minimal:
    """The smallest temperature that works in one environment; `censored` if none on the grid does.

    A censored value is the largest of the grid. `between` are the values that bracket the true one:
    the last that fails, or 0, and the first positive one that works. Where none does they are 0 and
    infinity: the true one may be above the grid, but as well, if too much spoils it, below it. So
    they are where the whole strip is solved by the other temperature alone.
    """

    environment: str
    max_return: float
    value: float
    censored: bool
    between: tuple[float, float]

    @property
    def known(self) -> bool:
        """Whether the grid says anything of it."""
        return self.between != (0.0, np.inf)


def smallest(
    means: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"], threshold: float
) -> tuple[float, bool, tuple[float, float]]:
    """Return the smallest value that reaches the threshold together with the next.

    And whether it is censored, and the values that bracket the true one.
    """
    reached = np.isfinite(means) & reaches(means, threshold)
    twice = np.flatnonzero(reached[:-1] & reached[1:])
    if twice.size == 0:
        return float(values[-1]), True, (0.0, np.inf)
    first = int(twice[0])
    fails = float(values[first - 1]) if first else 0.0
    works = float(values[first] or values[first + 1])
    return float(values[first]), False, (fails, works)


def minimal_temperatures(
    landscape: Landscape,
    temperature: Temperature,
    threshold: float,
    *,
    strip: int = STRIP,
) -> tuple[Minimal, ...]:
    """Return the minimal temperature of each environment, by ascending maximum return.

    `strip` is the number of lowest values of the other temperature that are averaged over, less
    those with which alone the task is solved.
    """
    if temperature not in ("alpha", "lam"):
        raise unknown("temperature", temperature, ("alpha", "lam"))
    if strip < 1:
        raise UserError(f"strip: {strip} is not a positive number of grid values")
    scores = environment_scores(landscape.runs())  # [alpha, lam, env]
    values, others = landscape.alphas, landscape.lams
    if temperature == "lam":
        values, others = others, values
    if len(values) < 2:
        raise UserError(f"{temperature}: a grid of one value has no smallest that works")
    along = scores if temperature == "alpha" else scores.transpose(1, 0, 2)
    # A w of zero is not an alpha of zero.
    nothing = (others == 0) & (temperature == "alpha" or landscape.axis == "alpha")
    out = []
    for e, environment in enumerate(landscape.environments):
        part = along[:, :strip, e]
        given = np.isfinite(part)
        if given.any(axis=1).sum() < 2:
            raise UserError(
                f"{environment.label}: fewer than two values of {temperature} have runs in the "
                f"strip of the {strip} lowest values of the other temperature"
            )
        if values[0] == 0:
            alone = given[0] & reaches(part[0], threshold) & ~nothing[:strip]
            given = given & ~alone
        # A value without any run is not part of this environment's grid.
        on_grid = given.any(axis=1)
        if on_grid.sum() < 2:
            result = 0.0, False, (0.0, np.inf)
        else:
            means = np.where(given, part, 0.0).sum(axis=1)[on_grid] / given.sum(axis=1)[on_grid]
            result = smallest(means, values[on_grid], threshold)
        out.append(Minimal(environment.label, environment.return_max, *result))
    return tuple(sorted(out, key=lambda item: item.max_return))
