"""Scores over alpha and lambda, and a panel of them.

The grid is uneven and starts at zero, which has no logarithm. So each grid value gets a column of
equal width, zero stands apart behind a gap, and the decades are labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.landscape import Landscape, map_grid
from mirrorax.analysis.scores import cell_scores, reaches
from mirrorax.errors import UserError
from mirrorax.figures.style import COLOURS, COLUMN, PAGE, new, wrapped
from mirrorax.formatting import Shown, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirrorax.analysis.summary import RobustnessTable

GAP = 0.5  # between the column of zero and the others
SMALL = 8  # values of a grid up to which each is labelled
_ROOM = 0.24  # inches that a cell needs to hold its value


@dataclass(frozen=True, eq=False, repr=False)
class HeatMap(Shown):
    """What a heat map shows: scores on a grid, NaN where there is none."""

    scores: Float[np.ndarray, "alpha lam"]
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    title: str = ""
    axis: str = "alpha"
    left_out: int = 0  # cells with a score that are not on this grid
    lam_axis: str = "lam"


def heat_map(
    landscape: Landscape,
    *,
    environment: str | None = None,
    whole: Landscape | None = None,
) -> HeatMap:
    """Return the scores of a landscape's cells, or those of one environment, cropped to its grid.

    Cells with a score outside the grid are counted, also those of a `whole` landscape that this one
    is a part of.
    """
    names = [environment] if environment else [e.label for e in landscape.environments]
    scores = cell_scores(landscape.select(names).runs())
    given = np.isfinite(scores)
    rows, columns = map_grid(given | ~given.any())  # without any score the whole grid
    kept = scores[np.ix_(rows, columns)]
    everything = cell_scores((whole or landscape).select(names).runs())
    return HeatMap(
        kept,
        landscape.alphas[rows],
        landscape.lams[columns],
        environment or landscape.label,
        landscape.axis,
        int(np.isfinite(everything).sum() - np.isfinite(kept).sum()),
        landscape.lam_axis,
    )


def _has_gap(values: Float[np.ndarray, " n"]) -> bool:
    return len(values) > 1 and bool(values[0] == 0)


def centres(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the middle of each value's column: unit columns, zero set apart."""
    return np.arange(len(values)) + 0.5 + GAP * (_has_gap(values) & (np.arange(len(values)) > 0))


