"""The mean of a few seeds with its interval: one function, used wherever such a mean is shown.

Student's interval; a score that is a mean over environments has Welch's degrees of freedom. One
seed has no interval. With two, and where all seeds agree, the values themselves are shown: a
handful of runs that succeed does not say how often one fails. Its measured coverage is in the
documentation.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtrit

from mirrorax.analysis.scores import cell_scores, environment_scores

#: Ends of normalised scores where the bounds of returns are known.
UNIT = (0.0, 1.0)
#: Seeds agree if none of a cell's environments has scores further apart, of 1 from bound to bound.
AGREE = 0.1


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
