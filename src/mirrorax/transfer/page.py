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


def draw_regions(found: Sequence[Region], axes: Sequence[Any], units: Sequence[str]) -> None:
    """Draw the good alphas and lambdas of one environment and pair over the scale of rewards.

    A bar is from the smallest to the largest good value, a point their mean in decades. In a unit
    that carries over, the bars of all scales are at one height.
    """
    scales = sorted({each.reward_scale for each in found})
    for ax, name in zip(axes, ("alpha", "lam"), strict=True):
        for k, unit in enumerate(units):
            mine = [r for r in found if r.units == unit and not math.isnan(r.alpha[1])]
            if not mine:
                continue
            spans = np.array([getattr(r, name) for r in mine])
            x = np.array([scales.index(r.reward_scale) for r in mine])
            x = x + 0.1 * (k - (len(units) - 1) / 2)
            low, centre, high = 10.0**spans.T
            ax.vlines(x, low, high, color=PALETTE[k], alpha=0.5)
            ax.plot(x, centre, marker=MARKERS[k], color=PALETTE[k], label=unit, markersize=4)
        ax.set_xticks(range(len(scales)), [f"{value:g}" for value in scales])
        ax.set(xlim=(-0.5, len(scales) - 0.5), yscale="log", xlabel="reward scale")
        ax.set_title("good alpha" if name == "alpha" else "good lambda (or v)", fontsize="small")


def picture(results: Results, path: Path) -> None:
    """Draw the figure of the page: a row for each environment, two columns for each pair."""
    found = [each for item in study_landscapes(results) for each in regions(item)]
    found = [each for each in found if not math.isnan(each.alpha[1])]
    rows, pairs = (sorted({getattr(r, name) for r in found}) for name in ("environment", "pair"))
    units = list(dict.fromkeys(each.units for each in found))
    with style():
        figure, _ = new(PAGE, PAGE * 0.26 * len(rows))
        figure.clear()
        shown: dict[str, Any] = {}
        for row, environment in zip(
            figure.subfigures(len(rows), 1, squeeze=False), rows, strict=True
        ):
            for part, pair in zip(
                row[0].subfigures(1, len(pairs), squeeze=False)[0], pairs, strict=True
            ):
                mine = [r for r in found if (r.environment, r.pair) == (environment, pair)]
                part.suptitle(f"{environment}, {pair}", fontsize="medium")
                if not mine:
                    part.text(0.5, 0.45, "no runs, or none good", ha="center", fontsize="small")
                    continue
                axes = part.subplots(1, 2)
                draw_regions(mine, axes, units)
                for ax in axes:
                    handles, labels = ax.get_legend_handles_labels()
                    shown.update(zip(labels, handles, strict=True))
        names = [unit for unit in units if unit in shown]
        handles = [shown[unit] for unit in names]
        figure.legend(handles, names, loc="outside upper center", ncols=4, fontsize="small")
        save(figure, path.with_suffix(""), [path.suffix[1:]])