def edges(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n1"]:
    """Return where each value's column begins, the gap counted to zero, and where the last ends."""
    return np.append([0.0, *(centres(values)[1:] - 0.5)], centres(values)[-1] + 0.5)


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
    for x, value in zip(centres(values).tolist(), values.tolist(), strict=True):
        power = np.log10(value) if value > 0 else 0.0
        whole = abs(power - round(power)) < 1e-9
        if len(values) > SMALL and value > 0 and not whole:
            continue
        if places and x - places[-1] < spacing:
            marks.append(x)
            continue
        places.append(x)
        decade = value > 0 and whole and (len(values) > SMALL or not 1e-3 <= value <= 1e3)
        texts.append(f"$10^{{{round(power)}}}$" if decade else short_number(value))
    return places, texts, marks


def short_number(value: float) -> str:
    """Write a temperature with at most three digits: 0.316, 2.5e-4, 5e4."""
    if value and not 1e-3 <= value < 1e4:
        digits, power = f"{value:.2e}".split("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{float(f'{value:.3g}'):g}"


def draw_heat_map(
    data: HeatMap,
    ax: Axes,
    *,
    contour: float | None = 0.9,
    alone: bool = True,
) -> Axes:
    """Draw the scores: alpha upwards, lambda to the right.

    `contour` outlines the cells with at least that score. Cells that are large enough hold their
    value. A map that stands `alone` has a colour bar, and its axes have names.
    """
    if data.scores.shape != (len(data.alphas), len(data.lams)):
        raise UserError(f"scores: shape {data.scores.shape} does not fit the grid")
    ax.set_facecolor("0.92")  # holes are grey, not white and not a colour of the scale
    (x, y), scores = (_mesh_edges(v) for v in (data.lams, data.alphas)), data.scores
    for k, values in enumerate((data.alphas, data.lams)):
        if _has_gap(values):
            scores = np.insert(scores, 1, np.nan, axis=k)
    shown = np.ma.masked_invalid(scores)
    mesh = ax.pcolormesh(x, y, shown, cmap=COLOURS, vmin=0.0, vmax=1.0, lw=0, rasterized=True)
    for values, span in ((data.lams, ax.axvspan), (data.alphas, ax.axhspan)):
        if _has_gap(values):  # in the figure's own colour, so that it is not taken for a hole
            span(1, 1 + GAP, color=ax.figure.get_facecolor(), lw=0, zorder=1.5)
    if contour is not None:
        _outline(data, ax, contour)
    ax.set_xlim(x[0], x[-1])
    ax.set_ylim(y[0], y[-1])
    _label_axes(data, ax)
    _write_values(data, ax)
    ax.spines[:].set_visible(False)
    more = f"{counted(data.left_out, 'cell')} off this grid"
    title = "\n".join(filter(None, [data.title, more if data.left_out else ""]))
    if title:
        ax.set_title(wrapped(title, 20 * _inches(ax)[0]))
    if alone:
        lam, alpha = r"drift temperature $\lambda$", r"MDP temperature $\alpha$"
        ax.set_xlabel(lam if data.lam_axis == "lam" else "drift weight $v$")
        ax.set_ylabel(alpha if data.axis == "alpha" else "target weight $w$")
        given = data.scores[np.isfinite(data.scores)]
        below, above = (given < -1e-9).any(), (given > 1 + 1e-9).any()
        extend = ("neither", "min", "max", "both")[int(below) + 2 * int(above)]
        _add_colour_bar(mesh, ax, fraction=0.05, pad=0.02, extend=extend)
    return ax


def _add_colour_bar(mesh: Any, axes: Any, **options: Any) -> None:
    bar = mesh.figure.colorbar(mesh, ax=axes, **options)
    bar.set_label("normalised return")
    bar.outline.set_visible(False)


def _mesh_edges(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    """Return the edges of the columns, with the gap as a column of its own."""
    return np.insert(edges(values), 1, 1.0) if _has_gap(values) else edges(values)


def _inches(ax: Axes) -> tuple[float, float]:
    """Return about how wide and high the axes are."""
    box = ax.get_position()
    width, height = ax.get_figure(root=True).get_size_inches()  # type: ignore[union-attr]
    return max(float(box.width * width), 0.1), max(float(box.height * height), 0.1)


def _label_axes(data: HeatMap, ax: Axes) -> None:
    for side, values, size, room in zip(
        (ax.xaxis, ax.yaxis), (data.lams, data.alphas), _inches(ax), (0.36, 0.14), strict=True
    ):
        # How many columns a label needs. Long labels of a small grid are slanted and need less.
        column = size / float(edges(values)[-1])
        longest = max(map(len, map(short_number, values)))
        slanted = side is ax.xaxis and len(values) <= SMALL and 0.08 * longest > column
        places, texts, marks = ticks(values, (0.18 if slanted else room) / column)
        side.set_ticks(places, texts, rotation=45 if slanted else 0)
        side.set_ticks(marks, minor=True)
        side.set_tick_params(which="both", length=2)


def _write_values(data: HeatMap, ax: Axes) -> None:
    """Write the scores into the cells of a map whose cells are large enough."""
    import matplotlib as mpl

    width, height = _inches(ax)
    if width / edges(data.lams)[-1] < _ROOM or height / edges(data.alphas)[-1] < _ROOM / 2:
        return
    # As large as cells allow, but not larger than the labels of the axes.
    points = 72 * min(width / edges(data.lams)[-1] / 3.4, height / edges(data.alphas)[-1] / 1.8)
    size = min(max(points, 5.0), float(mpl.rcParams["font.size"]) - 1)
    for i, y in enumerate(centres(data.alphas)):
        for j, x in enumerate(centres(data.lams)):
            score = data.scores[i, j]
            if np.isfinite(score):
                colour = "white" if score < 0.5 else "black"
                text = f"{score:.2f}"
                ax.text(x, y, text, ha="center", va="center", size=size, color=colour, zorder=5)


def outline(
    good: np.ndarray, x: np.ndarray, y: np.ndarray
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the sides of the good cells that border on others, as segments.

    x and y are the middles of the columns and rows, which are one wide: the gap stays empty.
    """
    padded = np.pad(good, 1, constant_values=False)
    lines = []
    for i, j in zip(*np.nonzero(good), strict=True):
        for di, dj in ((0, -1), (0, 1), (-1, 0), (1, 0)):
            if not padded[1 + i + di, 1 + j + dj]:
                # From the middle of the side, half a cell to both of its ends.
                u, v, du, dv = x[j] + dj / 2, y[i] + di / 2, abs(di) / 2, abs(dj) / 2
                lines.append(((u - du, v - dv), (u + du, v + dv)))
    return lines


def _outline(data: HeatMap, ax: Axes, level: float) -> None:
    from matplotlib.collections import LineCollection

    good = np.isfinite(data.scores) & reaches(data.scores, level)
    lines = outline(good, centres(data.lams), centres(data.alphas))
    # White below black: seen on dark and on light cells.
    for colour, width, order in (("white", 1.6, 3), ("black", 0.7, 4)):
        ax.add_collection(LineCollection(lines, colors=colour, linewidths=width, zorder=order))


def draw_panel(maps: Sequence[HeatMap], figure: Figure, *, columns: int = 4) -> np.ndarray:
    """Draw several heat maps on one colour scale; return the axes used, in order."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if not maps:
        raise UserError("panel: there is no heat map to draw")
    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    # Rows may share their axis only where it has the same values throughout.
    same = all(np.array_equal(each.alphas, maps[0].alphas) for each in maps)
    axes = figure.subplots(rows, columns, squeeze=False, sharey="row" if same else False)
    layout = figure.get_layout_engine()
    if isinstance(layout, ConstrainedLayoutEngine):
        # Maps must stand further apart than the column of zeros does from its own map.
        layout.set(wspace=0.08)
    for k, ax in enumerate(axes.ravel()):
        if k >= len(maps):
            ax.set_axis_off()
            continue
        draw_heat_map(maps[k], ax, alone=False)
        if k + columns >= len(maps):
            ax.set_xlabel(r"$\lambda$" if maps[k].lam_axis == "lam" else "$v$")
        if k % columns == 0:
            ax.set_ylabel(r"$\alpha$" if maps[k].axis == "alpha" else "$w$")
    _add_colour_bar(axes.ravel()[0].collections[0], axes, fraction=0.03, pad=0.01)
    return np.asarray(axes.ravel()[: len(maps)])


def pictures(table: RobustnessTable) -> Iterator[tuple[str, Figure]]:
    """Draw each algorithm: a map of the mean, and a panel of its environments.

    The averaged environments are on the table's grid, the others on what each has.
    """
    for k, row in enumerate(table.rows):
        mean, whole = row.landscape, table.whole[row.label]
        figure, ax = new(COLUMN)
        draw_heat_map(heat_map(mean, whole=whole), ax)
        yield f"landscape_{k + 1:02d}", figure
        averaged = {e.label for e in mean.environments}
        maps = [
            heat_map(mean if e.label in averaged else whole, environment=e.label, whole=whole)
            for e in whole.environments
        ]
        # Few panels need no whole page: a cell should not be three times as wide as it is high.
        width = PAGE * min(1.0, 0.2 + 0.22 * len(maps))
        figure, _ = new(width, PAGE * (0.05 + 0.28 * -(-len(maps) // 4)))
        figure.clear()
        draw_panel(maps, figure)
        figure.suptitle(wrapped(row.label, 14 * width))
        yield f"environments_{k + 1:02d}", figure
