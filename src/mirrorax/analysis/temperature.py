"""The smallest temperature that works, and how it grows with the maximum return (Figure 4).

The value is read where it is meaningful: alpha's along the strip of lowest lambdas, lambda's along
the strip of lowest alphas. It is the smallest grid value whose mean over strip and seeds reaches
the threshold and whose next grid value does too, so that one lucky cell decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from mirrorax.analysis.landscape import Diverged, Evaluation, Landscape
from mirrorax.analysis.robustness import reaches
from mirrorax.analysis.scores import environment_scores
from mirrorax.errors import UserError, unknown

Temperature = Literal["alpha", "lam"]


@dataclass(frozen=True)
class Minimal:
    """The smallest temperature that works in one environment; `censored` if none on the grid does.

    A censored value is the largest of the grid: the true one lies above it, if there is one.
    """

    environment: str
    max_return: float
    value: float
    censored: bool


def smallest(
    means: Float[np.ndarray, " n"], values: Float[np.ndarray, " n"], threshold: float
) -> tuple[float, bool]:
    """Return the smallest value that reaches the threshold together with the next, or censored."""
    reached = np.isfinite(means) & reaches(means, threshold)
    twice = np.flatnonzero(reached[:-1] & reached[1:])
    if twice.size == 0:
        return float(values[-1]), True
    return float(values[twice[0]]), False


def minimal_temperatures(
    landscape: Landscape,
    temperature: Temperature,
    threshold: float,
    *,
    strip: int = 7,
    evaluation: Evaluation = "stochastic",
    diverged: Diverged = "lowest",
) -> tuple[Minimal, ...]:
    """Return the minimal temperature of each environment, by ascending maximum return.

    `strip` is the number of lowest values of the other temperature that are averaged over.
    """
    if temperature not in ("alpha", "lam"):
        raise unknown("temperature", temperature, ("alpha", "lam"))
    if strip < 1:
        raise UserError(f"strip: {strip} is not a positive number of grid values")
    scores = environment_scores(landscape.runs(evaluation, diverged))  # [alpha, lam, env]
    values = landscape.alphas if temperature == "alpha" else landscape.lams
    if len(values) < 2:
        raise UserError(f"{temperature}: a grid of one value has no smallest that works")
    along = scores if temperature == "alpha" else scores.transpose(1, 0, 2)
    part = along[:, :strip]
    given = np.isfinite(part)
    number = given.sum(axis=1)
    total = np.where(given, part, 0.0).sum(axis=1)
    means = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    out = []
    for e, environment in enumerate(landscape.environments):
        # A value without any run is not part of this environment's grid.
        on_grid = number[:, e] > 0
        if on_grid.sum() < 2:
            raise UserError(
                f"{environment.label}: fewer than two values of {temperature} have runs in the "
                f"strip of the {strip} lowest values of the other temperature"
            )
        value, censored = smallest(means[on_grid, e], values[on_grid], threshold)
        out.append(Minimal(environment.label, environment.return_max, value, censored))
    return tuple(sorted(out, key=lambda item: item.max_return))


@dataclass(frozen=True, eq=False)
class Regression:
    """A straight line through (x, y), or through their logarithms."""

    log: bool
    slope: float  # the exponent, on logarithmic axes
    intercept: float
    slope_low: float
    slope_high: float
    r_squared: float
    residual: float  # standard deviation of the residuals
    x: Float[np.ndarray, " n"]
    y: Float[np.ndarray, " n"]

    def line(self, x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the fitted values."""
        if self.log:
            return np.asarray(10 ** (self.intercept + self.slope * np.log10(x)))
        return np.asarray(self.intercept + self.slope * x)

    def band(
        self, x: Float[np.ndarray, " m"], level: float = 0.95
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the ends of the confidence band of the line, point by point."""
        have, at = (np.log10(self.x), np.log10(x)) if self.log else (self.x, x)
        n, mean = len(have), have.mean()
        half = (
            stats.t.ppf((1 + level) / 2, n - 2)
            * self.residual
            * np.sqrt(1 / n + (at - mean) ** 2 / np.sum((have - mean) ** 2))
        )
        fitted = self.intercept + self.slope * at
        if self.log:
            return 10 ** (fitted - half), 10 ** (fitted + half)
        return fitted - half, fitted + half


def regression(points: Sequence[Minimal], *, log: bool = False, level: float = 0.95) -> Regression:
    """Fit a line by least squares to the values that are not censored.

    On logarithmic axes values of zero are left out too, and the slope is an exponent: linear
    growth is an exponent of 1, so an interval without 1 speaks against it.
    """
    kept = [p for p in points if not p.censored and (p.value > 0 or not log)]
    if len(kept) < 3:
        raise UserError(
            f"regression: {len(kept)} of {len(points)} environments have a minimal temperature "
            f"that is not censored{' or zero' if log else ''}; at least 3 are needed"
        )
    x = np.array([p.max_return for p in kept])
    y = np.array([p.value for p in kept])
    if np.ptp(x) == 0:
        raise UserError("regression: all environments have the same maximum return")
    if log and (x <= 0).any():
        raise UserError("regression: a maximum return is not positive, so it has no logarithm")
    u, v = (np.log10(x), np.log10(y)) if log else (x, y)
    n = len(u)
    spread = np.sum((u - u.mean()) ** 2)
    slope = float(np.sum((u - u.mean()) * (v - v.mean())) / spread)
    intercept = float(v.mean() - slope * u.mean())
    rest = v - intercept - slope * u
    residual = float(np.sqrt(np.sum(rest**2) / (n - 2)))
    half = float(stats.t.ppf((1 + level) / 2, n - 2)) * residual / float(np.sqrt(spread))
    total = float(np.sum((v - v.mean()) ** 2))
    return Regression(
        log=log,
        slope=slope,
        intercept=intercept,
        slope_low=slope - half,
        slope_high=slope + half,
        r_squared=1.0 - float(np.sum(rest**2)) / total if total > 0 else np.nan,
        residual=residual,
        x=x,
        y=y,
    )
