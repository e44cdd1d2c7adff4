"""Bars of the best 1% and 10% of configurations for each schedule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.analysis.scores import Top, top
from mirrorax.errors import UserError
from mirrorax.figures.style import COLUMN, LABEL, PAGE, PALETTE, new, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirrorax.analysis.summary import RobustnessTable

_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\")


def draw_best(tops: Mapping[str, Mapping[str, Top | None]], ax: Axes) -> Axes:
    """Draw a bar for each group (a schedule) and series (a pair): the best share of its cells.

    A bar is their mean with its standard deviation over configurations; None has no runs. The axis
    does not start at zero.
    """
    given = [t for group in tops.values() for t in group.values() if t is not None]
    if not given:
        raise UserError("best: there is no bar to draw")
    series = list(next(iter(tops.values())))
    width = 0.8 / len(series)
    # Bars that do not start at zero exaggerate; the differences of interest are at the top, so
    # the axis is cut, and the cut is marked.
    floor = max(0.0, np.floor(10 * min(t.mean - t.std for t in given) - 0.5) / 10)
    for k, name in enumerate(series):
        x = [g + (k - (len(series) - 1) / 2) * width for g in range(len(tops))]
        mine = [group[name] for group in tops.values()]
        at = [a for a, t in zip(x, mine, strict=True) if t is not None]
        kept = [t for t in mine if t is not None]
        ax.bar(
            at,
            [t.mean - floor for t in kept],
            width * 0.92,
            bottom=floor,
            yerr=[t.std for t in kept],
            color=PALETTE[k % len(PALETTE)],
            alpha=0.75,
            hatch=_HATCHES[k % len(_HATCHES)],
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.8, "capsize": 1.5, "ecolor": "black"},
            label=name,
        )
        for a, t in zip(x, mine, strict=True):
            if t is None:
                ax.annotate("no runs", (a, floor), rotation=90, ha="center", va="bottom", size=6)
    share = given[0].share
    ax.set_ylabel(f"mean score of the best {100 * share:g}%")
    names = [wrapped(name, LABEL) for name in tops]
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_ylim(floor, max(1.0, max(t.mean + t.std for t in given) + 0.01))
    ax.locator_params(axis="y", steps=[1, 2, 5, 10])  # two decimals, not 0.975
    if floor > 0:
        at_edge: Any = {"transform": ax.transAxes, "clip_on": False}
        for low, high in ((0.01, 0.035), (0.03, 0.055)):
            ax.plot([-0.012, 0.012], [low, high], color="black", lw=0.8, **at_edge)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(series), borderaxespad=0.2)
    return ax


def pictures(table: RobustnessTable) -> Iterator[tuple[str, Figure]]:
    """Draw the best 1% and 10% of the cells of all algorithms."""
    rows = table.rows
    shares = {"best 1%": 0.01, "best 10%": 0.1}
    tops = {
        row.label: {name: top(row.scores[row.mask], share) for name, share in shares.items()}
        for row in rows
    }
    figure, ax = new(PAGE if len(rows) > 6 else COLUMN, COLUMN)
    draw_best(tops, ax)
    ax.set_ylabel("mean score")
    yield "best", figure
