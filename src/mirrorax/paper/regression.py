"""The straight line through minimal temperatures, as the paper draws it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import stats

from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError


@dataclass(frozen=True, eq=False)
class Regression:
    """A straight line through (x, y)."""

    kind: ClassVar[str] = "slope"
    form: ClassVar[str] = ".2g"

    value: float
    intercept: float
    low: float
    high: float
    residual: float  # standard deviation of the residuals
    x: Float[np.ndarray, " n"]

    def line(self, x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the fitted values."""
        return np.asarray(self.intercept + self.value * x)

    def band(
        self, x: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the ends of the confidence band of the line, point by point."""
        n, mean = len(self.x), self.x.mean()
        half = (
            stats.t.ppf(0.975, n - 2)
            * self.residual
            * np.sqrt(1 / n + (x - mean) ** 2 / np.sum((self.x - mean) ** 2))
        )
        fitted = self.line(x)
        return fitted - half, fitted + half


def regression(points: Sequence[Minimal]) -> Regression:
    """Fit a line by least squares to the values that are known."""
    kept = [p for p in points if p.known]
    if len(kept) < 3:
        raise UserError(
            f"regression: {len(kept)} of {len(points)} environments have a minimal temperature "
            "that the grid shows; at least 3 are needed"
        )
    x = np.array([p.max_return for p in kept])
    y = np.array([p.value for p in kept])
    if np.ptp(x) == 0:
        raise UserError("regression: all environments have the same maximum return")
    fit = stats.linregress(x, y)
    degrees = len(x) - 2
    residual = float(np.sqrt(np.sum((y - fit.intercept - fit.slope * x) ** 2) / degrees))
    half = float(stats.t.ppf(0.975, degrees) * fit.stderr)
    return Regression(
        value=float(fit.slope),
        intercept=float(fit.intercept),
        low=float(fit.slope) - half,
        high=float(fit.slope) + half,
        residual=residual,
        x=x,
    )
