"""Predict where a new environment's temperatures are good from maps of other environments.

Every cell is scored by its mean over environments. Temperatures are taken as they are: whether they
should move with the size of the returns cannot be learned from four environments. Within one
environment they are proportional to its rewards, because

    argmin <p, -c Q> + c alpha h(p) + c lam D(p, q)

is the same policy for every c > 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from mirrorax.analysis.scores import reaches
from mirrorax.tuning.evidence import ScoreMap

#: Cells this close to the best are as good as it: scores are means over a few runs.
_PLATEAU = 0.02
#: A cell belongs to the range worth searching if it is predicted to reach this share of the best.
RANGE_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted scores on a grid of temperatures, and the cell in the middle of the best of it."""

    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    scores: Float[np.ndarray, "alpha lam"]
    smoothed: Float[np.ndarray, "alpha lam"]
    cell: tuple[int, int]

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

    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
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
        return spans[0], spans[1]


def resample(
    scores: ScoreMap, alphas: Float[np.ndarray, " alpha"], lams: Float[np.ndarray, " lam"]
) -> Float[np.ndarray, "alpha lam"]:
    """Return a map's scores at other temperatures.

    Bilinear in the logarithms; NaN outside of what was measured.
    """
    rows = _weights(np.log10(scores.alphas), np.log10(alphas))
    cols = _weights(np.log10(scores.lams), np.log10(lams))
    inside = np.isfinite(rows).all(axis=1)[:, None] & np.isfinite(cols).all(axis=1)[None, :]
    rows, cols = np.nan_to_num(rows), np.nan_to_num(cols)
    missing = np.isnan(scores.scores)
    value = rows @ np.where(missing, 0.0, scores.scores) @ cols.T
    # A cell next to one without runs is unknown.
    hole = rows @ missing.astype(float) @ cols.T
    return np.where(inside & (hole < 1e-9), value, np.nan)


def _weights(
    known: Float[np.ndarray, " k"], wanted: Float[np.ndarray, " w"]
) -> Float[np.ndarray, "w k"]:
    """Return the weights of linear interpolation; a row of NaN outside the known points."""
    out = np.zeros((len(wanted), len(known)))
    for row, x in enumerate(wanted):
        nearest = int(np.argmin(np.abs(known - x)))
        if abs(known[nearest] - x) < 1e-9:
            out[row, nearest] = 1.0
            continue
        high = int(np.searchsorted(known, x))
        if high == 0 or high == len(known):
            out[row] = np.nan
            continue
        t = (x - known[high - 1]) / (known[high] - known[high - 1])
        out[row, high - 1], out[row, high] = 1 - t, t
    return out


def smooth(scores: Float[np.ndarray, "alpha lam"]) -> Float[np.ndarray, "alpha lam"]:
    """Average each cell with its neighbours: the middle of a good region, not its luckiest cell.

    A neighbour beyond the edge or without a score counts like the cell itself.
    """
    padded = np.pad(scores, 1, constant_values=np.nan)
    total = np.zeros(scores.shape)
    for di in (0, 1, 2):
        for dj in (0, 1, 2):
            part = padded[di : di + scores.shape[0], dj : dj + scores.shape[1]]
            total += np.where(np.isfinite(part), part, scores)
    return total / 9


def combine(
    maps: Sequence[ScoreMap],
    alphas: Float[np.ndarray, " alpha"],
    lams: Float[np.ndarray, " lam"],
    allowed: Bool[np.ndarray, "alpha lam"] | None = None,
) -> Prediction | None:
    """Average maps, each family counting once.

    The cell is chosen among the `allowed` ones. None where none is covered by every family.
    """
    by_family: dict[str, list[np.ndarray]] = {}
    for each in maps:
        by_family.setdefault(each.family, []).append(resample(each, alphas, lams))
    scores = np.mean([np.mean(parts, axis=0) for parts in by_family.values()], axis=0)
    smoothed = smooth(scores)
    usable = np.isfinite(scores) if allowed is None else np.isfinite(scores) & allowed
    if not usable.any():
        return None
    return Prediction(alphas, lams, scores, smoothed, _middle(smoothed, usable))


def _middle(
    smoothed: Float[np.ndarray, "alpha lam"], usable: Bool[np.ndarray, "alpha lam"]
) -> tuple[int, int]:
    """Return the usable cell nearest to the middle of the plateau around the best one."""
    ranked = np.where(usable, smoothed, -np.inf)
    plateau = usable & (ranked >= ranked.max() - _PLATEAU)
    pieces, _ = ndimage.label(plateau, structure=np.ones((3, 3)))
    best = np.unravel_index(int(np.argmax(ranked)), ranked.shape)
    cells = np.argwhere(pieces == pieces[best])
    i, j = cells[int(np.argmin(((cells - cells.mean(axis=0)) ** 2).sum(axis=1)))]
    return int(i), int(j)


def grid_of(
    maps: Sequence[ScoreMap],
) -> tuple[Float[np.ndarray, " alpha"], Float[np.ndarray, " lam"]]:
    """Return the temperatures of all maps, to two digits."""

    def axis(name: str) -> Float[np.ndarray, " n"]:
        return np.unique([float(f"{value:.2g}") for m in maps for value in getattr(m, name)])

    return axis("alphas"), axis("lams")


def left_out(maps: Sequence[ScoreMap]) -> list[tuple[ScoreMap, Prediction | None]]:
    """Predict each map from those of other families, on its own grid."""
    out = []
    for each in maps:
        rest = [other for other in maps if other.family != each.family]
        if rest:
            measured = np.isfinite(each.scores)
            out.append((each, combine(rest, each.alphas, each.lams, measured)))
    return out


def good(scores: ScoreMap, threshold: float) -> Bool[np.ndarray, "alpha lam"]:
    """Return the cells whose score reaches the threshold."""
    return np.isfinite(scores.scores) & reaches(scores.scores, threshold)
