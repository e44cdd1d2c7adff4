"""Predict where an environment's temperatures are good from maps of scores.

The prediction for an environment is, cell by cell,

    pooled + w (own - pooled),    w = b / (b + s / n),

where `pooled` is the mean over all environments, `own` the mean of the environment's own n runs in
the cell, s the variance between seeds, and b the variance between environments (the observed one
less what seeds explain): the estimate with the least squared error if the environments are draws
from one population. Where an environment has few or noisy runs, or none (w = 0), the choice is the
best single cell for all. Sizes of one environment are one family and count once.

Temperatures are taken as they are: whether they should move with the size of the returns cannot be
learned from four environments. Within one environment they are proportional to its rewards,
because argmin <p, -c Q> + c alpha h(p) + c lam D(p, q) is the same policy for every c > 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.lib.stride_tricks import sliding_window_view
from scipy import ndimage

from mirrorax.tuning.evidence import ScoreMap

#: Cells this close to the best are as good as it: scores are means over a few runs.
_PLATEAU = 0.02
#: A cell belongs to the range worth searching if it is predicted to reach this share of the best.
RANGE_SHARE = 0.9
#: A measured cell stands for another up to this distance in each temperature, in decades.
NEAR = 0.35

Grid = Float[np.ndarray, "alpha lam"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted scores on a grid of temperatures, and the cell in the middle of the best of it."""

    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    scores: Grid
    smoothed: Grid
    cell: tuple[int, int]
    #: the weight of the environment's own runs at the cell, from 0 to 1
    own: float = 0.0

    @property
    def alpha(self) -> float:
        """The alpha of the chosen cell."""
        return float(self.alphas[self.cell[0]])

    @property
    def lam(self) -> float:
        """The lambda of the chosen cell."""
        return float(self.lams[self.cell[1]])

    @property
    def score(self) -> float:
        """The predicted score there."""
        return float(self.scores[self.cell])

    @property
    def at_edge(self) -> list[str]:
        """The temperatures of which the cell has the smallest or the largest measured value."""
        names = []
        for axis, name in enumerate(("alpha", "lam")):
            known = np.flatnonzero(np.isfinite(self.scores).any(axis=1 - axis))
            if len(known) > 1 and self.cell[axis] in (known[0], known[-1]):
                names.append(name)
        return names

    def ranges(self) -> list[tuple[float, float]]:
        """Return the ranges of alpha and lambda around the cell that are worth a search.

        They span the connected cells predicted to reach 90% of the best, and at least the
        neighbours of the cell.
        """
        with np.errstate(invalid="ignore"):
            good = self.smoothed >= RANGE_SHARE * self.smoothed[self.cell]
        pieces, _ = ndimage.label(good, structure=np.ones((3, 3)))
        piece = pieces == pieces[self.cell]
        spans = []
        for axis, values in ((1, self.alphas), (0, self.lams)):
            at = self.cell[1 - axis]
            members = np.flatnonzero(piece.any(axis=axis))
            low = min(int(members.min(initial=at)), max(at - 1, 0))
            high = max(int(members.max(initial=at)), min(at + 1, len(values) - 1))
            spans.append((float(values[low]), float(values[high])))
        return spans


def at_nearest(
    scores: ScoreMap, alphas: Float[np.ndarray, " alpha"], lams: Float[np.ndarray, " lam"]
) -> tuple[Grid, Grid]:
    """Return the scores and numbers of runs at the nearest measured cells.

    NaN and 0 outside of what was measured, and where no cell is within `NEAR` decades in both
    temperatures.
    """
    i, far_alpha = _nearest(scores.alphas, alphas)
    j, far_lam = _nearest(scores.lams, lams)
    far = far_alpha[:, None] | far_lam[None, :]
    at = np.ix_(i, j)
    return np.where(far, np.nan, scores.scores[at]), np.where(far, 0, scores.runs[at])


def _nearest(
    known: Float[np.ndarray, " known"], wanted: Float[np.ndarray, " wanted"]
) -> tuple[np.ndarray, np.ndarray]:
    gaps = np.abs(np.log10(wanted)[:, None] - np.log10(known)[None, :])
    index = gaps.argmin(axis=1)
    far = gaps[np.arange(len(wanted)), index] > NEAR
    # Two digits of a temperature may lie a little outside.
    return index, far | (wanted < known.min() / 1.06) | (wanted > known.max() * 1.06)


