"""What a robustness table says, in words: the best pair, and what the data support."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirrorax.analysis.estimates import Estimate, difference, supported
from mirrorax.analysis.landscape import Landscape, counted_algorithms
from mirrorax.analysis.scores import cell_scores, reaches
from mirrorax.analysis.summary import RobustnessRow, RobustnessTable, common_cells

#: Of one pair, at least this share of the cells reaches a threshold that says something.
_SHARE = 0.05


def telling_threshold(items: Sequence[Landscape]) -> float:
    """Return the highest of 0.9, 0.85, ..., 0.05 that enough cells of some algorithm reach."""
    scores = [cell_scores(item.runs())[item.cells()] for item in items]
    scores = [values[np.isfinite(values)] for values in scores]
    for threshold in np.arange(18, 0, -1) / 20:
        shares = (reaches(values, threshold).mean() for values in scores if values.size)
        if max(shares, default=0.0) >= _SHARE:
            return float(threshold)
    return 0.0


def headline(table: RobustnessTable) -> list[str]:
    """Return sentences on the most robust row of a table, at its first threshold."""
    best, *others = table.rows
    axes = best.landscape.axis, best.landscape.lam_axis
    others = [row for row in others if (row.landscape.axis, row.landscape.lam_axis) == axes]
    threshold, share = table.thresholds[0], best.frequency[0].value
    several = counted_algorithms([row.landscape for row in (best, *others)])
    names = table.environments
    over = f"in {names[0]}" if len(names) == 1 else f"on average over {', '.join(names)}"
    if others and not best.comparable:
        best = max(table.rows, key=lambda row: row.best)
        return [
            f"The {len(others) + 1} algorithms have no cell in common, so they are not ranked.",
            f"The highest score is that of {best.label}. {_best_cell(best)}",
        ]
    if others and not any(row.frequency[0].value for row in (best, *others)):
        best = max((best, *others), key=lambda row: row.best)
        return [
            f"No cell of the {several} scores at least {threshold:g} {over}, "
            f"so none is robust at this level.",
            f"The highest score is that of {best.label}. {_best_cell(best)}",
        ]
    good = round(share * best.cells)
    cells = f"{good} of its {best.cells} cells score{'s' * (good == 1)}"
    if best.cells == 1:
        cells = f"{'I' if others else 'i'}ts only cell {'scores' if good else 'does not score'}"
    shown_as_zero = best.rbst[0].value < 0.0005  # its cells lie just at the threshold
    rank = "Hardly robust at this level, but first" if shown_as_zero else "Most robust"
    first = f"{rank} of {several}: {best.label}." if others else f"{best.label}:"
    sentences = [
        f"{first} {cells} at least {threshold:g} {over} (Rbst {_value(best.rbst[0])}).",
        _best_cell(best),
    ]
    if others:
        sentences += [_support(best, others), *_common(table, [best, *others])]
    return sentences


def _common(table: RobustnessTable, rows: Sequence[RobustnessRow]) -> list[str]:
    """Say how many cells the rows have in common, where fewer count."""
    items = [row.landscape for row in rows]
    cells = common_cells(items, [np.isfinite(table.scores(item)) for item in items])[0]
    shared, counted = int(cells.sum()), rows[0].cells
    if shared == counted:
        return []
    return [
        f"The {counted_algorithms(items)} have {shared} cells in common; the {counted} with both "
        "temperatures above zero count."
    ]


def _value(estimate: Estimate) -> str:
    interval = estimate.interval()
    ends = "no interval" if interval is None else f"95% {interval.low:.3f} to {interval.high:.3f}"
    return f"{estimate.value:.3f}, {ends}"


def _best_cell(row: RobustnessRow) -> str:
    score = row.tuning.fixed_held_out
    fair = "with one seed there is no held-out score"
    if score is not None:
        fair = f"held out, chosen and scored on different seeds, it is {score:.3f}"
    drift = "v" if row.landscape.lam_axis == "v" else "lambda"
    cell = f"{row.landscape.axis} = {row.best_alpha:g}, {drift} = {row.best_lam:g}"
    return f"Its best cell is {cell}, with a score of {row.best:.3f}; {fair}."


def _support(best: RobustnessRow, others: Sequence[RobustnessRow]) -> str:
    """Say than which rows the data support that it is more robust."""
    if best.ranks[0] is None:
        return "Nothing can be said about ranks: some rows have no interval."
    worse = [row for row in others if supported(difference(best.rbst[0], row.rbst[0]))]
    if not worse:
        return "The data do not support that it is more robust than any other."
    text = f"The data support that it is more robust than {_names(worse)}"
    rest = len(others) - len(worse)
    other = "other one" if rest == 1 else f"other {rest}"
    return f"{text}; they do not support a difference to the {other}." if rest else text + "."


def _names(rows: Sequence[RobustnessRow]) -> str:
    if len(rows) > 4:
        return counted_algorithms([row.landscape for row in rows])
    return " and ".join(filter(None, [", ".join(r.label for r in rows[:-1]), rows[-1].label]))
