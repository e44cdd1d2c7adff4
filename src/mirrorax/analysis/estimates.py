"""Rbst and the frequency curve with intervals, and what exactly these are intervals of.

Rbst is a mean over cells of g(d) = clip((d - T) / (1 - T), 0, 1) of noisy scores d. Two numbers:

- What a study with as many seeds per cell reports, on average over such studies. The plain value
  estimates it without bias. `interval()` is that value and 1.96 `standard_errors`.
- What it would be with infinitely many seeds: `limit`. Up to d = 1, where scores end, g is convex.
  Hence noise can only raise Rbst, and averaging neighbouring cells can only lower it (Jensen). So
  the limit lies between Rbst of averaged cells, with the noise that is left in these taken off,
  and the upper end of the interval above.

Coverage of both is measured by `benchmarks/analysis_coverage.py` and stands in the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr, ndtri

from mirrorax.analysis.scores import Statistic, cell_scores
from mirrorax.analysis.shares import ROUNDING, check_threshold, frequency, rbst, reaches, scored
from mirrorax.analysis.standard_errors import Grid, Scores, error_of_mean, exchange, grid_scores

#: Seeds behind a score, its neighbours' included, from which on its noise is nearly normal.
ENOUGH = 10
#: sqrt(2) - 1: of a cell at the threshold, noise twice as large adds this part of the bias again.
_AGAIN = math.sqrt(2) - 1


@dataclass(frozen=True)
class Interval:
    """Where a number probably is."""

    low: float
    high: float
    level: float = 0.95

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number as it is defined, and its standard error; where there is none, `why` says so.

    `limit` is where it would be with infinitely many seeds; where there is none, `no_limit` says
    what is missing.
    """

    value: float
    error: float | None
    why: str = ""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    limit: Interval | None = None
    no_limit: str = ""

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return the interval of what a study with as many seeds reports, or None."""
        if self.error is None:
            return None
        half = float(ndtri((1 + level) / 2)) * self.error
        low, high = np.clip([self.value - half, self.value + half], *self.bounds)
        return Interval(float(low), float(high), level)


def no_interval(runs: Float[np.ndarray, "*cells env seed"]) -> str:
    """Say why the seeds give no interval, or return nothing if they do."""
    seeds = np.isfinite(runs).sum(axis=-1)
    used = seeds[seeds.min(axis=-1) > 0]
    if used.size == 0:
        return "no cell has a run in every environment"
    if seeds.max() < 2:
        return "one seed per cell: no interval"
    if (seeds.reshape(-1, seeds.shape[-1]).max(axis=0) < 2).any():
        return "an environment has one seed per cell: no interval"
    if np.mean(used.min(axis=-1) >= 2) < 0.5:
        return "most cells have a single seed: no interval"
    return ""


def _scores(
    runs: Float[np.ndarray, "alpha lam env seed"],
    cells: Bool[np.ndarray, "alpha lam"] | None,
    statistic: Statistic,
) -> tuple[Scores, str]:
    """Return the scores that count, and why they have no interval, if so."""
    mask = np.isfinite(cell_scores(runs, statistic))
    if cells is not None:
        mask = mask & cells
    scored(np.where(mask, 0.0, np.nan))  # or an error that there is none
    # Neighbours are the nearest values that count: rows and columns without a cell are no gaps.
    at = np.ix_(mask.any(axis=1), mask.any(axis=0))
    return grid_scores(runs[at], mask[at], statistic), no_interval(runs[mask])


def robustness(
    runs: Float[np.ndarray, "alpha lam env seed"],
    thresholds: Sequence[float],
    *,
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    statistic: Statistic = "mean",
) -> tuple[Estimate, ...]:
    """Return Rbst_T with its uncertainty for each threshold T, over the given cells."""
    scores, why = _scores(runs, cells, statistic)
    out = []
    for level in map(check_threshold, thresholds):
        value = rbst(scores.score, level)
        if why:
            out.append(Estimate(value, None, why, (0.0, 1.0), None, why))
            continue

        def part(d: np.ndarray, level: float = level) -> np.ndarray:
            return np.clip((d - level) / (1 - level), 0.0, 1.0)

        plain = Estimate(value, error_of_mean(scores, part), bounds=(0.0, 1.0))
        seen = plain.interval()
        assert seen is not None
        lower, missing = _lower_end(scores, level, statistic)
        limit = None if missing else Interval(min(max(lower, 0.0), seen.high), seen.high)
        out.append(Estimate(value, plain.error, "", (0.0, 1.0), limit, missing))
    return tuple(out)


def frequency_band(
    runs: Float[np.ndarray, "alpha lam env seed"],
    levels: Sequence[float],
    *,
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    statistic: Statistic = "mean",
) -> tuple[Estimate, ...]:
    """Return freq(tau) with its uncertainty for each level tau: a pointwise band.

    It is that of what a study with as many seeds reports. A step is not convex: no limit.
    """
    scores, why = _scores(runs, cells, statistic)
    values = frequency(scores.score, np.asarray(levels, dtype=np.float64))
    out = []
    for value, level in zip(values, levels, strict=True):

        def part(d: np.ndarray, level: float = level) -> np.ndarray:
            return 1.0 * reaches(d, level)

        error = None if why else error_of_mean(scores, part, more=2)  # a step varies more
        missing = why or "infinitely many seeds: only for Rbst, not for freq"
        out.append(Estimate(float(value), error, why, (0.0, 1.0), None, missing))
    return tuple(out)


def _bend(d: np.ndarray, s: np.ndarray, at: float) -> np.ndarray:
    """E max(d + s Z - at, 0) for a standard normal Z."""
    z = (d - at) / s
    return np.asarray((d - at) * ndtr(z) + s * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


def _lower_end(scores: Scores, level: float, statistic: Statistic) -> tuple[float, str]:
    """Return the lower end of Rbst with infinitely many seeds, or why there is none.

    The noise that is left in averaged cells is nearly normal if enough runs are behind each. Then a
    cell at x with standard error s adds b(s) = E max(x + s Z - T, 0) - max(x - T, 0) too much, and
    b(sqrt(2) s) - b(s), which the data show, is at least sqrt(2) - 1 times that.
    """
    if statistic != "mean":
        return math.nan, f"infinitely many seeds: only for the mean, not for the {statistic}"
    if (scores.score[scores.mask] > 1 + ROUNDING).any():
        return math.nan, "infinitely many seeds: only where no cell scores above 1"
    mask, d = scores.mask, np.where(scores.mask, scores.score, 0.0)
    variance = exchange(scores.variance, mask)
    behind = float((1 / exchange(np.ones(mask.shape), mask, power=2)[mask]).mean())
    ends = []
    if scores.seeds >= ENOUGH or not scores.noisy.any():
        ends.append(_corrected(d, variance, variance, level, scores, averaged=False))
    if scores.seeds * behind >= ENOUGH:
        spread = exchange(variance, mask, power=2)
        ends.append(_corrected(exchange(d, mask), spread, variance, level, scores, averaged=True))
    if not ends:
        return math.nan, f"infinitely many seeds: {math.ceil(ENOUGH / behind)} per cell are needed"
    return max(ends), ""


def _corrected(
    x: Grid, spread: Grid, variance: Grid, level: float, scores: Scores, *, averaged: bool
) -> float:
    """Return Rbst of scores x with their bias and 1.96 standard errors taken off.

    `spread` is the variance of x, `variance` that of a cell before it was averaged.
    """
    mask, width = scores.mask, 1.0 - level
    s = np.maximum(np.sqrt(spread), 1e-12)
    above = np.maximum(x - level, 0.0)
    corrected = above - (_bend(x, s, level) - above) / _AGAIN
    slope = (x > level) * (1 + 1 / _AGAIN) - ndtr((x - level) / s) / _AGAIN
    slope = np.where(mask, slope, 0.0)
    if averaged:
        slope = exchange(slope, mask, back=True)
    error = math.sqrt(float((slope**2 * variance)[mask].sum())) / scores.cells
    return float(corrected[mask].mean() - ndtri(0.975) * error) / width
