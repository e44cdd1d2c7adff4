"""Write the tables and the picture of docs/transfer.md from the published results; nothing by hand.

    python docs/transfer_tables.py

Reads results/transfer. Fills the places between `<!-- NAME -->` and `<!-- end of NAME -->` and
draws docs/images/transfer.png. A test compares the page with what this makes of the results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from places import fill
from scipy.stats import binomtest
from transfer_answers import (
    Answer,
    Further,
    Region,
    answer,
    change_text,
    further,
    further_table,
    region_table,
    regions,
    study_landscapes,
    table,
)

from mirrorax.figures.style import MARKERS, PAGE, PALETTE, new, save, style
from mirrorax.formatting import counted
from mirrorax.store import read_results

ROOT = Path(__file__).parent.parent
PAGE_FILE = ROOT / "docs" / "transfer.md"
RESULTS = ROOT / "results" / "transfer"


def verdict(answers: Sequence[Answer], more: Sequence[Further] = ()) -> str:
    """Say what the answers of each pair support, beside those in units of the reward.

    `more` are further seeds of the settings that the study chooses.

    A scheme counts if all of its cells have runs in as many tasks as any scheme has.
    """
    most = max((each.tasks for each in answers), default=0)
    whole = [e for e in answers if e.tasks == most and e.complete == 1 and e.solved is not None]
    lines = []
    for pair in dict.fromkeys(each.label for each in answers):
        mine = {e.units: e for e in whole if e.label == pair}
        if len(mine) < 2 or "reward" not in mine:
            lines.append(f"- {pair}: not decided, runs are missing.")
            continue
        plain = mine.pop("reward")
        best = max(mine.values(), key=lambda each: (each.solved, each.units))
        gained, lost = _changes(plain.by_task, best.by_task)
        lines.append(
            f"- {pair}: one setting in units of `{best.units.split(',')[0]}`"
            f"{' with a learned lambda' if ',' in best.units else ''} solves {best.solved:.0%} of "
            f"{most} tasks, one in units of `reward` {plain.solved:.0%}. Better on "
            f"{counted(gained, 'task')}, worse on {lost}: {_supported(gained, lost)}."
            + _further([each for each in more if each.label == pair])
            + _moves({"reward": plain, **mine})
            + _learned(mine)
        )
    return "\n".join(lines)


def _further(items: Sequence[Further]) -> str:
    """Say what further seeds of the chosen settings change, beside units of the reward."""
    changes = [(each.units, change_text(each, items)) for each in items]
    parts = [f"{text} in `{units}`" for units, text in changes if text and "," not in units]
    if not parts:
        return ""
    return f" With further seeds the mean score changes by {', '.join(parts)} (95% over tasks)."


def _moves(schemes: dict[str, Answer]) -> str:
    """Say how far the good regions of one environment move with its reward scale, in each unit."""
    parts = []
    for units, each in schemes.items():
        gaps = np.array([[axis.value for axis in pair] for pair in each.apart.values()])
        if "," not in units and len(gaps) and np.isfinite(gaps).all():
            alpha, lam = gaps.mean(axis=0)
            parts.append(f"{alpha:.1f} and {lam:.1f} in `{units}`")
    if not parts:
        return ""
    return (
        " Between the reward scales of one environment the good alphas and lambdas move, in "
        f"decades on average, by {', '.join(parts)}."
    )


def _learned(schemes: dict[str, Answer]) -> str:
    """Say what a learned lambda costs or gives, beside a constant one in the same unit."""
    return "".join(
        f" With a learned lambda the best 10% of cells score {each.top_10.value:.3f}, with a "
        f"constant one {schemes[plain].top_10.value:.3f}."
        for units, each in schemes.items()
        if (plain := units.split(",")[0]) != units and plain in schemes
    )


def _supported(gained: int, lost: int) -> str:
    """Say what a sign test over the tasks makes of such a count."""
    chance = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    known = "the difference is supported" if chance <= 0.05 else "no difference is supported"
    return f"{known} (sign test, p = {chance:.2f})"


def _changes(before: dict[str, float], after: dict[str, float]) -> tuple[int, int]:
    """Return on how many tasks a share is larger after, and on how many smaller."""
    gaps = [after[name] - before[name] for name in before]
    return sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)


def pages() -> dict[Path, str]:
    """Return the page as it must be."""
    results = read_results(RESULTS)
    items = study_landscapes(results)
    answers = [answer(item) for item in items]
    more = further(results)
    parts = {
        "runs": f"{len(results):,} runs are published.",
        "verdict": verdict(answers, more),
        "answers": table(answers),
        "further": further_table(more),
        "regions": region_table([each for item in items for each in regions(item)]),
    }
    return {PAGE_FILE: fill(PAGE_FILE.read_text(encoding="utf-8"), parts)}


def draw_regions(found: Sequence[Region], axes: Sequence[Any], units: Sequence[str]) -> None:
    """Draw the good alphas and lambdas of one environment and pair over the scale of rewards.

    A bar is from the smallest to the largest good value, a point their mean in decades. In a unit
    that carries over, the bars of all scales are at one height.
    """
    scales = sorted({each.task.reward_scale for each in found})
    for ax, name in zip(axes, ("alpha", "lam"), strict=True):
        for k, unit in enumerate(units):
            mine = [r for r in found if r.units == unit and not math.isnan(r.alpha.value)]
            if not mine:
                continue
            spans = np.array([getattr(r, name) for r in mine])
            x = np.array([scales.index(r.task.reward_scale) for r in mine])
            x = x + 0.1 * (k - (len(units) - 1) / 2)
            centre, low, high = 10.0**spans.T
            ax.vlines(x, low, high, color=PALETTE[k], alpha=0.5)
            ax.plot(x, centre, marker=MARKERS[k], color=PALETTE[k], label=unit, markersize=4)
        ax.set_xticks(range(len(scales)), [f"{value:g}" for value in scales])
        ax.set(xlim=(-0.5, len(scales) - 0.5), yscale="log", xlabel="reward scale")
        ax.set_title("good alpha" if name == "alpha" else "good lambda (or v)", fontsize="small")


def draw() -> None:
    """Draw the figure of the page: a row for each environment, two columns for each pair."""
    items = study_landscapes(read_results(RESULTS))
    found = [each for item in items for each in regions(item)]
    found = [each for each in found if not math.isnan(each.alpha.value)]
    rows = sorted({each.task.name for each in found})
    pairs = sorted({each.pair for each in found})
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
                mine = [r for r in found if (r.task.name, r.pair) == (environment, pair)]
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
        save(figure, ROOT / "docs" / "images" / "transfer", ["png"])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    draw()
