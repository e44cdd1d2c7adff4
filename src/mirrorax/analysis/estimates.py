"""Rbst and the frequency curve with intervals, and what exactly these are intervals of.

Rbst is a mean over cells of g(d) = clip((d - T) / (1 - T), 0, 1) of noisy scores d. Two numbers:

- What a study with as many seeds per cell reports, on average over such studies. The plain value
  estimates it without bias. `interval()` is that value and 1.96 standard errors.
- What it would be with infinitely many seeds: `limit`. Up to d = 1, where scores end, g is convex.
  Hence noise can only raise Rbst, and averaging neighbouring cells can only lower it (Jensen). So
  the limit lies between Rbst of averaged cells, with the noise that is left in these taken off,
  and the upper end of the interval above.

The standard error is the smaller of two estimates that are both rather too large than too small:
the spread of what a cell contributes when one of its seeds is left out (the jackknife, whose
variance is not too small on average: Efron and Stein, 1981), and half the mean squared difference
between neighbouring cells, which holds the noise of both and their true difference besides.
`benchmarks/analysis_coverage.py` measures the coverage of both intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy import ndimage
from scipy.special import ndtr, ndtri

from mirrorax.analysis.scores import (
    ROUNDING,
    UNIT,
    Grid,
    Mask,
    Runs,
    Statistic,
    cell_scores,
    check_threshold,
    frequency,
    rbst,
    reaches,
    score_variances,
    scored,
)

#: Standard errors to each side of a 95% interval.
WIDTH = float(ndtri(0.975))
#: Seeds behind a score, its neighbours' included, from which on its noise is nearly normal.
ENOUGH = 10
#: sqrt(2) - 1: of a cell at the threshold, noise twice as large adds this part of the bias again.
_AGAIN = math.sqrt(2) - 1
#: What a cell gives to each neighbour along an axis when cells are averaged.
_SHARE = 0.25

Contribution = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Interval:
    """Where a number is with 95% confidence."""

    low: float
    high: float

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

    def interval(self) -> Interval | None:
        """Return the 95% interval of what a study with as many seeds reports, or None."""
        if self.error is None:
            return None
        half = WIDTH * self.error
        low, high = np.clip([self.value - half, self.value + half], *self.bounds)
        return Interval(float(low), float(high))


def difference(a: Estimate, b: Estimate) -> Estimate:
    """Return a - b; the runs of different algorithms are independent."""
    value = a.value - b.value
    if a.error is None or b.error is None:
        return Estimate(value, None, a.why or b.why)
    return Estimate(value, math.hypot(a.error, b.error))


def supported(estimate: Estimate) -> bool:
    """Say whether the data support that a difference is not zero."""
    interval = estimate.interval()
    return interval is not None and 0 not in interval


def ranks(estimates: Sequence[Estimate]) -> list[tuple[int, int]] | None:
    """Return the best and the worst rank of each that supported differences leave open.

    Rank 1 is the most robust. None if one of them has no interval.
    """
    if any(each.error is None for each in estimates):
        return None

    def above(a: Estimate, b: Estimate) -> bool:
        return a.value > b.value and supported(difference(a, b))

    return [
        (
            1 + sum(above(other, each) for other in estimates),
            len(estimates) - sum(above(each, other) for other in estimates),
        )
        for each in estimates
    ]


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a grid's cells, and what the seeds say of their noise."""

    mask: Mask  # the cells that count
    score: Grid
    count: Int[np.ndarray, "alpha lam"]  # seeds of a cell: the fewest of its environments
    left_out: Float[np.ndarray, "alpha lam seed"]  # scores without one seed; NaN: no such seed
    best: Grid  # of the best run of each environment, in the cell and those around it
    worst: Grid
    noisy: Mask  # cells whose seeds differ
    variance: Grid  # of the score, if it is a mean

    @property
    def seeds(self) -> float:
        """Seeds of a typical cell."""
        return float(np.median(self.count[self.mask]))

    @property
    def cells(self) -> int:
        """How many cells count."""
        return int(self.mask.sum())


def grid_scores(runs: Runs, mask: Mask, statistic: Statistic) -> Scores:
    """Return the scores of the cells of a mask and of the same cells with other runs."""
    runs = np.where(mask[..., None, None], runs, np.nan)
    given = np.isfinite(runs)
    order = np.argsort(~given, axis=-1, kind="stable")  # missing runs last, the others in order
    runs, given = np.take_along_axis(runs, order, -1), np.take_along_axis(given, order, -1)
    count = given.sum(axis=-1).min(axis=-1)
    slots = np.arange(runs.shape[-1])
    without = [cell_scores(np.where(slots == s, np.nan, runs), statistic) for s in slots]
    usable = (slots < count[..., None]) & (count[..., None] >= 2)
    high = np.where(given, runs, -np.inf).max(axis=-1)
    low = np.where(given, runs, np.inf).min(axis=-1)
    around = {"size": (3, 3, 1), "mode": "constant"}
    best = ndimage.maximum_filter(high, cval=-np.inf, **around)
    worst = ndimage.minimum_filter(low, cval=np.inf, **around)
    return Scores(
        mask=mask,
        score=np.where(mask, cell_scores(runs, statistic), np.nan),
        count=count,
        left_out=np.where(usable, np.stack(without, axis=-1), np.nan),
        best=cell_scores(best[..., None], statistic),
        worst=cell_scores(worst[..., None], statistic),
        noisy=mask & (high - low > ROUNDING).any(axis=-1),
        variance=score_variances(runs, mask),
    )