def smooth(scores: Grid) -> Grid:
    """Average every cell with its neighbours; where one is missing, the cell counts again."""
    padded = np.pad(scores, 1, constant_values=np.nan)
    around = sliding_window_view(padded, (3, 3)).reshape(*scores.shape, 9)
    return np.where(np.isfinite(around), around, scores[..., None]).sum(axis=-1) / 9


def combine(
    maps: Sequence[ScoreMap],
    alphas: Float[np.ndarray, " alpha"],
    lams: Float[np.ndarray, " lam"],
    allowed: Bool[np.ndarray, "alpha lam"] | None = None,
    own: Sequence[ScoreMap] = (),
) -> Prediction | None:
    """Predict from all maps, and from those of the environment itself among them.

    The cell is chosen among the `allowed` ones. None where no cell is covered by every family.
    """
    by_family: dict[str, list[ScoreMap]] = {}
    for each in maps:
        by_family.setdefault(each.family, []).append(each)
    surfaces = np.stack([mean_of(some, alphas, lams)[0] for some in by_family.values()])
    scores, weight = surfaces.mean(axis=0), np.zeros(surfaces.shape[1:])
    if own:
        mine, runs = mean_of(own, alphas, lams)
        weight = _weight(surfaces, runs, own, maps)
        pooled = np.where(np.isfinite(scores), scores, mine)
        scores = np.where(np.isfinite(mine), pooled + weight * (mine - pooled), scores)
    usable = np.isfinite(scores) if allowed is None else np.isfinite(scores) & allowed
    if not usable.any():
        return None
    smoothed = smooth(scores)
    cell = _middle(smoothed, usable)
    return Prediction(alphas, lams, scores, smoothed, cell, float(weight[cell]))


def mean_of(maps: Sequence[ScoreMap], alphas: np.ndarray, lams: np.ndarray) -> tuple[Grid, Grid]:
    """Return the mean score and the number of runs of some maps; NaN where one has no cell."""
    parts = [at_nearest(each, alphas, lams) for each in maps]
    return np.mean([s for s, _ in parts], axis=0), np.sum([n for _, n in parts], axis=0)


def _weight(
    surfaces: Float[np.ndarray, "family alpha lam"],
    runs: Grid,
    own: Sequence[ScoreMap],
    maps: Sequence[ScoreMap],
) -> Grid:
    """Return how much an environment's own runs count in each cell."""
    known = np.isfinite(surfaces).all(axis=0)
    if len(surfaces) < 2 or not known.any():
        return np.ones(runs.shape)
    noises = [each.noise for each in own if np.isfinite(each.noise)]
    noises = noises or [each.noise for each in maps if np.isfinite(each.noise)]
    between = float(surfaces[:, known].var(axis=0, ddof=1).mean())
    # Without a second seed anywhere, all that differs may be noise: half of it is taken as such.
    noise = float(np.mean(noises)) if noises else between / 2
    between = max(between - noise / max(float(np.median(runs[known])), 1.0), 1e-6)
    return between / (between + noise / np.maximum(runs, 1))


def _middle(smoothed: Grid, usable: Bool[np.ndarray, "alpha lam"]) -> tuple[int, int]:
    """Return the usable cell nearest to the middle of the plateau around the best one."""
    ranked = np.where(usable, smoothed, -np.inf)
    plateau = usable & (ranked >= ranked.max() - _PLATEAU)
    pieces, _ = ndimage.label(plateau, structure=np.ones((3, 3)))
    best = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
    cells = np.argwhere(pieces == pieces[best])
    i, j = cells[int(np.argmin(((cells - cells.mean(axis=0)) ** 2).sum(axis=1)))]
    return int(i), int(j)


def grid_of(maps: Sequence[ScoreMap]) -> tuple[np.ndarray, np.ndarray]:
    """Return the temperatures of all maps, to two digits."""

    def axis(name: str) -> Float[np.ndarray, " n"]:
        return np.unique([float(f"{value:.2g}") for m in maps for value in getattr(m, name)])

    return axis("alphas"), axis("lams")
