"""Spearman's correlation of noisy estimates with known values, or with each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

from mirrorax.analysis.estimates import Estimate, Interval


def rank_correlation(
    first: Sequence[Estimate],
    second: Sequence[Estimate] | Sequence[float],
    *,
    rng: np.random.Generator,
    draws: int = 2000,
) -> tuple[float, Interval | None]:
    """Return Spearman's correlation of two lists, and its 95% interval; plain numbers are exact.

    Values are drawn from normal distributions about the estimates. Noise lowers a correlation, and
    drawn values have it twice; so the interval holds the quantiles of the draws and the
    same quantiles reflected about the value.
    """
    lists = [
        [each if isinstance(each, Estimate) else Estimate(each, 0.0) for each in part]
        for part in (first, second)
    ]
    values = [np.array([each.value for each in part])[None] for part in lists]
    value = float(correlations(*values)[0])
    if any(each.error is None for part in lists for each in part):
        return value, None
    drawn = []
    for mean, part in zip(values, lists, strict=True):
        errors = np.array([each.error for each in part], dtype=float)
        noise = rng.standard_normal((draws, len(part))) if errors.any() else np.zeros((1, 1))
        drawn.append(np.clip(mean + errors * noise, *part[0].bounds))
    quantiles = np.quantile(correlations(*drawn), [0.025, 0.975])
    both = np.clip(np.concatenate([quantiles, 2 * value - quantiles]), -1, 1)
    return value, Interval(float(both.min()), float(both.max()))


def correlations(
    a: Float[np.ndarray, "#draw n"], b: Float[np.ndarray, "#draw n"]
) -> Float[np.ndarray, " draw"]:
    """Correlate the ranks row by row; 0 where a row has no order."""
    ranks = [stats.rankdata(part, axis=1) for part in (a, b)]
    x, y = (part - part.mean(axis=1, keepdims=True) for part in ranks)
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    total = (x * y).sum(axis=1)
    return np.divide(total, scale, out=np.zeros(len(total)), where=scale > 0)
