"""How noisy a cell's score is: its standard error, from the spread of its seeds.

A handful of seeds says little about the spread of one cell: five successes in a row look like no
noise at all. Neighbouring cells of the grid behave alike, so each variance is averaged with those
around it. The intervals' coverage was measured with and without (see the documentation).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.resampling import score_resamples
from mirrorax.analysis.scores import Statistic


def mean_variances(
    runs: Float[np.ndarray, "alpha lam env seed"],
) -> Float[np.ndarray, "alpha lam env"]:
    """Return the unbiased variance of each mean over seeds; NaN with fewer than two seeds."""
    given = np.isfinite(runs)
    count = given.sum(axis=-1)
    safe = np.maximum(count, 1)
    mean = np.sum(np.where(given, runs, 0.0), axis=-1) / safe
    squares = np.sum(np.where(given, (runs - mean[..., None]) ** 2, 0.0), axis=-1)
    return np.where(count >= 2, squares / np.maximum(count - 1, 1) / safe, np.nan)


def smooth(values: Float[np.ndarray, "alpha lam *rest"]) -> Float[np.ndarray, "alpha lam *rest"]:
    """Average over the 3 x 3 cells around each, with weights 1-2-1; NaN cells are left out.

    A cell with no number around it takes the mean of the whole grid.
    """
    given = np.isfinite(values)
    total, weight = np.where(given, values, 0.0), given.astype(np.float64)
    for axis in (0, 1):
        total, weight = _blur(total, axis), _blur(weight, axis)
    mean = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
    count = given.sum(axis=(0, 1))
    overall = np.divide(
        np.where(given, values, 0.0).sum(axis=(0, 1)),
        count,
        out=np.full(count.shape, np.nan),
        where=count > 0,
    )
    return np.where(np.isfinite(mean), mean, overall)


def _blur(values: np.ndarray, axis: int) -> np.ndarray:
    out = 2.0 * values
    near = [slice(None)] * values.ndim
    far = [slice(None)] * values.ndim
    near[axis], far[axis] = slice(None, -1), slice(1, None)
    out[tuple(near)] += values[tuple(far)]
    out[tuple(far)] += values[tuple(near)]
    return out


def standard_errors(
    runs: Float[np.ndarray, "alpha lam env seed"],
    statistic: Statistic = "mean",
    *,
    rng: np.random.Generator,
    pooled: bool = True,
) -> Float[np.ndarray, "alpha lam"]:
    """Return the standard error of each cell's score; NaN where the data cannot tell.

    For the mean it follows from the seeds' variances; for the median and the interquartile mean
    from 200 resamples of the seeds.
    """
    if statistic == "mean":
        variance = mean_variances(runs)
        if pooled:
            variance = smooth(variance)
        return np.asarray(np.sqrt(variance.sum(axis=-1)) / runs.shape[2])
    spread = np.var(score_resamples(runs, 200, rng, statistic=statistic, scaled=True), axis=0)
    few = (np.isfinite(runs).sum(axis=-1) < 2).any(axis=-1)
    spread = np.where(few, np.nan, spread)
    return np.sqrt(smooth(spread) if pooled else spread)
