"""Two algorithms or more: differences, ratios and ranks, with what the data support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.analysis.estimates import Estimate
from mirrorax.analysis.landscape import Cells, Landscape
from mirrorax.errors import UserError


def difference(a: Estimate, b: Estimate) -> Estimate:
    """Return a - b; the draws of different algorithms are independent."""
    value, corrected = a.value - b.value, a.corrected - b.corrected
    if a.draws is None or b.draws is None:
        return Estimate(value, corrected, None, a.why or b.why)
    first, second = _draws(a, b)
    return Estimate(value, corrected, first - second)


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """Return a / b; without an interval where b may be zero."""
    value = a.value / b.value if b.value > 0 else np.nan
    corrected = a.corrected / b.corrected if b.corrected > 0 else np.nan
    if a.draws is None or b.draws is None:
        return Estimate(value, corrected, None, a.why or b.why)
    inside = b.interval()
    if inside is None or inside.low <= 0:
        return Estimate(value, corrected, None, "the denominator may be zero: no interval")
    first, second = _draws(a, b)
    # The rare draw at or below zero would turn the ratio round.
    below = np.maximum(second, np.finfo(np.float64).tiny)
    return Estimate(value, corrected, np.maximum(first, 0.0) / below, bounds=(0, np.inf))


def _draws(*estimates: Estimate) -> list[Float[np.ndarray, " resample"]]:
    """Return the draws of estimates that have some, which must be as many for each."""
    draws = [e.draws for e in estimates if e.draws is not None]
    if len({len(d) for d in draws}) > 1:
        numbers = ", ".join(str(len(d)) for d in draws)
        raise UserError(
            f"resamples: the estimates have {numbers} draws; as many are needed of each"
        )
    return draws


def supported(estimate: Estimate, level: float = 0.95) -> bool:
    """Say whether the data support that a difference is not zero."""
    interval = estimate.interval(level)
    return interval is not None and not (interval.low <= 0 <= interval.high)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Who is above whom. Rank 1 is the most robust; equal draws share the better rank."""

    above: Float[np.ndarray, "algorithm algorithm"]  # share of draws with row above column
    low: Int[np.ndarray, " algorithm"]
    high: Int[np.ndarray, " algorithm"]
    median: Float[np.ndarray, " algorithm"]


def ranks(estimates: Sequence[Estimate], level: float = 0.95) -> Ranks | None:
    """Return how often each is above each other, and an interval for its rank."""
    if not estimates or any(e.draws is None for e in estimates):
        return None
    given = zip(_draws(*estimates), estimates, strict=True)
    draws = np.stack([np.clip(d, *e.bounds) for d, e in given])
    greater = draws[:, None] > draws[None, :]
    above = greater.mean(axis=2)
    rank = 1 + greater.sum(axis=0)
    tail = (1 - level) / 2
    low, median, high = np.quantile(rank, [tail, 0.5, 1 - tail], axis=1, method="inverted_cdf")
    return Ranks(above, low.astype(int), high.astype(int), median)


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
