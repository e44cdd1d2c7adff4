"""Scores of cells, and what is reported of them: frequency, Rbst, the best few per cent.

`environment_scores` and `cell_scores` take run scores [..., env, seed] with NaN where a run is
missing. A cell without any run in one of its environments has no score (NaN): the mean over the
others would not be comparable with its neighbours. The other functions take the scores of the cells
that count, in any shape, and leave out NaN.

The mean of a few seeds has one interval wherever it is shown: Student's; a score that is a mean
over environments has Welch's degrees of freedom. One seed has no interval. With two, and where all
seeds agree, the values themselves are shown: a handful of runs that succeed does not say how often
one fails. Its measured coverage is in the documentation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from mirrorax.errors import UserError, unknown

#: The scores of an algorithm's runs.
Runs = Float[np.ndarray, "alpha lam env seed"]
#: A number for each of its cells.
Grid = Float[np.ndarray, "alpha lam"]
#: Some of its cells.
Mask = Bool[np.ndarray, "alpha lam"]
Statistic = Literal["mean", "median", "iqm"]
STATISTICS = ("mean", "median", "iqm")
#: A mean of returns that is 0.9 may come out as 0.8999999999999999; it has reached 0.9.
ROUNDING = 1e-9
#: Ends of normalised scores where the bounds of returns are known.
UNIT = (0.0, 1.0)
#: Seeds agree if none of a cell's environments has scores further apart, of 1 from bound to bound.
AGREE = 0.1


def environment_scores(
    runs: Float[np.ndarray, "*cells env seed"],
) -> Float[np.ndarray, "*cells env"]:
    """Return the mean over the seeds of each environment; NaN where there is none."""
    given = np.isfinite(runs)
    count = given.sum(axis=-1)
    total = np.sum(np.where(given, runs, 0.0), axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def cell_scores(
    runs: Float[np.ndarray, "*cells env seed"], statistic: Statistic = "mean"
) -> Float[np.ndarray, " *cells"]:
    """Return one score per cell.

    - `mean`: d(A), the mean over environments of their means over seeds, which
      is the plain mean where every environment has the same number of runs, and weighs
      environments equally where one of them lacks a run.
    - `median`, `iqm`: of the run scores of all environments together.
    """
    if statistic == "mean":
        return np.asarray(environment_scores(runs).mean(axis=-1))
    if statistic not in STATISTICS:
        raise unknown("statistic", statistic, STATISTICS)
    complete = np.isfinite(runs).any(axis=-1).all(axis=-1)
    pooled = np.sort(runs.reshape(*runs.shape[:-2], -1), axis=-1)  # NaN sorts last
    count = np.isfinite(pooled).sum(axis=-1)[..., None]
    position = np.arange(pooled.shape[-1])
    # How many of the sorted scores are cut at each end: a quarter, or all but the middle one or
    # two. The count is rounded down, as in scipy.stats.trim_mean.
    cut = count // 4 if statistic == "iqm" else np.maximum((count - 1) // 2, 0)
    kept = (position >= cut) & (position < count - cut)
    total = np.sum(np.where(kept, pooled, 0.0), axis=-1)
    number = kept.sum(axis=-1)
    score = np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)
    return np.where(complete, score, np.nan)


def reaches(scores: Float[np.ndarray, "*shape"], level: float) -> Bool[np.ndarray, "*shape"]:
    """Say which scores are at least `level`, up to the rounding of a mean; NaN is not."""
    return np.asarray(scores >= level - ROUNDING)


def check_threshold(threshold: float) -> float:
    """Return the threshold if Rbst is defined for it."""
    if not 0 <= threshold < 1:
        raise UserError(f"threshold: {threshold!r} is not in [0, 1)")
    return float(threshold)


def scored(scores: Float[np.ndarray, "..."]) -> Float[np.ndarray, " cells"]:
    """Return the scores there are, or say that there are none."""
    values = np.asarray(scores, dtype=np.float64).ravel()
    values = values[np.isfinite(values)]
    if values.size == 0:
        raise UserError(
            "cells: none has a run in every one of its environments, so there is no score"
        )
    return values


def frequency(
    scores: Float[np.ndarray, "..."], levels: Float[np.ndarray, " levels"]
) -> Float[np.ndarray, " levels"]:
    """Return freq(tau), the share of cells with a score of at least tau, for each level tau."""
    values = np.sort(scored(scores))
    least = np.asarray(levels, dtype=np.float64) - ROUNDING  # as `reaches`
    below = np.searchsorted(values, least, side="left")
    return 1.0 - below / values.size


def rbst(scores: Float[np.ndarray, "..."], threshold: float) -> float:
    """Return Rbst_T, the normalised area under freq(tau) for tau in [T, 1].

    The integral of the share of cells at or above tau is, cell by cell, the length of [T, 1] that
    lies below the cell's score: the mean over cells of clip((d - T) / (1 - T), 0, 1), exactly.
    """
    check_threshold(threshold)
    values = scored(scores)
    return float(np.mean(np.clip((values - threshold) / (1.0 - threshold), 0.0, 1.0)))


@dataclass(frozen=True)
class Top:
    """The best share of cells: how many they are, their mean and standard deviation."""

    share: float
    count: int
    mean: float
    std: float
    scores: Float[np.ndarray, " best"]


def top(scores: Float[np.ndarray, "..."], share: float) -> Top:
    """Return the best ceil(q n) cells; the standard deviation is that of a population."""
    values = np.sort(scored(scores))[::-1]
    count = top_count(values.size, share)
    best = values[:count]
    return Top(share, count, float(best.mean()), float(best.std()), best)


def top_count(cells: int, share: float) -> int:
    """Return how many cells are the best share of some."""
    if not 0 < share <= 1:
        raise UserError(f"share: {share!r} is not in (0, 1]")
    # 0.1 * 30 is 3.0000000000000004 in floating point: that is 3 cells, not 4.
    return max(1, math.ceil(share * cells - 1e-9))


def mean_variances(
    runs: Float[np.ndarray, "*cells env seed"],
) -> Float[np.ndarray, "*cells env"]:
    """Return the unbiased variance of each mean over seeds; NaN with fewer than two seeds."""
    given = np.isfinite(runs)
    count = given.sum(axis=-1)
    mean = environment_scores(runs)
    squares = np.sum(np.where(given, (runs - mean[..., None]) ** 2, 0.0), axis=-1)
    return np.where(count >= 2, squares / np.maximum(count - 1, 1) / np.maximum(count, 1), np.nan)


def score_variances(
    runs: Float[np.ndarray, "*cells env seed"], mask: Bool[np.ndarray, " *cells"]
) -> Float[np.ndarray, " *cells"]:
    """Return the variance of each cell's score, the mean over environments.

    A cell with a single seed has the mean variance of the others; one that is not in the mask, 0.
    """
    variance = mean_variances(runs).sum(axis=-1) / runs.shape[-2] ** 2
    known = mask & np.isfinite(variance)
    mean = float(variance[known].mean()) if known.any() else 0.0
    return np.where(mask, np.where(known, variance, mean), 0.0)


def mean_intervals(
    runs: Float[np.ndarray, "*cells env seed"],
    *,
    bounds: tuple[float, float] | None = UNIT,
    agree: float = AGREE,
) -> tuple[Float[np.ndarray, " *cells"], Float[np.ndarray, " *cells"]]:
    """Return the ends of a 95% interval for each cell's mean; NaN where there is none.

    There is none with fewer than three seeds in an environment, or where seeds agree: where none
    differ by more than `agree`. `bounds` are the least and the largest score; ends beyond them are
    cut, unless a run is beyond them, too (Acrobot's 1 is a level called solved). None: not known.
    """
    given = np.isfinite(runs)
    free = given.sum(axis=-1) - 1.0
    lowest = np.where(given, runs, np.inf).min(axis=-1, initial=np.inf)
    highest = np.where(given, runs, -np.inf).max(axis=-1, initial=-np.inf)
    enough = (free >= 2).all(axis=-1) & ((highest - lowest).max(axis=-1) > agree)
    variance = mean_variances(runs)
    total = variance.sum(axis=-1)
    parts = (variance**2 / np.where(free > 0, free, np.nan)).sum(axis=-1)
    degrees = np.divide(total**2, parts, out=np.full(total.shape, np.nan), where=enough)
    half = stdtrit(degrees, 0.975) * np.sqrt(total) / runs.shape[-2]
    score = np.where(enough, cell_scores(runs), np.nan)
    floor, ceiling = bounds or (-np.inf, np.inf)
    least = np.where(lowest.min(axis=-1) < floor, -np.inf, floor)
    most = np.where(highest.max(axis=-1) > ceiling, np.inf, ceiling)
    return np.maximum(score - half, least), np.minimum(score + half, most)


def mean_interval(
    values: Float[np.ndarray, " seed"],
    bounds: tuple[float, float] | None = UNIT,
    agree: float = AGREE,
) -> tuple[float, float] | None:
    """Return the ends of the interval of a mean over seeds, or None where there is none."""
    row = np.asarray(values, dtype=np.float64)[None]
    low, high = mean_intervals(row, bounds=bounds, agree=agree)
    return None if np.isnan(low) else (float(low), float(high))


def seeds_in_words(
    runs: Float[np.ndarray, "env seed"],
    bounds: tuple[float, float] | None = UNIT,
    *,
    agree: float = AGREE,
    noun: str = "seed",
) -> str:
    """Return the interval of a mean as text, or what stands in its place."""
    count = int(np.isfinite(runs).sum(axis=-1).min())
    if count < 2:
        return f"one {noun}: no interval"
    each = cell_scores(np.stack([row[np.isfinite(row)][:count] for row in runs]).T[..., None])
    if count == 2:
        return f"two {noun}s: {each[0]:.3f} and {each[1]:.3f}"
    low, high = mean_intervals(runs, bounds=bounds, agree=agree)
    if np.isnan(low):
        return f"{count} {noun}s agree: {each.min():.3f} to {each.max():.3f}"
    beyond = bounds in (None, UNIT) and (low < UNIT[0] or high > UNIT[1])
    note = ", beyond [0, 1], as scores can be" if beyond else ""
    return f"[{low:.3f}, {high:.3f}]{note}"
