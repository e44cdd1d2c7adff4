"""Two algorithms or more: differences, ratios and ranks, with what the data support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import stats
from scipy.special import ndtri

from mirrorax.analysis.estimates import Estimate, Interval
from mirrorax.analysis.landscape import Cells, Landscape
from mirrorax.errors import UserError


def difference(a: Estimate, b: Estimate) -> Estimate:
    """Return a - b; the runs of different algorithms are independent."""
    value = a.value - b.value
    if a.error is None or b.error is None:
        return Estimate(value, None, a.why or b.why)
    return Estimate(value, math.hypot(a.error, b.error))


def ratio(a: Estimate, b: Estimate, level: float = 0.95) -> tuple[float, Interval | None]:
    """Return a / b and its interval (Fieller, 1954); None where b may be zero."""
    value = a.value / b.value if b.value > 0 else math.nan
    z = float(ndtri((1 + level) / 2))
    if a.error is None or b.error is None or b.value <= z * b.error:
        return value, None
    # The ratios r at which a - r b is within z standard errors of zero.
    square = b.value**2 - (z * b.error) ** 2
    root = math.sqrt((a.value * b.value) ** 2 - square * (a.value**2 - (z * a.error) ** 2))
    low, high = ((a.value * b.value + sign * root) / square for sign in (-1, 1))
    return value, Interval(max(low, 0.0), high, level)


def supported(estimate: Estimate, level: float = 0.95) -> bool:
    """Say whether the data support that a difference is not zero."""
    interval = estimate.interval(level)
    return interval is not None and 0 not in interval


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks that supported differences leave open; rank 1 is the most robust."""

    low: Int[np.ndarray, " algorithm"]
    high: Int[np.ndarray, " algorithm"]


def ranks(estimates: Sequence[Estimate], level: float = 0.95) -> Ranks | None:
    """Return the best and the worst rank that each may have."""
    if not estimates or any(e.error is None for e in estimates):
        return None
    above = np.array(
        [
            [a.value > b.value and supported(difference(a, b), level) for b in estimates]
            for a in estimates
        ]
    )
    return Ranks(1 + above.sum(axis=0), len(estimates) - above.sum(axis=1))


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


def shared_cells(
    a: Landscape, b: Landscape, cells: Cells = "positive"
) -> tuple[Bool[np.ndarray, "alpha lam"], Bool[np.ndarray, "alpha2 lam2"]]:
    """Return the cells that both have runs for, in each one's own grid.

    Two algorithms on different grids can only be compared where the grids meet.
    """
    if a.axis != b.axis:
        raise UserError(
            f"compare: {a.label} varies {a.axis} and {b.label} varies {b.axis}; "
            "their grids have no cells in common"
        )
    alphas = np.intersect1d(a.alphas, b.alphas)
    lams = np.intersect1d(a.lams, b.lams)
    both = np.ones((len(alphas), len(lams)), dtype=bool)
    for item in (a, b):
        index = np.ix_(np.isin(item.alphas, alphas), np.isin(item.lams, lams))
        both &= (item.counts.min(axis=-1) > 0)[index] & item.cells(cells)[index]
    if not both.any():
        raise UserError(f"compare: {a.label} and {b.label} have no cell of their grids in common")
    out = []
    for item in (a, b):
        mask = np.zeros((len(item.alphas), len(item.lams)), dtype=bool)
        mask[np.ix_(np.isin(item.alphas, alphas), np.isin(item.lams, lams))] = both
        out.append(mask)
    return out[0], out[1]
