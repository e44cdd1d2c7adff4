"""How much of a grid's variance is alpha's alone, lambda's alone, and that of their interaction.

Write the true scores of a full grid as

    mu[i, j] = mean + a[i] + b[j] + c[i, j],

where a, b, the rows and the columns of c have mean zero. Then the variance of mu over the cells is
the sum of those of a, b and c, and the shares of the three add up to 1. c is the interplay: what
neither temperature does alone. The temperatures are those of the grid (fixed effects), so the
shares are of this grid, not of a population of temperatures.

Seeds are noisy. A cell's mean over its seeds has a variance v[i, j], and on an I x J grid it adds
in expectation

    mean(v) (I - 1) / (I J),    mean(v) (J - 1) / (I J),    mean(v) (I - 1) (J - 1) / (I J)

to the three variances, whether or not v is the same everywhere. These are taken off. The interval
of a share N / D is Fieller's: all r for which N - r D is within 1.96 standard errors of zero. It
becomes wide, up to [0, 1], where the variance D itself is uncertain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from mirrorax.analysis.estimates import Interval
from mirrorax.analysis.few_seeds import mean_variances
from mirrorax.analysis.scores import environment_scores
from mirrorax.errors import UserError

#: The parts, in the order in which they are shown.
PARTS = ("alpha", "lam", "interaction")

Grid = Float[np.ndarray, "alpha lam"]


@dataclass(frozen=True)
class Share:
    """One part of the variance, from 0 to 1; without an interval where seeds give none."""

    value: float
    interval: Interval | None


@dataclass(frozen=True)
class Interplay:
    """The shares of the variance of a grid's scores; NaN where there is none to share."""

    alpha: Share
    lam: Share
    interaction: Share
    #: the variance of the true scores over the cells
    variance: float
    #: the mean variance that the seeds left in a cell's score
    noise: float
    #: The mean of c[i, j] x[i] y[j], where x and y number the rows and columns, standardised.
    #: Negative: more of one regulariser makes up for less of the other. Positive: not.
    tilt: float
    tilt_interval: Interval | None
    #: the rows and columns of the full grid that was used
    shape: tuple[int, int]
    #: why there is no share or no interval
    why: str = ""


def interplay(
    runs: Float[np.ndarray, "alpha lam env seed"],
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    *,
    level: float = 0.95,
) -> Interplay:
    """Return the shares of alpha, lambda and their interaction in the variance of d(A).

    The score of a cell is the mean over environments of their means over seeds; give one
    environment's runs for the interplay in that one. Rows and columns with holes are left out, the
    emptiest first.
    """
    score = environment_scores(runs)
    given = np.isfinite(score).all(axis=-1)
    if cells is not None:
        given = given & cells
    rows, columns = full_grid(given)
    at = np.ix_(rows, columns)
    m = score[at].mean(axis=-1)
    shape = (int(rows.sum()), int(columns.sum()))
    if min(shape) < 2:
        raise UserError("interplay: a full grid of at least two alphas and two lambdas is needed")
    noise, free, why = _noise(runs[at])
    parts = _parts(m)
    weights = _weights(*shape)  # what a unit of noise in every cell adds to each part
    corrected = np.array([(part**2).mean() for part in parts]) - weights * noise.mean()
    total = float(corrected.sum())
    positive = np.maximum(corrected, 0.0)
    x, y = _steps(shape[0])[:, None], _steps(shape[1])[None, :]
    tilt = float((m * x * y).mean())
    flat = total <= 0 or positive.sum() <= 0
    values = np.full(3, np.nan) if flat else positive / positive.sum()
    intervals: list[Interval | None] = [None, None, None]
    tilt_interval = None
    if not why:
        # What each part gains if a cell's score does.
        slopes = [2 * part / m.size for part in parts]
        spread = noise**2 * 2 / np.maximum(free, 1.0) / m.size**2  # of the noise that is taken off
        covariance = np.array(
            [
                [
                    float((s * t * noise).sum() + weights[i] * weights[j] * spread.sum())
                    for j, t in enumerate(slopes)
                ]
                for i, s in enumerate(slopes)
            ]
        )
        intervals = [_fieller(corrected, covariance, part, level) for part in range(3)]
        half = float(ndtri((1 + level) / 2)) * math.sqrt(float((x**2 * y**2 * noise).sum()))
        tilt_interval = Interval(tilt - half / m.size, tilt + half / m.size, level)
    if flat:
        why = why or "flat: the scores of the cells differ no more than those of their seeds"
    alpha, lam, both = map(Share, values.tolist(), intervals)
    left = float(noise.mean())
    return Interplay(alpha, lam, both, max(total, 0.0), left, tilt, tilt_interval, shape, why)