def error_of_mean(scores: Scores, contribution: Contribution, more: int = 1) -> float:
    """Return the standard error of the mean over cells of what each contributes.

    One cell or `more`, as noisy as the noisiest can be, is counted in: where no cell has passed a
    threshold yet, one might have.
    """
    values = np.where(scores.mask, contribution(scores.score), 0.0)
    noise = min(_between(values, scores.mask), _within(scores, contribution))
    most = 0.0
    if scores.noisy.any():
        reach = contribution(scores.best) - contribution(scores.worst)
        most = float(reach[scores.noisy].max())
    return float(np.sqrt(noise + more * most**2) / scores.cells)


def _within(scores: Scores, contribution: Contribution) -> float:
    """The summed variance from leaving out one seed of each cell."""
    given = np.isfinite(scores.left_out)
    values = np.where(given, contribution(np.where(given, scores.left_out, 0.0)), 0.0)
    count = given.sum(axis=-1)
    cells = count >= 2
    number = np.maximum(count, 1)
    mean = values.sum(axis=-1) / number
    squares = (np.where(given, values - mean[..., None], 0.0) ** 2).sum(axis=-1)
    total = (squares * number / np.maximum(number - 1, 1))[cells].sum()
    return float(total * scores.cells / max(int(cells.sum()), 1))


def _between(values: Grid, mask: Mask) -> float:
    """The summed variance from differences of neighbouring cells; infinite if few have one."""
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    for axis in (0, 1):
        m = np.moveaxis(mask, axis, 0)
        v, t, n = (np.moveaxis(part, axis, 0) for part in (values, total, count))
        both = m[:-1] & m[1:]
        half = np.where(both, np.diff(v, axis=0) ** 2 / 2, 0.0)
        for ends in (slice(None, -1), slice(1, None)):
            t[ends] += half
            n[ends] += both
    cells = count > 0
    if 2 * cells.sum() < mask.sum():
        return np.inf
    return float((total[cells] / count[cells]).mean() * mask.sum())


def exchange(values: Grid, mask: Mask, *, power: int = 1, back: bool = False) -> Grid:
    """Average each cell with its neighbours: weights 1-2-1 along each axis, mirrored at an edge.

    What a cell gives it loses, so the mean over the cells of the mask stays. `power` raises the
    weights, 2 for variances; `back` is the transposed map.
    """
    for axis in (1, 0) if back else (0, 1):
        v, m = np.moveaxis(values, axis, 0), np.moveaxis(mask, axis, 0)
        given = _SHARE * (m[:-1] & m[1:])
        kept = np.ones(v.shape)
        kept[:-1] -= given
        kept[1:] -= given
        out = kept**power * v
        out[:-1] += given**power * v[1:]
        out[1:] += given**power * v[:-1]
        values = np.moveaxis(out, 0, axis)
    return values


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


def _scores(runs: Runs, cells: Mask | None, statistic: Statistic) -> tuple[Scores, str]:
    """Return the scores that count, and why they have no interval, if so."""
    mask = np.isfinite(cell_scores(runs, statistic))
    if cells is not None:
        mask = mask & cells
    scored(np.where(mask, 0.0, np.nan))  # or an error that there is none
    # Neighbours are the nearest values that count: rows and columns without a cell are no gaps.
    at = np.ix_(mask.any(axis=1), mask.any(axis=0))
    return grid_scores(runs[at], mask[at], statistic), no_interval(runs[mask])


def robustness(
    runs: Runs,
    thresholds: Sequence[float],
    *,
    cells: Mask | None = None,
    statistic: Statistic = "mean",
) -> tuple[Estimate, ...]:
    """Return Rbst_T with its uncertainty for each threshold T, over the given cells."""
    scores, why = _scores(runs, cells, statistic)
    return tuple(_rbst(scores, why, check_threshold(level), statistic) for level in thresholds)


def _rbst(scores: Scores, why: str, level: float, statistic: Statistic) -> Estimate:
    value = rbst(scores.score, level)
    if why:
        return Estimate(value, None, why, UNIT, no_limit=why)
    error = error_of_mean(scores, lambda d: np.clip((d - level) / (1 - level), 0.0, 1.0))
    plain = Estimate(value, error, bounds=UNIT)
    seen = plain.interval()
    assert seen is not None
    lower, missing = _lower_end(scores, level, statistic)
    limit = None if missing else Interval(min(max(lower, 0.0), seen.high), seen.high)
    return replace(plain, limit=limit, no_limit=missing)


def frequency_band(
    runs: Runs,
    levels: Sequence[float],
    *,
    cells: Mask | None = None,
    statistic: Statistic = "mean",
) -> tuple[Estimate, ...]:
    """Return freq(tau) with its uncertainty for each level tau: a pointwise band.

    It is that of what a study with as many seeds reports. A step is not convex: no limit.
    """
    scores, why = _scores(runs, cells, statistic)
    missing = why or "infinitely many seeds: only for Rbst, not for freq"

    def error(level: float) -> float:  # of a step, which varies more
        return error_of_mean(scores, lambda d: 1.0 * reaches(d, level), more=2)

    values = frequency(scores.score, np.asarray(levels, dtype=np.float64))
    return tuple(
        Estimate(float(value), None if why else error(level), why, UNIT, no_limit=missing)
        for value, level in zip(values, levels, strict=True)
    )


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
    return float(corrected[mask].mean() - WIDTH * error) / width
