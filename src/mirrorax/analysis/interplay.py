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
from jaxtyping import Float

from mirrorax.analysis.estimates import WIDTH, Interval
from mirrorax.analysis.landscape import full_grid
from mirrorax.analysis.scores import Grid, Mask, Runs, environment_scores, score_variances
from mirrorax.errors import UserError


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


def interplay(runs: Runs, cells: Mask | None = None) -> Interplay:
    """Return the shares of alpha, lambda and their interaction in the variance of d(A).

    The score of a cell is the mean over environments of their means over seeds; give one
    environment's runs for the interplay in that one. Rows and columns with holes are left out, the
    emptiest first.
    """
    score = environment_scores(runs)
    given = np.isfinite(score).all(axis=-1)
    at = np.ix_(*full_grid(given if cells is None else given & cells))
    m, runs = score[at].mean(axis=-1), runs[at]
    rows, columns = m.shape
    if min(rows, columns) < 2:
        raise UserError("interplay: a full grid of at least two alphas and two lambdas is needed")
    noise, free, why = _noise(runs)
    parts = _parts(m)
    # What a unit of noise in every cell adds to each part.
    weights = np.array([rows - 1, columns - 1, (rows - 1) * (columns - 1)]) / m.size
    corrected = np.array([(part**2).mean() for part in parts]) - weights * noise.mean()
    total, positive = float(corrected.sum()), np.maximum(corrected, 0.0)
    x, y = _steps(rows)[:, None], _steps(columns)[None, :]
    tilt = float((m * x * y).mean())
    flat = total <= 0 or positive.sum() <= 0
    values = np.full(3, np.nan) if flat else positive / positive.sum()
    intervals: list[Interval | None] = [None, None, None]
    tilt_interval = None
    if not why:
        # What each part gains if a cell's score does.
        slopes = [2 * part / m.size for part in parts]
        # The noise that is taken off is itself an estimate.
        spread = (noise**2 * 2 / np.maximum(free, 1.0) / m.size**2).sum()
        both = list(zip(slopes, weights, strict=True))
        covariance = np.array(
            [[(s * t * noise).sum() + v * w * spread for t, w in both] for s, v in both]
        )
        intervals = [_fieller(corrected, covariance, part) for part in range(3)]
        half = WIDTH * math.sqrt(float((x**2 * y**2 * noise).sum())) / m.size
        tilt_interval = Interval(tilt - half, tilt + half)
    if flat:
        why = why or "flat: the scores of the cells differ no more than those of their seeds"
    alpha, lam, interaction = map(Share, values.tolist(), intervals)
    return Interplay(
        alpha=alpha,
        lam=lam,
        interaction=interaction,
        variance=max(total, 0.0),
        noise=float(noise.mean()),
        tilt=tilt,
        tilt_interval=tilt_interval,
        shape=(rows, columns),
        why=why,
    )


def _parts(m: Grid) -> tuple[Grid, Grid, Grid]:
    """Return a, b and c on the whole grid."""
    mean = m.mean()
    a = np.broadcast_to(m.mean(axis=1, keepdims=True) - mean, m.shape)
    b = np.broadcast_to(m.mean(axis=0, keepdims=True) - mean, m.shape)
    return a, b, m - mean - a - b


def _noise(runs: Runs) -> tuple[Grid, Grid, str]:
    """Return the variance of each cell's score, its degrees of freedom, and why it is not known."""
    seeds = np.isfinite(runs).sum(axis=-1)
    known = seeds.min(axis=-1) >= 2
    free = np.where(known, (seeds - 1).sum(axis=-1), 1.0)
    if 2 * known.sum() < known.size:
        return np.zeros(known.shape), free, "one seed per cell: noise counts as interplay"
    return score_variances(runs, np.ones_like(known)), free, ""


def _fieller(
    parts: Float[np.ndarray, " 3"], covariance: Float[np.ndarray, "3 3"], which: int
) -> Interval:
    """Return Fieller's interval of parts[which] / sum(parts), within [0, 1]."""
    z = WIDTH
    n, d = float(parts[which]), float(parts.sum())
    nn = float(covariance[which, which])
    nd, dd = float(covariance[which].sum()), float(covariance.sum())
    # (n - r d)^2 <= z^2 (nn - 2 r nd + r^2 dd):  a r^2 - 2 b r + c <= 0
    a, b, c = d * d - z * z * dd, n * d - z * z * nd, n * n - z * z * nn
    if a <= 0 or d <= 0:
        return Interval(0.0, 1.0)  # the variance may be zero: nothing is excluded
    root = math.sqrt(max(b * b - a * c, 0.0))
    low, high = np.clip([(b - root) / a, (b + root) / a], 0.0, 1.0)
    return Interval(float(low), float(high))


def _steps(count: int) -> Float[np.ndarray, " count"]:
    x = np.arange(count) - (count - 1) / 2
    return np.asarray(x / x.std())