def full_grid(
    given: Bool[np.ndarray, "alpha lam"],
) -> tuple[Bool[np.ndarray, " alpha"], Bool[np.ndarray, " lam"]]:
    """Return the rows and columns of a grid without holes; the emptiest are dropped one by one."""
    rows, columns = np.asarray(given.any(axis=1)), np.asarray(given.any(axis=0))
    while rows.any() and columns.any():
        part = given[np.ix_(rows, columns)]
        if part.all():
            break
        by_row, by_column = part.mean(axis=1), part.mean(axis=0)
        if by_row.min() <= by_column.min():
            rows[np.flatnonzero(rows)[by_row.argmin()]] = False
        else:
            columns[np.flatnonzero(columns)[by_column.argmin()]] = False
    return rows, columns


def _parts(m: Grid) -> tuple[Grid, Grid, Grid]:
    """Return a, b and c on the whole grid."""
    mean = m.mean()
    a = np.broadcast_to(m.mean(axis=1, keepdims=True) - mean, m.shape)
    b = np.broadcast_to(m.mean(axis=0, keepdims=True) - mean, m.shape)
    return a, b, m - mean - a - b


def _weights(rows: int, columns: int) -> Float[np.ndarray, " 3"]:
    count = rows * columns
    return np.array([rows - 1, columns - 1, (rows - 1) * (columns - 1)]) / count


def _noise(runs: Float[np.ndarray, "alpha lam env seed"]) -> tuple[Grid, Grid, str]:
    """Return the variance of each cell's score, its degrees of freedom, and why it is not known.

    A cell with a single seed counts with the mean of the others.
    """
    variance = mean_variances(runs).sum(axis=-1) / runs.shape[-2] ** 2
    known = np.isfinite(variance)
    seeds = np.isfinite(runs).sum(axis=-1)
    free = np.where(known, (seeds - 1).sum(axis=-1), 1.0)
    if 2 * known.sum() < known.size:
        return np.zeros(variance.shape), free, "one seed per cell: noise counts as interplay"
    return np.where(known, variance, variance[known].mean()), free, ""


def _fieller(
    parts: Float[np.ndarray, " 3"], covariance: Float[np.ndarray, "3 3"], which: int, level: float
) -> Interval:
    """Return Fieller's interval of parts[which] / sum(parts), within [0, 1]."""
    z = float(ndtri((1 + level) / 2))
    n, d = float(parts[which]), float(parts.sum())
    nn = float(covariance[which, which])
    nd, dd = float(covariance[which].sum()), float(covariance.sum())
    # (n - r d)^2 <= z^2 (nn - 2 r nd + r^2 dd):  a r^2 - 2 b r + c <= 0
    a, b, c = d * d - z * z * dd, n * d - z * z * nd, n * n - z * z * nn
    if a <= 0 or d <= 0:
        return Interval(0.0, 1.0, level)  # the variance may be zero: nothing is excluded
    root = math.sqrt(max(b * b - a * c, 0.0))
    low, high = np.clip([(b - root) / a, (b + root) / a], 0.0, 1.0)
    return Interval(float(low), float(high), level)


def _steps(count: int) -> Float[np.ndarray, " count"]:
    x = np.arange(count) - (count - 1) / 2
    return np.asarray(x / x.std())
