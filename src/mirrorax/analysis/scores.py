"""Scores of cells: the mean d(A), the median and the interquartile mean.

All take run scores [..., env, seed] with NaN where a run is missing, and return [...]. A cell
without any run in one of its environments has no score (NaN): the mean over the other
environments would not be comparable with its neighbours.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from jaxtyping import Float

from mirrorax.errors import unknown

Statistic = Literal["mean", "median", "iqm"]
STATISTICS = ("mean", "median", "iqm")


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
