"""Pictures of the readings side by side: fingerprint, verdicts, agreement on the order of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.figures.style import COLOURS, PAGE, PALETTE, new
from mirrorax.paper.agreement import PAPER, Correlation
from mirrorax.paper.fingerprint import Fingerprint, ranking
from mirrorax.paper.implications import implications
from mirrorax.paper.matrix import Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: met or reproduced, neither, the opposite: light enough for black text
_MARKS = {"met": "#A6D8C3", "open": "#E6E6E6", "not met": "#F2B79A"}
_VERDICTS = {
    "reproduced": _MARKS["met"],
    "not decided": _MARKS["open"],
    "not reproduced": _MARKS["not met"],
}
_ROW = 0.27  # inches


def draw_fingerprint(prints: Mapping[str, Fingerprint]) -> Figure:
    """Draw readings by implications, the likeliest first, and their likelihoods beside them."""
    names = [name for name, _ in ranking(prints)]
    figure, axes = new(PAGE, 1.15 + _ROW * len(names), ncols=2, sharey=True, width_ratios=[3.4, 1])
    left, right = axes
    for y, name in enumerate(names):
        for x, point in enumerate(prints[name].points):
            low, high = point.interval.low, point.interval.high
            text = f"{point.score:.2f}\n[{low:.2f}, {high:.2f}]"
            _cell(left, x, y, _MARKS[point.mark], text)
        each = prints[name]
        right.plot([each.interval.low, each.interval.high], [y, y], color=PALETTE[0])
        right.plot(each.log_likelihood, y, "o", color=PALETTE[0], markersize=4)
    _frame(left, [f"{each.name}\n{each.bound}" for each in implications()], names)
    right.set_xlabel("log-likelihood")
    right.tick_params(axis="y", length=0)
    right.grid(axis="x", color="0.9", linewidth=0.5)
    right.set_axisbelow(True)
    figure.legend(handles=_patches(_MARKS), loc="outside lower left", ncols=3)
    return figure


def draw_matrix(matrix: Matrix) -> Figure:
    """Draw claims by readings: the colour is the verdict, the text the number behind it."""
    names = list(matrix.claims)
    rows = matrix.rows
    figure, ax = new(PAGE, 1.3 + _ROW * len(names))
    for y, name in enumerate(names):
        for x, row in enumerate(rows):
            claim = row[name]
            colour = _VERDICTS[claim.verdict] if claim.runs else "white"
            _cell(ax, x, y, colour, claim.key.replace(" ", "\n") if claim.runs else "")
    _frame(ax, [f"({next(iter(row.values())).number})" for row in rows], names)
    figure.legend(
        handles=_patches({**_VERDICTS, "no runs": "white"}), loc="outside lower left", ncols=4
    )
    return figure


def draw_agreement(correlations: Mapping[tuple[str, str], Correlation]) -> Figure:
    """Draw the rank correlations of readings with the paper and with each other."""
    names = list(dict.fromkeys(name for name, _ in correlations))
    columns = [PAPER, *names]
    values = np.full((len(names), len(columns)), np.nan)
    figure, ax = new(PAGE, 1.0 + 0.36 * len(names))
    for y, name in enumerate(names):
        for x, other in enumerate(columns):
            both = correlations.get((name, other)) or correlations.get((other, name))
            if both is None:
                continue
            values[y, x] = both.value
            text = f"{both.value:.2f}\n[{both.interval.low:.2f}, {both.interval.high:.2f}]"
            colour = "white" if both.value < 0.2 else "black"
            ax.text(x, y, text, ha="center", va="center", fontsize=5.5, color=colour)
    mesh = ax.imshow(values, cmap=COLOURS, vmin=-1, vmax=1, aspect="auto")
    slant = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(columns)), columns, **slant)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(mesh, ax=ax, fraction=0.04, pad=0.02)
    bar.set_label("rank correlation")
    bar.outline.set_visible(False)
    return figure


def _cell(ax: Any, x: int, y: int, colour: str, text: str) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="0.85", lw=0.4)
    ax.add_patch(box)
    ax.text(x, y, text, ha="center", va="center", fontsize=5.5, linespacing=1.1)


def _frame(ax: Any, columns: list[str], rows: list[str]) -> None:
    ax.set_xlim(-0.55, len(columns) - 0.45)
    ax.set_ylim(len(rows) - 0.45, -0.55)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)


def _patches(colours: Mapping[str, str]) -> list[Any]:
    from matplotlib.patches import Patch

    return [
        Patch(facecolor=colour, edgecolor="0.85", label=name) for name, colour in colours.items()
    ]
