"""What is reported of a landscape's scores: frequency, robustness, the best few per cent.

All functions take the scores of the cells that count, in any shape; NaN is a cell without a score
and is left out of numerator and denominator alike. Callers report how many those are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.errors import UserError

#: A mean of returns that is 0.9 may come out as 0.8999999999999999; it has reached 0.9.
ROUNDING = 1e-9


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
    if not 0 < share <= 1:
        raise UserError(f"share: {share!r} is not in (0, 1]")
    values = np.sort(scored(scores))[::-1]
    # 0.1 * 30 is 3.0000000000000004 in floating point: that is 3 cells, not 4.
    count = max(1, math.ceil(share * values.size - 1e-9))
    best = values[:count]
    return Top(share, count, float(best.mean()), float(best.std()), best)
