"""Scores of cells, and what is reported of them: frequency, Rbst, the best few per cent.

`environment_scores` and `cell_scores` take run scores [..., env, seed] with NaN where a run is
missing. A cell without any run in one of its environments has no score (NaN): the mean over the
others would not be comparable with its neighbours. The other functions take the scores of the cells
that count, in any shape, and leave out NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.errors import UserError, unknown

Statistic = Literal["mean", "median", "iqm"]
STATISTICS = ("mean", "median", "iqm")
#: A mean of returns that is 0.9 may come out as 0.8999999999999999; it has reached 0.9.
ROUNDING = 1e-9


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
