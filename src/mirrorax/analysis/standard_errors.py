"""What the seeds of a grid say of the noise in a sum over its cells.

Two estimates that are both rather too large than too small; the smaller one counts. The spread of
what a cell contributes when one of its seeds is left out (the jackknife, whose variance is not
too small on average: Efron and Stein, 1981), and half the mean squared difference between
neighbouring cells, which holds the noise of both and their true difference besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import ndimage

from mirrorax.analysis.few_seeds import mean_variances
from mirrorax.analysis.scores import Statistic, cell_scores
from mirrorax.analysis.shares import ROUNDING

#: What a cell gives to each neighbour along an axis when cells are averaged.
_SHARE = 0.25

Grid = Float[np.ndarray, "alpha lam"]
Contribution = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a grid's cells, and what the seeds say of their noise."""

    mask: Bool[np.ndarray, "alpha lam"]  # the cells that count
    score: Grid
    count: Int[np.ndarray, "alpha lam"]  # seeds of a cell: the fewest of its environments
    left_out: Float[np.ndarray, "alpha lam seed"]  # scores without one seed; NaN: no such seed
    best: Grid  # of the best run of each environment, in the cell and those around it
    worst: Grid
    noisy: Bool[np.ndarray, "alpha lam"]  # cells whose seeds differ
    variance: Grid  # of the score, if it is a mean

    @property
    def seeds(self) -> float:
        """Seeds of a typical cell."""
        return float(np.median(self.count[self.mask]))

    @property
    def cells(self) -> int:
        """How many cells count."""
        return int(self.mask.sum())


def grid_scores(
    runs: Float[np.ndarray, "alpha lam env seed"],
    mask: Bool[np.ndarray, "alpha lam"],
    statistic: Statistic,
) -> Scores:
    """Return the scores of the cells of a mask and of the same cells with other runs."""
    runs = np.where(mask[..., None, None], runs, np.nan)
    given = np.isfinite(runs)
    order = np.argsort(~given, axis=-1, kind="stable")  # missing runs last, the others in order
    runs, given = np.take_along_axis(runs, order, -1), np.take_along_axis(given, order, -1)
    count = given.sum(axis=-1).min(axis=-1)
    slots = np.arange(runs.shape[-1])
    without = [cell_scores(np.where(slots == s, np.nan, runs), statistic) for s in slots]
    usable = (slots < count[..., None]) & (count[..., None] >= 2)
    high = np.where(given, runs, -np.inf).max(axis=-1)
    low = np.where(given, runs, np.inf).min(axis=-1)
    around = {"size": (3, 3, 1), "mode": "constant"}
    best = ndimage.maximum_filter(high, cval=-np.inf, **around)
    worst = ndimage.minimum_filter(low, cval=np.inf, **around)
    return Scores(
        mask=mask,
        score=np.where(mask, cell_scores(runs, statistic), np.nan),
        count=count,
        left_out=np.where(usable, np.stack(without, axis=-1), np.nan),
        best=cell_scores(best[..., None], statistic),
        worst=cell_scores(worst[..., None], statistic),
        noisy=mask & (high - low > ROUNDING).any(axis=-1),
        variance=_filled(mean_variances(runs).sum(axis=-1) / runs.shape[-2] ** 2, mask),
    )


def _filled(values: Grid, mask: Bool[np.ndarray, "alpha lam"]) -> Grid:
    """Give cells without a value the mean of the others; cells that do not count have 0."""
    known = mask & np.isfinite(values)
    mean = float(values[known].mean()) if known.any() else 0.0
    return np.where(mask, np.where(known, values, mean), 0.0)


def error_of_mean(scores: Scores, contribution: Contribution, more: int = 1) -> float:
    """Return the standard error of the mean over cells of what each contributes.

    One cell or `more`, as noisy as the noisiest can be, is counted in: where no cell has passed a
    threshold yet, one might have.
    """
    values = np.where(scores.mask, contribution(scores.score), 0.0)
    noise = min(_between(values, scores.mask), _within(scores, contribution))
    most = 0.0
    if scores.noisy.any():
        reach = contribution(scores.best) - contribution(scores.worst)
        most = float(reach[scores.noisy].max())
    return float(np.sqrt(noise + more * most**2) / scores.cells)


def _within(scores: Scores, contribution: Contribution) -> float:
    """The summed variance from leaving out one seed of each cell."""
    given = np.isfinite(scores.left_out)
    values = np.where(given, contribution(np.where(given, scores.left_out, 0.0)), 0.0)
    count = given.sum(axis=-1)
    cells = count >= 2
    number = np.maximum(count, 1)
    mean = values.sum(axis=-1) / number
    squares = (np.where(given, values - mean[..., None], 0.0) ** 2).sum(axis=-1)
    total = (squares * number / np.maximum(number - 1, 1))[cells].sum()
    return float(total * scores.cells / max(int(cells.sum()), 1))


def _between(values: Grid, mask: Bool[np.ndarray, "alpha lam"]) -> float:
    """The summed variance from differences of neighbouring cells; infinite if few have one."""
    total, count = np.zeros(values.shape), np.zeros(values.shape)
    for axis in (0, 1):
        both = _neighbours(mask, axis)
        half = np.where(both, np.diff(values, axis=axis) ** 2 / 2, 0.0)
        for part in _ends(axis):
            total[part] += half
            count[part] += both
    cells = count > 0
    if 2 * cells.sum() < mask.sum():
        return np.inf
    return float((total[cells] / count[cells]).mean() * mask.sum())


def _ends(axis: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """The cells that have a next one along an axis, and those next ones."""
    whole = slice(None)
    first, second = slice(None, -1), slice(1, None)
    return ((first, whole), (second, whole)) if axis == 0 else ((whole, first), (whole, second))


def _neighbours(mask: Bool[np.ndarray, "alpha lam"], axis: int) -> Bool[np.ndarray, "a b"]:
    first, second = _ends(axis)
    return np.asarray(mask[first] & mask[second])


def exchange(
    values: Grid, mask: Bool[np.ndarray, "alpha lam"], *, power: int = 1, back: bool = False
) -> Grid:
    """Average each cell with its neighbours: weights 1-2-1 along each axis, mirrored at an edge.

    What a cell gives it loses, so the mean over the cells of the mask stays. `power` raises the
    weights, 2 for variances; `back` is the transposed map.
    """
    for axis in (1, 0) if back else (0, 1):
        both = _neighbours(mask, axis)
        kept = np.ones(values.shape)
        first, second = _ends(axis)
        kept[first] -= _SHARE * both
        kept[second] -= _SHARE * both
        out = kept**power * values
        out[first] += _SHARE**power * both * values[second]
        out[second] += _SHARE**power * both * values[first]
        values = out
    return values
