"""The page of the study: its tables and its figure, written from results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mirrorax.errors import UserError
from mirrorax.figures.style import MARKERS, PAGE, PALETTE, new, save, style
from mirrorax.runs.results import Results
from mirrorax.transfer.answers import (
    Region,
    answer,
    region_table,
    regions,
    study_landscapes,
    table,
    verdict,
)


def fill(text: str, results: Results) -> str:
    """Return the page with its tables written anew between their markers."""
    items = study_landscapes(results)
    found = [each for item in items for each in regions(item)]
    runs = f"{len(results):,} runs of the study are published."
    answers = [answer(item) for item in items]
    parts = {"runs": runs, "verdict": verdict(answers), "answers": table(answers)}
    parts["regions"] = region_table(found)
    for name, content in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if start not in text or end not in text:
            raise UserError(f"page: the markers of {name!r} are missing")
        text = text.split(start)[0] + start + content + "\n" + end + text.split(end)[1]
    return text


def draw_regions(found: Sequence[Region], axes: Sequence[Any]) -> None:
    """Draw the good alphas and lambdas of one environment over the maximum return.

    A bar is from the smallest to the largest good value, a point their mean in decades. In a unit
    that carries over, the bars of all returns are at one height.
    """
    units = list(dict.fromkeys(each.units for each in found))
    returns = sorted({each.max_return for each in found})
    for ax, name in zip(axes, ("alpha", "lam"), strict=True):
        for k, unit in enumerate(units):
            mine = [r for r in found if r.units == unit and not math.isnan(r.alpha[1])]
            spans = np.array([getattr(r, name) for r in mine]).reshape(-1, 3)
            x = np.array([returns.index(r.max_return) for r in mine])
            x = x + 0.1 * (k - (len(units) - 1) / 2)
            low, centre, high = 10.0**spans.T
            colour = PALETTE[k % len(PALETTE)]
            ax.vlines(x, low, high, color=colour, alpha=0.5)
            ax.plot(x, centre, marker=MARKERS[k], color=colour, label=unit, markersize=4)
        ax.set_xticks(range(len(returns)), [f"{value:g}" for value in returns])
        ax.set(xlim=(-0.5, len(returns) - 0.5), yscale="log", xlabel="maximum return")
        ax.set_ylabel("good alpha" if name == "alpha" else "good lambda (or v)")


def picture(results: Results, path: Path) -> None:
    """Draw the figure of the page: a row for each environment."""
    found = [each for item in study_landscapes(results) for each in regions(item)]
    names = list(dict.fromkeys(each.environment for each in found))
    with style():
        figure, _ = new(PAGE, PAGE * 0.4 * len(names))
        figure.clear()
        grid = figure.subplots(len(names), 2, squeeze=False)
        for axes, name in zip(grid, names, strict=True):
            draw_regions([each for each in found if each.environment == name], axes)
            for ax in axes:
                ax.set_title(name)
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=4, fontsize="small")
        save(figure, path.with_suffix(""), [path.suffix[1:]])
