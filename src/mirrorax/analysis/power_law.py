"""How a temperature grows with the maximum return: an exponent from values that a grid brackets.

A grid does not show the smallest temperature that works, only between which two of its values it
lies, or that it is below the lowest. Treated as exact, such values give exponents that are off and
intervals that are too narrow. So the law

    log y  =  intercept + exponent log x + spread * noise

is fitted to the brackets themselves, by maximum likelihood with normal noise. Scaled by 1 / spread
the log-likelihood is concave (Olsen, 1978), so there is one maximum.
Intervals are those of the profile likelihood, at the level that gives the usual t intervals where
brackets are narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy  # imports `scipy.optimize` where it is first used: few readers of results need it
from jaxtyping import Float
from scipy import special

from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError

#: The spread is at least this many decades, some 12%: a line through all brackets would have none.
_LEAST_SPREAD = 0.05
#: One over the spread, between its bounds.
_PRECISION = (1e-3, 1 / _LEAST_SPREAD)
#: An end of an interval that is further away than this, in exponents or decades, is at infinity.
_FAR = 20.0

_Brackets = tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """y = 10^intercept x^exponent, with an interval of the exponent."""

    kind: ClassVar[str] = "exponent"
    form: ClassVar[str] = ".2f"

    exponent: float
    low: float
    high: float
    intercept: float
    spread: float  # standard deviation around the law, in decades
    x: Float[np.ndarray, " n"]
    brackets: _Brackets  # of log10 y
    likelihood: float  # its logarithm at the best fit

    @property
    def value(self) -> float:
        """The exponent."""
        return self.exponent

    def line(self, x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the fitted values."""
        return np.asarray(10 ** self._at(np.log10(x)))

    def _at(self, u: Any) -> Any:
        return self.intercept + self.exponent * u

    def band(
        self, x: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the ends of the law's interval, point by point."""
        u, ones = np.log10(self.x), np.ones(len(self.x))
        lowest = self.likelihood - _allowed_loss(len(u)) / 2
        ends = [
            _interval(self.brackets, ones, (u - at)[:, None], self._at(at), lowest)
            for at in np.log10(x)
        ]
        low, high = 10.0 ** np.array(ends).reshape(-1, 2).T
        return low, high


def power_law(points: Sequence[Minimal]) -> PowerLaw:
    """Fit the law to the brackets of minimal temperatures, with a 95% interval.

    Linear growth is an exponent of 1, so an interval without 1 speaks against it. Environments of
    which the grid shows nothing are left out.
    """
    x, brackets = _bracketed(points)
    u = np.log10(x)
    centred, ones = u - u.mean(), np.ones(len(u))
    free = np.stack([ones, centred], axis=1)
    likelihood, (middle, exponent), spread = _fit(brackets, np.zeros(len(u)), free)
    lowest = likelihood - _allowed_loss(len(u)) / 2
    low, high = _interval(brackets, centred, ones[:, None], float(exponent), lowest)
    return PowerLaw(
        exponent=float(exponent),
        low=low,
        high=high,
        intercept=float(middle - exponent * u.mean()),
        spread=spread,
        x=x,
        brackets=brackets,
        likelihood=likelihood,
    )


def _bracketed(points: Sequence[Minimal]) -> tuple[Float[np.ndarray, " n"], _Brackets]:
    """Return the maximum returns and the brackets of what is known, if it is enough for a law."""
    known = [p for p in points if p.known]
    x = np.array([p.max_return for p in known])
    bounds = np.array([p.between for p in known]).reshape(-1, 2)
    sure = (bounds[:, 0] > 0) & np.isfinite(bounds[:, 1])
    if sure.sum() < 3:
        raise UserError(
            f"power law: {sure.sum()} of {len(points)} environments have a minimal temperature "
            "between two positive values of the grid; at least 3 are needed"
        )
    if (x <= 0).any():
        raise UserError("power law: a maximum return is not positive, so it has no logarithm")
    if np.ptp(x[sure]) == 0:
        raise UserError("power law: all environments have the same maximum return")
    with np.errstate(divide="ignore"):
        return x, (np.log10(bounds[:, 0]), np.log10(bounds[:, 1]))


def _allowed_loss(n: int) -> float:
    """Return by how much twice the log-likelihood may fall; exact for a line through n points."""
    t = float(special.stdtrit(n - 2, 0.975))
    return n * float(np.log1p(t**2 / (n - 2)))


def _interval(
    brackets: _Brackets,
    times: Float[np.ndarray, " n"],
    free: Float[np.ndarray, "n k"],
    best: float,
    lowest: float,
) -> tuple[float, float]:
    """Return where the profile likelihood falls to `lowest` on both sides of the best value.

    The value in question stands before `times`; what stands before `free` is fitted to it.
    """

    def loss(value: float) -> float:
        return lowest - _fit(brackets, value * times, free)[0]

    def end(sign: int) -> float:
        inside, step = best, 0.05
        while step < _FAR:
            outside = best + sign * step
            if loss(outside) > 0:
                return float(scipy.optimize.brentq(loss, inside, outside, xtol=1e-4))
            inside, step = outside, 2 * step
        return sign * np.inf

    return end(-1), end(+1)


def _fit(
    brackets: _Brackets,
    fixed: Float[np.ndarray, " n"],
    free: Float[np.ndarray, "n k"],
) -> tuple[float, Float[np.ndarray, " k"], float]:
    """Maximise the likelihood of `fixed + free @ coefficients`.

    Return the log-likelihood, the coefficients and the spread.
    """
    low, high = (np.asarray(ends - fixed) for ends in brackets)
    below, above = np.isfinite(low), np.isfinite(high)

    def loss(at: Float[np.ndarray, " p"]) -> tuple[float, Float[np.ndarray, " p"]]:
        """Return the negative log-likelihood and its gradient, all but the precision scaled."""
        mean, precision = free @ at[:-1], at[-1]
        a, b = precision * low - mean, precision * high - mean
        log_mass = _log_mass(a, b)
        # of the normal density at each end, over the mass between them; an open end has none
        at_a, at_b = (np.exp(-(z**2) / 2 - log_mass) / np.sqrt(2 * np.pi) for z in (a, b))
        slope = at_a * np.where(below, low, 0.0) - at_b * np.where(above, high, 0.0)
        return -float(log_mass.sum()), np.append(free.T @ (at_b - at_a), slope.sum())

    # From a line through the middles of the brackets, the open ones taken as half a decade wide.
    middles = (np.where(below, low, high - 0.5) + np.where(above, high, low + 0.5)) / 2
    guess = np.linalg.lstsq(free, middles, rcond=None)[0]
    precision = 1 / max(float(np.std(middles - free @ guess)), 0.2)
    best = scipy.optimize.minimize(
        loss,
        np.append(guess * precision, precision),
        jac=True,
        method="SLSQP",
        bounds=[*[(None, None)] * free.shape[1], _PRECISION],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return -float(best.fun), best.x[:-1] / best.x[-1], 1 / float(best.x[-1])


def _log_mass(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the logarithm of the normal distribution's mass between a and b, also far out."""
    right = a > 0
    low, high = special.log_ndtr(np.where(right, -b, a)), special.log_ndtr(np.where(right, -a, b))
    return np.asarray(high + np.log1p(-np.exp(np.minimum(low - high, -1e-300))))
