"""How a temperature grows with the maximum return: an exponent from values that a grid brackets.

A grid does not show the smallest temperature that works, only between which two of its values it
lies, or that it is below the lowest. Treated as exact, such values give exponents that are off and
intervals that are too narrow. So the law

    log y  =  intercept + exponent log x + spread * noise

is fitted to the brackets themselves, by maximum likelihood with normal noise. Scaled by 1 / spread
the log-likelihood is concave (Olsen, 1978), so there is one maximum and a plain climb finds it.
Intervals are those of the profile likelihood, at the level that gives the usual t intervals where
brackets are narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from scipy import optimize, special, stats

from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError

#: The spread is at least this many decades, some 12%: a line through all brackets would have none.
_LEAST_SPREAD = 0.05
#: One over the spread, between its bounds.
_PRECISION = (1e-3, 1 / _LEAST_SPREAD)
#: The climb ends when a step promises less than this, in log-likelihood, or after so many steps.
_GAIN, _STEPS = 1e-10, 200
#: A step is not cut to less than this part of it: there, all is rounding.
_LEAST_PART = 1e-12
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
    level: float
    x: Float[np.ndarray, " n"]
    brackets: _Brackets  # of log10 y
    likelihood: float  # its logarithm at the best fit

    @property
    def value(self) -> float:
        """The exponent."""
        return self.exponent

    def line(self, x: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """Return the fitted values."""
        return np.asarray(10 ** (self.intercept + self.exponent * np.log10(x)))

    def band(
        self, x: Float[np.ndarray, " m"]
    ) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
        """Return the ends of the law's interval, point by point."""
        u, ones = np.log10(self.x), np.ones(len(self.x))
        lowest = self.likelihood - _allowed_loss(len(u), self.level) / 2
        ends = [
            _interval(
                self.brackets, ones, (u - at)[:, None], self.intercept + self.exponent * at, lowest
            )
            for at in np.log10(x)
        ]
        low, high = 10.0 ** np.array(ends).reshape(-1, 2).T
        return low, high


def power_law(points: Sequence[Minimal], *, level: float = 0.95) -> PowerLaw:
    """Fit the law to the brackets of minimal temperatures.

    Linear growth is an exponent of 1, so an interval without 1 speaks against it. Environments of
    which the grid shows nothing are left out.
    """
    x, brackets = _bracketed(points)
    likelihood, (middle, exponent), spread = _law(x, brackets)
    u = np.log10(x)
    lowest = likelihood - _allowed_loss(len(u), level) / 2
    low, high = _interval(brackets, u - u.mean(), np.ones((len(u), 1)), float(exponent), lowest)
    return PowerLaw(
        exponent=float(exponent),
        low=low,
        high=high,
        intercept=float(middle - exponent * u.mean()),
        spread=spread,
        level=level,
        x=x,
        brackets=brackets,
        likelihood=likelihood,
    )


def exponents_without_one(points: Sequence[Minimal]) -> Float[np.ndarray, " known"]:
    """Return the exponent without each environment in turn: how much it hangs on single ones."""
    known = [p for p in points if p.known]
    rest = ([p for p in known if p is not one] for one in known)
    return np.array([_law(*_bracketed(some))[1][1] for some in rest])


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


def _law(
    x: Float[np.ndarray, " n"], brackets: _Brackets
) -> tuple[float, Float[np.ndarray, " 2"], float]:
    """Return the best fit: its log-likelihood, its value in the middle and exponent, its spread."""
    u = np.log10(x)
    free = np.stack([np.ones(len(u)), u - u.mean()], axis=1)
    return _fit(brackets, np.zeros(len(u)), free)


def _allowed_loss(n: int, level: float) -> float:
    """Return by how much twice the log-likelihood may fall; exact for a line through n points."""
    t = float(stats.t.ppf((1 + level) / 2, n - 2))
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
                return float(optimize.brentq(loss, inside, outside, xtol=1e-4))
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
    ends = [(low, np.isfinite(low), -np.inf), (high, np.isfinite(high), np.inf)]
    #: how the scaled ends, precision * end - mean, change with the parameters
    slopes = [np.column_stack([-free, np.where(known, end, 0.0)]) for end, known, _ in ends]

    def terms(at: Float[np.ndarray, " p"]) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the log-likelihood, its gradient and its matrix of second derivatives."""
        a, b = (
            np.where(known, slope @ at, far)
            for slope, (_, known, far) in zip(slopes, ends, strict=True)
        )
        log_mass = _log_mass(a, b)
        # of the normal density at each end, over the mass between them
        at_a, at_b = (np.exp(-(z**2) / 2 - log_mass) / np.sqrt(2 * np.pi) for z in (a, b))
        gradients = at_b[:, None] * slopes[1] - at_a[:, None] * slopes[0]
        bent_a, bent_b = (  # an open end has no density, and infinity times that is nothing
            np.where(known, z, 0.0) * density
            for z, density, (_, known, _) in zip((a, b), (at_a, at_b), ends, strict=True)
        )
        second = (slopes[0].T * bent_a) @ slopes[0] - (slopes[1].T * bent_b) @ slopes[1]
        return float(log_mass.sum()), gradients.sum(axis=0), second - gradients.T @ gradients

    # From a line through the middles of the brackets, the open ones taken as half a decade wide.
    below, above = ends[0][1], ends[1][1]
    middles = (np.where(below, low, high - 0.5) + np.where(above, high, low + 0.5)) / 2
    guess = np.linalg.lstsq(free, middles, rcond=None)[0]
    precision = 1 / max(float(np.std(middles - free @ guess)), 0.2)
    likelihood, (*scaled, precision) = _climb(terms, np.append(guess * precision, precision))
    return likelihood, np.array(scaled) / precision, 1 / float(precision)


def _climb(
    terms: Callable[[Float[np.ndarray, " p"]], tuple[float, np.ndarray, np.ndarray]],
    at: Float[np.ndarray, " p"],
) -> tuple[float, Float[np.ndarray, " p"]]:
    """Return the maximum of a concave function, and where it is, by Newton's steps.

    The last parameter, the precision, stays within its bounds: at one of them, steps that would
    lead beyond are taken with the others alone.
    """
    value, gradient, second = terms(at)
    for _ in range(_STEPS):
        step = _newton(gradient, second)
        bound = _PRECISION[1] if step[-1] > 0 else _PRECISION[0]
        if np.isclose(at[-1], bound, rtol=1e-6, atol=0.0):
            step = np.append(_newton(gradient[:-1], second[:-1, :-1]), 0.0)
        gain = float(gradient @ step)
        if gain < _GAIN:
            break
        reach = (bound - at[-1]) / step[-1] if step[-1] != 0 else np.inf
        part = min(1.0, reach)
        while part > _LEAST_PART:
            there = at + part * step
            trial = terms(there)
            if trial[0] >= value + 1e-4 * part * gain:
                break
            part /= 2
        else:
            break  # nothing is higher, within rounding
        at, (value, gradient, second) = there, trial
    return value, at


def _newton(
    gradient: Float[np.ndarray, " p"], second: Float[np.ndarray, "p p"]
) -> Float[np.ndarray, " p"]:
    return np.asarray(np.linalg.lstsq(-second, gradient, rcond=1e-13)[0])


def _log_mass(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the logarithm of the normal distribution's mass between a and b, also far out."""
    right = a > 0
    low, high = special.log_ndtr(np.where(right, -b, a)), special.log_ndtr(np.where(right, -a, b))
    return np.asarray(high + np.log1p(-np.exp(np.minimum(low - high, -1e-300))))
