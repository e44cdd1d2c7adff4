"""Scores over alpha and lambda, and a panel of them.

The grid is uneven and starts at zero, which has no logarithm. Each grid value gets a column of
equal width, zero stands apart behind a gap, and the decades are labelled where they begin: so every
cell can be seen, and one column is one tested value, not a distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.scores import Statistic, cell_scores, environment_scores
from mirrorax.analysis.shares import reaches
from mirrorax.errors import UserError
from mirrorax.figures.style import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

GAP = 0.5  # between the column of zero and the others
FULL_DOT = 0.25  # the half-width of the largest dot


@dataclass(frozen=True, eq=False)
class HeatMap:
    """What a heat map shows: scores on a grid, NaN where there is none."""

    scores: Float[np.ndarray, "alpha lam"]
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    title: str = ""
    axis: str = "alpha"
    half_widths: Float[np.ndarray, "alpha lam"] | None = None


def heat_map(
    landscape: Landscape, *, environment: str | None = None, statistic: Statistic = "mean"
) -> HeatMap:
    """Return what to draw of a landscape: its cells' scores, or those of one environment."""
    runs = landscape.runs()
    if environment is None:
        scores, title = cell_scores(runs, statistic), landscape.label
    else:
        chosen = landscape.select([environment])
        scores, title = environment_scores(chosen.runs())[..., 0], environment
    return HeatMap(scores, landscape.alphas, landscape.lams, title, landscape.axis)


