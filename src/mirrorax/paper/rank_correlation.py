"""Spearman's correlation of noisy estimates with known values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

from mirrorax.analysis.estimates import Estimate, Interval


def rank_correlation(
    estimates: Sequence[Estimate],
    reference: Sequence[float],
    *,
    rng: np.random.Generator,
    draws: int = 2000,
    level: float = 0.95,
) -> tuple[float, Interval | None]:
    """Return Spearman's correlation of some estimates with known values, and its interval.

    Values are drawn from normal distributions about the estimates. Noise lowers a correlation, and
    drawn values have it twice; so the interval holds the quantiles of the draws and the
    same quantiles reflected about the value.
    """
    ranked = stats.rankdata(reference)
    values = np.array([e.value for e in estimates])
    value = float(correlations(ranked, values[None])[0])
    errors = [e.error for e in estimates if e.error is not None]
    if len(errors) < len(values):
        return value, None
    drawn = values + np.array(errors) * rng.standard_normal((draws, len(values)))
    drawn = np.clip(drawn, *estimates[0].bounds)
    tail = (1 - level) / 2
    ends = np.quantile(correlations(ranked, drawn), [tail, 1 - tail])
    both = np.concatenate([ends, 2 * value - ends])
    return value, Interval(max(float(both.min()), -1.0), min(float(both.max()), 1.0), level)


def correlations(
    ranked: Float[np.ndarray, " n"], values: Float[np.ndarray, "draw n"]
) -> Float[np.ndarray, " draw"]:
    """Correlate ranks with those of each row; 0 where a row has no order."""
    a = ranked - ranked.mean()
    b = stats.rankdata(values, axis=1)
    b = b - b.mean(axis=1, keepdims=True)
    scale = np.sqrt((a**2).sum() * (b**2).sum(axis=1))
    return np.divide(b @ a, scale, out=np.zeros(len(b)), where=scale > 0)
