"""Bars of the best 1% and 10% of configurations for each schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.analysis.scores import Top, top
from mirrorax.errors import UserError
from mirrorax.figures.style import COLUMN, LABEL, PAGE, PALETTE, new, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirrorax.figures.gallery import Source

_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\")


@dataclass(frozen=True, eq=False)
class Bars:
    """One bar per group (a schedule) and series (a pair): the best share of cells of each."""

    groups: Sequence[str]
    series: Sequence[str]
    tops: Sequence[Sequence[Top | None]]  # [group][series]; None where there are no runs


def draw_best(data: Bars, ax: Axes) -> Axes:
    """Draw means with standard deviations over configurations; the axis does not start at zero."""
    given = [t for row in data.tops for t in row if t is not None]
    if not given:
        raise UserError("best: there is no bar to draw")
    width = 0.8 / len(data.series)
    # Bars that do not start at zero exaggerate; the differences of interest are at the top, so
    # the axis is cut, and the cut is marked.
    floor = max(0.0, np.floor(10 * min(t.mean - t.std for t in given) - 0.5) / 10)
    for k, name in enumerate(data.series):
        x = [g + (k - (len(data.series) - 1) / 2) * width for g in range(len(data.groups))]
        tops = [row[k] for row in data.tops]
        at = [a for a, t in zip(x, tops, strict=True) if t is not None]
        kept = [t for t in tops if t is not None]
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
        for a, t in zip(x, tops, strict=True):
            if t is None:
                ax.annotate("no runs", (a, floor), rotation=90, ha="center", va="bottom", size=6)
    share = given[0].share
    ax.set_ylabel(f"mean score of the best {100 * share:g}%")
    names = [wrapped(name, LABEL) for name in data.groups]
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_ylim(floor, max(1.0, max(t.mean + t.std for t in given) + 0.01))
    ax.locator_params(axis="y", steps=[1, 2, 5, 10])  # two decimals, not 0.975
    if floor > 0:
        kwargs: dict[str, Any] = {
            "transform": ax.transAxes,
            "color": "black",
            "clip_on": False,
            "lw": 0.8,
        }
        ax.plot([-0.012, 0.012], [0.01, 0.035], **kwargs)
        ax.plot([-0.012, 0.012], [0.03, 0.055], **kwargs)
    ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(data.series), borderaxespad=0.2)
    return ax


def pictures(source: Source) -> Iterator[tuple[str, Figure]]:
    """Draw the best 1% and 10% of the cells of all algorithms."""
    rows = source.table.rows
    tops = [[top(row.scores[row.mask], share) for share in (0.01, 0.1)] for row in rows]
    figure, ax = new(PAGE if len(rows) > 6 else COLUMN, COLUMN)
    draw_best(Bars([row.label for row in rows], ["best 1%", "best 10%"], tops), ax)
    ax.set_ylabel("mean score")
    yield "best", figure
