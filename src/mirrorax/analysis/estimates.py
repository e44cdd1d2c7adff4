"""Numbers with intervals: Rbst, the frequency curve and the score of a cell.

Rbst is a mean over cells of a function of noisy scores, g(d) = clip((d - T) / (1 - T), 0, 1),
that bends at T. Noise in a score near T can only add to the mean, so the plug-in value is too
large, by an amount that does not shrink with the number of cells; resampling the seeds adds the
same amount once more. Hence the methods:

- `percentile`: quantiles of the resampled value, as usually done. Far too narrow and off centre.
- `scaled`: the same with the resamples stretched for the number of seeds.
- `basic`: the scaled quantiles reflected about the plug-in value.
- `corrected` (the default): with s the standard error of a cell (see `noise`) and Z a standard
  normal, each cell contributes psi(d) = 2 g(d) - E g(d + s Z), in closed form, which removes the
  bend's bias to first order; the interval is the spread of the mean of psi under the same noise.
  Only the bend at T is smoothed: returns end near 1, so noise does not carry a score past it.

The frequency counts cells at or above a level: a step, whose bias has no sign of its own, and
correcting its centre was measured to make it worse. There `corrected` means the spread of
2 step(d) - E step(d + s Z) about the plug-in value, widened by the size of the estimated bias.

Their measured coverage is in the documentation and can be measured again with `coverage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtr, ndtri, stdtrit

from mirrorax.analysis.noise import mean_variances, standard_errors
from mirrorax.analysis.resampling import score_resamples
from mirrorax.analysis.robustness import ROUNDING, check_threshold, frequency, rbst, reaches, scored
from mirrorax.analysis.scores import Statistic, cell_scores
from mirrorax.errors import UserError, unknown

Method = Literal["corrected", "basic", "scaled", "percentile"]
METHODS = ("corrected", "basic", "scaled", "percentile")
#: Draws of 784 cells: 0.6 GB. An interval is known to a per cent of its width long before.
MOST_RESAMPLES = 100_000


@dataclass(frozen=True)
class Interval:
    """Where a number probably is."""

    low: float
    high: float
    level: float = 0.95

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number as it is defined (`value`), its corrected value, and its uncertainty as draws.

    Where there are no draws, `why` says what the data lack.
    """

    value: float
    corrected: float
    draws: Float[np.ndarray, " resample"] | None
    why: str = ""
    bounds: tuple[float, float] = (-np.inf, np.inf)

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return the central interval of the draws, or None where there is none."""
        if self.draws is None:
            return None
        low, high = np.quantile(self.draws, [(1 - level) / 2, (1 + level) / 2])
        least, most = self.bounds
        return Interval(float(np.clip(low, least, most)), float(np.clip(high, least, most)), level)


def no_interval(runs: Float[np.ndarray, "*cells env seed"]) -> str:
    """Say why the seeds give no interval, or return nothing if they do."""
    seeds = np.isfinite(runs).sum(axis=-1)
    used = seeds[seeds.min(axis=-1) > 0]
    if used.size == 0:
        return "no cell has a run in every environment"
    if seeds.max() < 2:
        return "one seed per cell: no interval"
    if (seeds.reshape(-1, seeds.shape[-1]).max(axis=0) < 2).any():
        return "an environment has one seed per cell: no interval"
    if np.mean(used.min(axis=-1) >= 2) < 0.5:
        return "most cells have a single seed: no interval"
    return ""


def _bend(d: np.ndarray, s: np.ndarray, at: float) -> np.ndarray:
    """E max(d + s Z - at, 0) for a standard normal Z."""
    z = (d - at) / s
    return np.asarray((d - at) * ndtr(z) + s * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


def _corrected(
    d: Float[np.ndarray, " cells"],
    s: Float[np.ndarray, " cells"],
    z: Float[np.ndarray, "resample cells"],
    level: float,
    kind: Literal["rbst", "frequency"],
) -> tuple[float, Float[np.ndarray, " resample"]]:
    """Return the corrected value and draws of it, recentred on it."""
    # Cells further than 6 standard errors below the threshold never matter; dropping them is exact
    # to 1e-9 and saves most of the work, as few cells are good.
    near = d > level - 6.0 * s - ROUNDING
    total, d, s, z = d.size, d[near], np.maximum(s[near], 1e-12), z[:, near]
    moved = d + s * z
    if kind == "rbst":
        width = 1.0 - level
        plain = np.clip((d - level) / width, 0.0, 1.0)
        point = 2.0 * plain - _bend(d, s, level) / width
        draws = (2.0 * np.maximum(moved - level, 0.0) - _bend(moved, s, level)) / width
    else:
        point = reaches(d, level).astype(np.float64)
        draws = 2.0 * reaches(moved, level) - ndtr((moved - level) / s)
    value = float(point.sum() / total)
    spread = draws.sum(axis=1) / total
    spread = spread - spread.mean()
    if kind == "frequency":
        # The bias of a step has no sign of its own, but a size: what smoothing once more moves.
        bias = float((ndtr((d - level) / s) - point).sum() / total)
        deviation = float(spread.std())
        if deviation > 0:
            spread = spread * np.sqrt(1.0 + (bias / deviation) ** 2)
    return value, value + spread


def _estimate(
    runs: Float[np.ndarray, "alpha lam env seed"],
    levels: Sequence[float],
    kind: Literal["rbst", "frequency"],
    *,
    cells: Bool[np.ndarray, "alpha lam"] | None,
    rng: np.random.Generator,
    statistic: Statistic,
    method: Method,
    resamples: int,
) -> tuple[Estimate, ...]:
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if resamples < 2:
        raise UserError(f"resamples: {resamples} are too few; at least 2 are needed")
    if resamples > MOST_RESAMPLES:
        raise UserError(f"resamples: {resamples} are too many; at most {MOST_RESAMPLES} are drawn")
    scores = cell_scores(runs, statistic)
    mask = np.isfinite(scores) if cells is None else np.isfinite(scores) & cells
    d = scored(np.where(mask, scores, np.nan))

    def value(of: np.ndarray, level: float) -> float:
        return rbst(of, level) if kind == "rbst" else float(frequency(of, np.array([level]))[0])

    why = no_interval(runs[mask])
    if why:
        return tuple(Estimate(v := value(d, level), v, None, why) for level in levels)
    if method == "corrected":
        s = standard_errors(runs, statistic, rng=rng)[mask]
        z = rng.standard_normal((resamples, d.size))
        out = []
        for level in levels:
            corrected, draws = _corrected(d, s, z, level, kind)
            point = float(np.clip(corrected, 0.0, 1.0))
            out.append(Estimate(value(d, level), point, draws, bounds=(0.0, 1.0)))
        return tuple(out)
    drawn = score_resamples(
        runs[mask], resamples, rng, statistic=statistic, scaled=method != "percentile"
    )
    out = []
    for level in levels:
        plug = value(d, level)
        if kind == "rbst":
            draws = np.clip((drawn - level) / (1.0 - level), 0.0, 1.0).mean(axis=1)
        else:
            draws = reaches(drawn, level).mean(axis=1)
        mean = float(draws.mean())
        if method == "basic":
            draws = 2.0 * plug - draws
        out.append(Estimate(plug, 2.0 * plug - mean, draws, bounds=(0.0, 1.0)))
    return tuple(out)


def robustness(
    runs: Float[np.ndarray, "alpha lam env seed"],
    thresholds: Sequence[float],
    *,
    rng: np.random.Generator,
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    statistic: Statistic = "mean",
    method: Method = "corrected",
    resamples: int = 2000,
) -> tuple[Estimate, ...]:
    """Return Rbst_T with its uncertainty for each threshold T, over the given cells."""
    levels = [check_threshold(t) for t in thresholds]
    return _estimate(
        runs,
        levels,
        "rbst",
        cells=cells,
        rng=rng,
        statistic=statistic,
        method=method,
        resamples=resamples,
    )


def frequency_band(
    runs: Float[np.ndarray, "alpha lam env seed"],
    levels: Sequence[float],
    *,
    rng: np.random.Generator,
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    statistic: Statistic = "mean",
    method: Method = "corrected",
    resamples: int = 2000,
) -> tuple[Estimate, ...]:
    """Return freq(tau) with its uncertainty for each level tau: a pointwise band."""
    return _estimate(
        runs,
        [float(level) for level in levels],
        "frequency",
        cells=cells,
        rng=rng,
        statistic=statistic,
        method=method,
        resamples=resamples,
    )


def widening(
    runs: Float[np.ndarray, "*cells env seed"], level: float = 0.95
) -> Float[np.ndarray, " *cells"]:
    """Return how much wider Student's interval is than the normal one, for each cell.

    The degrees of freedom are those of a mean over environments with spreads of their own
    (Welch and Satterthwaite); between the fewest seeds less one and the sum of them.
    """
    flat = runs.reshape(1, -1, *runs.shape[-2:])
    variance = mean_variances(flat)[0]
    free = np.isfinite(flat[0]).sum(axis=-1) - 1.0
    total = variance.sum(axis=-1)
    parts = (variance**2 / np.where(free > 0, free, np.nan)).sum(axis=-1)
    degrees = np.divide(
        total**2, parts, out=np.asarray(free.sum(axis=-1), dtype=np.float64), where=parts > 0
    )
    upper = (1 + level) / 2
    factor = stdtrit(degrees, upper) / ndtri(upper)
    return np.asarray(np.where((free > 0).all(axis=-1), factor, np.nan).reshape(runs.shape[:-2]))


def cell_intervals(
    runs: Float[np.ndarray, "*cells env seed"],
    *,
    rng: np.random.Generator,
    statistic: Statistic = "mean",
    resamples: int = 2000,
    level: float = 0.95,
) -> tuple[Float[np.ndarray, " *cells"], Float[np.ndarray, " *cells"]]:
    """Return the low and high ends of an interval for each cell's score; NaN without two seeds.

    Scaled resamples of the seeds, stretched to the width of Student's distribution for the few
    degrees of freedom that a handful of seeds leaves.
    """
    observed = cell_scores(runs, statistic)
    drawn = score_resamples(runs, resamples, rng, statistic=statistic, scaled=True)
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    factor = widening(runs, level)
    return observed + (low - observed) * factor, observed + (high - observed) * factor