def edges(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n1"]:
    """Return where each value's column begins and ends: unit columns, zero set apart."""
    out = np.arange(len(values) + 1, dtype=np.float64)
    if len(values) > 1 and values[0] == 0:
        out[1:] += GAP
    return out


def centres(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the middle of each value's column."""
    out = np.arange(len(values)) + 0.5
    if len(values) > 1 and values[0] == 0:
        out[1:] += GAP
    return out


def ticks(
    values: Float[np.ndarray, " n"], spacing: float = 0.0
) -> tuple[list[float], list[str], list[float]]:
    """Return where to write what, and where a mark alone has to do.

    Zero and the decades are written, on a small grid every value; one that comes nearer than
    `spacing` columns to the last that was written keeps only its mark.
    """
    places: list[float] = []
    texts: list[str] = []
    marks: list[float] = []
    for x, value in zip(centres(values), values, strict=True):
        power = np.log10(value) if value > 0 else 0.0
        if len(values) <= 8:
            text = f"{value:g}"
        elif value == 0:
            text = "0"
        elif abs(power - round(power)) < 1e-9:
            text = f"$10^{{{round(power)}}}$"
        else:
            continue
        if places and x - places[-1] < spacing:
            marks.append(float(x))
        else:
            places.append(float(x))
            texts.append(text)
    return places, texts, marks


def _spacing(ax: Axes, span: float, way: str) -> float:
    """How many columns a label needs: its size over the size of a column, in inches."""
    box = ax.get_position()
    figure = ax.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    size = float(box.width * figure[0] if way == "x" else box.height * figure[1])
    label = 0.28 if way == "x" else 0.13
    return label * span / max(size, 0.1)


def draw_heat_map(
    data: HeatMap,
    ax: Axes,
    *,
    limits: tuple[float, float] = (0.0, 1.0),
    contour: float | None = 0.9,
    colour_bar: bool = True,
    labels: bool = True,
) -> Axes:
    """Draw the scores: alpha upwards, lambda to the right.

    `contour` outlines the cells with at least that score; half-widths, where given, are dots.
    """
    if data.scores.shape != (len(data.alphas), len(data.lams)):
        raise UserError(f"scores: shape {data.scores.shape} does not fit the grid")
    x, y = edges(data.lams), edges(data.alphas)
    ax.set_facecolor("0.92")  # holes are grey, not white and not a colour of the scale
    split = (_starts(data.alphas), _starts(data.lams))
    mesh: ScalarMappable | None = None
    # Zero is drawn on its own, so that the gap stays empty.
    for i in split[0]:
        for j in split[1]:
            part = np.ma.masked_invalid(data.scores[i, j])
            mesh = ax.pcolormesh(
                x[j.start : j.stop + 1] if j.start else _zero(x, j),
                y[i.start : i.stop + 1] if i.start else _zero(y, i),
                part,
                cmap=COLOURS,
                vmin=limits[0],
                vmax=limits[1],
                linewidth=0,
                rasterized=True,
            )
    if contour is not None:
        _outline(data, ax, contour)
    if data.half_widths is not None:
        _dots(data, ax)
    _gaps(data, ax)
    for way, axis, values in (("x", ax.xaxis, data.lams), ("y", ax.yaxis, data.alphas)):
        span = float(edges(values)[-1])
        slanted = way == "x" and _slanted(values)
        places, texts, marks = ticks(values, 0.0 if slanted else _spacing(ax, span, way))
        axis.set_ticks(places, texts)
        axis.set_ticks(marks, minor=True)
        axis.set_tick_params(which="both", length=2)
    if labels:
        ax.set_xlabel(r"drift temperature $\lambda$")
        name = r"$\alpha$" if data.axis == "alpha" else "target weight $w$"
        ax.set_ylabel(f"MDP temperature {name}" if data.axis == "alpha" else name)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    if _slanted(data.lams):
        ax.tick_params(axis="x", rotation=45)
    for spine in ax.spines.values():
        spine.set_visible(False)
    title = data.title
    if data.half_widths is not None:
        title += f"\ndots: half-width of the 95% interval (largest: {FULL_DOT:g})"
    if title:
        ax.set_title(title)
    if colour_bar and mesh is not None:
        bar = ax.figure.colorbar(mesh, ax=ax, fraction=0.05, pad=0.02, extend=_extend(data, limits))
        bar.set_label("normalised return")
        bar.outline.set_visible(False)
    return ax


def _slanted(values: np.ndarray) -> bool:
    """Whether the values of a small grid are too long to stand side by side."""
    return len(values) <= 8 and sum(len(f"{v:g}") for v in values) > 16


def _starts(values: np.ndarray) -> list[slice]:
    if len(values) > 1 and values[0] == 0:
        return [slice(0, 1), slice(1, len(values))]
    return [slice(0, len(values))]


def _zero(places: np.ndarray, part: slice) -> np.ndarray:
    if part.stop == 1 and len(places) > 2:
        return np.array([places[0], places[0] + 1.0])
    return places[part.start : part.stop + 1]


def _gaps(data: HeatMap, ax: Axes) -> None:
    """Paint the gaps in the figure's own colour, so that they are not taken for holes."""
    back = ax.figure.get_facecolor()
    if len(data.lams) > 1 and data.lams[0] == 0:
        ax.axvspan(1, 1 + GAP, color=back, lw=0, zorder=1.5)
    if len(data.alphas) > 1 and data.alphas[0] == 0:
        ax.axhspan(1, 1 + GAP, color=back, lw=0, zorder=1.5)


def _extend(data: HeatMap, limits: tuple[float, float]) -> str:
    given = data.scores[np.isfinite(data.scores)]
    if given.size == 0:
        return "neither"
    below, above = given.min() < limits[0] - 1e-9, given.max() > limits[1] + 1e-9
    return {(0, 0): "neither", (1, 0): "min", (0, 1): "max"}.get((int(below), int(above)), "both")


def outline(
    good: np.ndarray, x: np.ndarray, y: np.ndarray
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the sides of the good cells that border on others, as segments.

    x and y are the middles of the columns and rows, which are one wide: the gap stays empty.
    """
    padded = np.pad(good, 1, constant_values=False)
    lines = []
    for i, j in zip(*np.nonzero(good), strict=True):
        left, right, low, high = x[j] - 0.5, x[j] + 0.5, y[i] - 0.5, y[i] + 0.5
        sides = (
            ((0, 1), ((left, low), (left, high))),
            ((2, 1), ((right, low), (right, high))),
            ((1, 0), ((left, low), (right, low))),
            ((1, 2), ((left, high), (right, high))),
        )
        for (dj, di), line in sides:
            if not padded[i + di, j + dj]:
                lines.append(line)
    return lines


def _outline(data: HeatMap, ax: Axes, level: float) -> None:
    from matplotlib.collections import LineCollection

    good = np.isfinite(data.scores) & reaches(data.scores, level)
    lines = outline(good, centres(data.lams), centres(data.alphas))
    # White below black: seen on dark and on light cells.
    ax.add_collection(LineCollection(lines, colors="white", linewidths=1.6, zorder=3))
    ax.add_collection(
        LineCollection(lines, colors="black", linewidths=0.7, zorder=4, label=f"score >= {level:g}")
    )


def _dots(data: HeatMap, ax: Axes) -> None:
    half = data.half_widths
    assert half is not None
    i, j = np.nonzero(np.isfinite(half))
    x, y = centres(data.lams)[j], centres(data.alphas)[i]
    # The largest dot fills a cell of a 29 x 29 map in one column.
    size = 14.0 * np.clip(half[i, j] / FULL_DOT, 0, 1)
    ax.scatter(x, y, s=size, c="white", edgecolors="black", linewidths=0.25, zorder=5)


def draw_panel(
    maps: Sequence[HeatMap],
    figure: Figure,
    *,
    columns: int = 4,
    limits: tuple[float, float] = (0.0, 1.0),
    contour: float | None = 0.9,
) -> np.ndarray:
    """Draw several heat maps on one colour scale; return the axes used, in order."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if not maps:
        raise UserError("panel: there is no heat map to draw")
    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    # Rows may share their axis only where it has the same values throughout.
    same = all(np.array_equal(one.alphas, maps[0].alphas) for one in maps)
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row" if same else False)
    layout = figure.get_layout_engine()
    if isinstance(layout, ConstrainedLayoutEngine):
        # Maps must stand further apart than the column of zeros does from its own map.
        layout.set(wspace=0.08)
    for k, ax in enumerate(axes.ravel()):
        if k >= len(maps):
            ax.set_axis_off()
            continue
        draw_heat_map(maps[k], ax, limits=limits, contour=contour, colour_bar=False, labels=False)
        if k + columns >= len(maps):
            ax.set_xlabel(r"$\lambda$")
        if k % columns == 0:
            ax.set_ylabel(r"$\alpha$" if maps[k].axis == "alpha" else "$w$")
    mesh = axes.ravel()[0].collections[0]
    bar = figure.colorbar(mesh, ax=axes, fraction=0.03, pad=0.01)
    bar.set_label("normalised return")
    bar.outline.set_visible(False)
    return np.asarray(axes.ravel()[: len(maps)])
