"""Pictures of regularisers on the simplex of three actions. Each takes an axis and returns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrorax.regularizers.drifts import Drift, drift
from mirrorax.regularizers.potentials import Potential, potential

#: where the vertices, the policies that always take action 1, 2 or 3, are drawn
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def _grid(resolution: int) -> tuple[Any, Any, Any]:
    """Return points of the simplex, row by row, and where they are drawn."""
    steps = np.arange(resolution + 1)
    i, j = (a.ravel() for a in np.meshgrid(steps, steps, indexing="ij"))
    inside = i + j <= resolution
    p = np.stack([i, j, resolution - i - j], axis=-1)[inside] / resolution
    x, y = (p @ CORNERS).T
    return p, x, y


def _frame(ax: Any, title: str) -> None:
    outline = np.vstack([CORNERS, CORNERS[:1]])
    ax.plot(*outline.T, color="0.2", lw=1)
    for k, (x, y) in enumerate(CORNERS):
        above = k == 2
        ax.annotate(
            f"action {k + 1}",
            (x, y),
            xytext=(0, 4 if above else -4),
            textcoords="offset points",
            ha=("left", "right", "center")[k],
            va="bottom" if above else "top",
            fontsize="x-small",
            color="0.3",
        )
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(title, pad=14)


def potential_on_simplex(h: Potential | str, ax: Any, *, resolution: int = 120) -> Any:
    """Draw h over the simplex of three actions: bright where h is large, with level lines."""
    h = potential(h)
    p, x, y = _grid(resolution)
    value = np.asarray(h.value(p))
    if np.ptp(value) > 0:
        ax.tricontourf(x, y, value, levels=24, cmap="cividis")
        ax.tricontour(x, y, value, levels=10, colors="white", linewidths=0.5, linestyles="solid")
    low, high = h.range(3)
    _frame(ax, f"h = {h}, {low:.2f} to {high:.2f}")
    return ax


def drift_on_simplex(d: Drift | str, q: Any, ax: Any, *, resolution: int = 160) -> Any:
    """Draw the level sets of p -> D(p, q) around the old policy q, on three actions."""
    d, q = drift(d), np.asarray(q, float)
    p, x, y = _grid(resolution)
    value = np.asarray(d.value(p, np.broadcast_to(q, p.shape)))
    finite = np.where(np.isfinite(value), value, np.nanmax(value[np.isfinite(value)]))
    # Level lines go through points on the line from q to the vertex of its rarest action.
    share = np.array([0.15, 0.3, 0.45, 0.6, 0.75, 0.9])[:, None]
    points = q + share * (np.eye(3)[q.argmin()] - q)
    levels = np.unique(np.asarray(d.value(points, np.broadcast_to(q, points.shape))))
    levels = levels[(levels > 0) & (levels < finite.max())]
    if levels.size:
        shades = np.concatenate([[finite.min() - 1e-12], levels, [finite.max() + 1e-9]])
        ax.tricontourf(x, y, finite, levels=shades, cmap="cividis_r", alpha=0.9)
        ax.tricontour(x, y, finite, levels=levels, colors="white", linewidths=0.7)
    ax.plot(*(q @ CORNERS), marker="o", ms=5, color="#D55E00", mec="white", mew=0.8)
    _frame(ax, f"D = {d}")
    return ax
