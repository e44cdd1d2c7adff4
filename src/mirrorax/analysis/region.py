"""Where the good region is: its area, its pieces, the width of its bands, and how much an L it is.

The good region is often an "L": where lambda is small, performance depends on alpha alone, and the
other way round. Here that is a number: the alphas that are good along the strip of lowest lambdas
and the lambdas that are good along the strip of lowest alphas are two bands; together they are an
L, and the good region either is that L or it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy import ndimage

from mirrorax.analysis.scores import Grid, Mask, reaches
from mirrorax.errors import UserError
from mirrorax.formatting import Shown


@dataclass(frozen=True, eq=False, repr=False)
class Region(Shown):
    """The cells with a score of at least `threshold`, both temperatures positive."""

    threshold: float
    good: Mask
    share: float  # of the cells that have a score
    area: float  # in square decades of (alpha, lam)
    components: tuple[int, ...]  # cells in each connected piece, largest first
    alpha_band: Float[np.ndarray, " band"]  # alphas good along the lowest lams
    lam_band: Float[np.ndarray, " band"]
    alpha_decades: float
    lam_decades: float
    explained: float  # share of the good cells that lie on the L
    filled: float  # share of the L's cells that are good
    likeness: float  # common cells over all cells of either (Jaccard); NaN without good cells

    @property
    def pieces(self) -> int:
        """The number of connected pieces."""
        return len(self.components)


def decades(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the width of each grid value in decades: up to halfway to its neighbours."""
    if len(values) == 1:
        return np.ones(1)
    log = np.log10(values)
    first, last = log[0] - (log[1] - log[0]) / 2, 1.5 * log[-1] - 0.5 * log[-2]
    return np.diff([first, *(log[1:] + log[:-1]) / 2, last])


def region(
    scores: Grid,
    alphas: Float[np.ndarray, " alpha"],
    lams: Float[np.ndarray, " lam"],
    threshold: float = 0.9,
) -> Region:
    """Describe the good region among the cells with positive temperatures.

    The strips are the lowest quarter of the positive values of each temperature; a band holds the
    values that are good in at least half of its strip's cells. The arms of the L run from the
    lowest values to where the bands cross.
    """
    if scores.shape != (len(alphas), len(lams)):
        raise UserError(
            f"scores: shape {scores.shape} does not fit a {len(alphas)} x {len(lams)} grid"
        )
    i, j = np.flatnonzero(alphas > 0), np.flatnonzero(lams > 0)
    if len(i) == 0 or len(j) == 0:
        raise UserError("region: the grid has no cell with both temperatures positive")
    inner = scores[np.ix_(i, j)]
    given = np.isfinite(inner)
    if not given.any():
        raise UserError("region: no cell has a score")
    good = given & reaches(inner, threshold)
    wa, wl = decades(alphas[i]), decades(lams[j])
    labels, _ = ndimage.label(good)  # neighbours share an edge
    sizes = np.sort(np.bincount(labels.ravel())[1:])[::-1]

    rows, cols = -(-len(i) // 4), -(-len(j) // 4)
    in_alpha = _band(good[:, :cols], given[:, :cols], axis=1)
    in_lam = _band(good[:rows], given[:rows], axis=0)
    shape = _arm(in_alpha, in_lam) & given
    both = int((good & shape).sum())
    full = np.zeros(scores.shape, dtype=bool)
    full[np.ix_(i, j)] = good
    return Region(
        threshold=threshold,
        good=full,
        share=float(good.sum() / given.sum()),
        area=float((good * wa[:, None] * wl[None, :]).sum()),
        components=tuple(int(n) for n in sizes),
        alpha_band=alphas[i][in_alpha],
        lam_band=lams[j][in_lam],
        alpha_decades=float(wa[in_alpha].sum()),
        lam_decades=float(wl[in_lam].sum()),
        explained=both / good.sum() if good.any() else np.nan,
        filled=both / shape.sum() if shape.any() else np.nan,
        likeness=both / (good | shape).sum() if good.any() else np.nan,
    )


def _band(good: np.ndarray, given: np.ndarray, axis: int) -> Bool[np.ndarray, " n"]:
    number = given.sum(axis=axis)
    return np.asarray((number > 0) & (2 * good.sum(axis=axis) >= np.maximum(number, 1)))


def _arm(in_alpha: np.ndarray, in_lam: np.ndarray) -> Mask:
    """The cells on the L: each band, up to the far edge of the other (or all along, without)."""
    last_alpha = np.flatnonzero(in_alpha).max(initial=-1)
    last_lam = np.flatnonzero(in_lam).max(initial=-1)
    alpha_reach = np.arange(len(in_lam)) <= (last_lam if last_lam >= 0 else len(in_lam))
    lam_reach = np.arange(len(in_alpha)) <= (last_alpha if last_alpha >= 0 else len(in_alpha))
    return np.asarray(
        (in_alpha[:, None] & alpha_reach[None, :]) | (in_lam[None, :] & lam_reach[:, None])
    )
