"""The robustness table as text, Markdown, LaTeX, CSV and JSON: ours beside a reference."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any

from mirrorax.analysis.estimates import ENOUGH, Estimate, Interval
from mirrorax.analysis.summary import Row, Summary
from mirrorax.errors import unknown
from mirrorax.figures.latex import latex_text, symbol

FORMATS = ("text", "markdown", "latex", "csv", "json")


def render(summary: Summary, form: str = "text") -> str:
    """Return the table in one of `FORMATS`, ending in a newline."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if form == "json":
        return json.dumps(_json(summary), indent=2, allow_nan=False) + "\n"
    if form == "csv":
        return _csv(summary)
    if form == "latex":
        return _latex(summary)
    if form == "markdown":
        thresholds = (_at(summary, k) for k in range(len(summary.thresholds)))
        return _markdown(*_beside(_first(summary), *thresholds, _counts(summary)), summary)
    return _text(summary)


def _interval(estimate: Estimate, digits: int = 4) -> str:
    interval = estimate.interval()
    if interval is None:
        return "no interval"
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def limit_text(estimate: Estimate, digits: int = 4) -> str:
    """Write where Rbst would be with infinitely many seeds; no lower end: only the upper one."""
    limit = estimate.limit
    if limit is None:
        return "no interval"
    if limit.low == 0 < limit.high:
        return f"<= {limit.high:.{digits}f}"
    return f"[{limit.low:.{digits}f}, {limit.high:.{digits}f}]"


def _rank(summary: Summary, k: int, i: int) -> str:
    ranks = summary.ranks[k]
    if ranks is None:
        return "-"
    low, high = int(ranks.low[i]), int(ranks.high[i])
    return str(low) if low == high else f"{low}-{high}"


def _has_reference(summary: Summary) -> bool:
    return any(row.reference is not None for row in summary.rows)


def _theirs(row: Row, threshold: float) -> float | None:
    return None if row.reference is None else row.reference.rbst.get(threshold)


def _short(summary: Summary, i: int) -> str:
    """Return a row's label in the reference; without a reference its number."""
    reference = summary.rows[i].reference
    if not summary.reference:
        return f"{i + 1}"
    return reference.label if reference else ""


def _first(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """What is said once of each algorithm: its name, its best cell, the data behind it."""
    learned = any(row.landscape.axis == "w" for row in summary.rows)
    header = ["#", "(h, D) and schedule", f"best (alpha{' or w' * learned}, lam)", "its score"]
    rows = []
    for i, row in enumerate(summary.rows):
        best = f"{row.best:.3f}"
        if row.best_seeds:
            words = row.best_seeds
            best += f" {words}" if words.startswith("[") else f" ({words})"
        rows.append(
            [_short(summary, i), row.label, f"({row.best_alpha:g}, {row.best_lam:g})", best]
        )
    return header, rows


def _at(summary: Summary, k: int) -> tuple[list[str], list[list[str]]]:
    """What is said of each algorithm at one threshold."""
    threshold = summary.thresholds[k]
    header = [f"freq({threshold:g})", "95%: as many seeds", f"Rbst_{threshold:g}"]
    header += ["95%: as many seeds", "infinitely many", "rank"]
    if _has_reference(summary):
        header += [summary.reference, f"ours - {summary.reference}"]
    rows = []
    for i, row in enumerate(summary.rows):
        cells = [
            f"{row.frequency[k].value:.3f}",
            _interval(row.frequency[k], 3),
            f"{row.rbst[k].value:.4f}",
            _interval(row.rbst[k]),
            limit_text(row.rbst[k]),
            _rank(summary, k, i),
        ]
        if _has_reference(summary):
            theirs = _theirs(row, threshold)
            ours = row.rbst[k].value
            cells += ["", ""] if theirs is None else [f"{theirs:.4f}", f"{ours - theirs:+.4f}"]
        rows.append(cells)
    return header, rows


def _profile(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """What tuning is worth, and what the good region looks like."""
    header = ["tuned", "one for all", "held out", "good area", "pieces", "alpha band", "lam band"]
    rows = []
    for row in summary.rows:
        t, r = row.tuning, row.region
        held = "-"
        if t.tuned_held_out is not None and t.fixed_held_out is not None:
            held = f"{t.tuned_held_out:.3f}, {t.fixed_held_out:.3f}"
        cells = [f"{t.tuned:.3f}", f"{t.fixed:.3f}", held]
        if r is None:
            cells += ["-"] * 5
        else:
            like = "-" if math.isnan(r.likeness) else f"{r.likeness:.2f}"
            cells += [f"{r.area:.2f}", str(len(r.components))]
            cells += [f"{r.alpha_decades:.2f}", f"{r.lam_decades:.2f}", like]
        rows.append(cells)
    return [*header, "L"], rows


def _counts(summary: Summary) -> tuple[list[str], list[list[str]]]:
    rows = [[f"{r.cells}/{r.grid}", f"{r.runs}/{r.wanted}"] for r in summary.rows]
    return ["cells", "runs"], rows


def _beside(*parts: tuple[list[str], list[list[str]]]) -> tuple[list[str], list[list[str]]]:
    header = [name for part in parts for name in part[0]]
    rows = zip(*(part[1] for part in parts), strict=True)
    return header, [[cell for piece in row for cell in piece] for row in rows]


def _footer(summary: Summary) -> list[str]:
    how = {"mean": "mean", "median": "median", "iqm": "interquartile mean"}[summary.statistic]
    which = "cells with positive temperatures" if summary.cells == "positive" else "all cells"
    first = (
        f"scores: {how} of normalised {summary.evaluation} returns over "
        f"{', '.join(summary.environments)}; {which}"
    )
    second = (
        "95%: as many seeds: of what studies of these cells with as many seeds report on average; "
        "infinitely many: of Rbst if every cell's mean were known, which is lower, as noise can "
        f"only raise it; '<= x': no lower end shown, {ENOUGH} seeds per cell or more may"
    )
    third = (
        "best: the largest of many noisy scores, which flatters, its interval too; "
        "held-out scores do not"
    )
    return [first, second, third, *(f"note: {note}" for note in summary.notes)]


def _text(summary: Summary) -> str:
    """Several tables below each other, each as wide as a terminal."""
    first = _first(summary)
    names: tuple[list[str], list[list[str]]] = (first[0][:2], [row[:2] for row in first[1]])
    blocks = [_beside(first, _counts(summary))]
    blocks += [_beside(names, _at(summary, k)) for k in range(len(summary.thresholds))]
    blocks.append(_beside(names, _profile(summary)))
    explained = (
        f"good: a score of at least {summary.thresholds[0]:g}; area in square decades, bands in "
        "decades; L: 1 is a perfect L;\n"
        "tuned: the best cell of each environment; held out: both, on seeds not used to choose"
    )
    tables = [
        *(_aligned(*block) for block in blocks[:-1]),
        _aligned(*blocks[-1]) + "\n" + explained,
    ]
    return "\n\n".join([*tables, "\n".join(_footer(summary))]) + "\n"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        out = [
            cell.ljust(width) if k < 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(out).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(header), rule, *map(line, rows)])


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]], summary: Summary) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    rule = "|" + "|".join("---" if k < 3 else "---:" for k in range(len(header))) + "|"
    body = "\n".join([line(header), rule, *map(line, rows)])
    return body + "\n\n" + "\n".join(f"- {note}" for note in _footer(summary)) + "\n"


def _latex(summary: Summary) -> str:
    columns, head = "cll", [r"\#", "$h$", "$D$"]
    scheduled = any(_schedule(row) for row in summary.rows)
    if scheduled:
        columns, head = columns + "l", [*head, "schedule"]
    for threshold in summary.thresholds:
        columns += "rr"
        head += [rf"$\mathrm{{Rbst}}_{{{threshold:g}}}$", r"95\%: as many seeds"]
        if _has_reference(summary):
            columns, head = columns + "rr", [*head, latex_text(summary.reference), "diff."]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", " & ".join(head) + r" \\", r"\hline"]
    for i, row in enumerate(summary.rows):
        settings = row.landscape.settings
        cells = [
            latex_text(_short(summary, i)),
            f"${symbol(str(settings['potential']))}$",
            f"${symbol(str(settings['drift']))}$",
        ]
        if scheduled:
            cells.append(latex_text(_schedule(row) or "constant"))
        for k, threshold in enumerate(summary.thresholds):
            cells += [f"{row.rbst[k].value:.4f}", _interval(row.rbst[k], 3)]
            if _has_reference(summary):
                theirs = _theirs(row, threshold)
                ours = row.rbst[k].value
                cells += (
                    ["", ""] if theirs is None else [f"{theirs:.4f}", f"${ours - theirs:+.4f}$"]
                )
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\hline", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {note}" for note in _footer(summary))]) + "\n"


def _schedule(row: Row) -> str:
    """What stands behind the pair in the label."""
    pair = f"({row.landscape.settings['potential']}, {row.landscape.settings['drift']})"
    return row.label.removeprefix(pair).strip()


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _bounds(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]


def _ends(interval: Interval | None) -> list[Any]:
    return ["", ""] if interval is None else [interval.low, interval.high]


def _tuning(row: Row) -> dict[str, Any]:
    t = row.tuning
    return {
        "tuned": t.tuned,
        "fixed": t.fixed,
        "price": t.price,
        "tuned_held_out": t.tuned_held_out,
        "fixed_held_out": t.fixed_held_out,
        "price_held_out": t.price_held_out,
    }


def _region(row: Row) -> dict[str, Any] | None:
    r = row.region
    if r is None:
        return None
    return {
        "threshold": r.threshold,
        "share": r.share,
        "area": r.area,
        "components": list(r.components),
        "alpha_band": r.alpha_band.tolist(),
        "lam_band": r.lam_band.tolist(),
        "alpha_decades": r.alpha_decades,
        "lam_decades": r.lam_decades,
        "explained": _number(r.explained),
        "filled": _number(r.filled),
        "likeness": _number(r.likeness),
    }


def _json(summary: Summary) -> dict[str, Any]:
    rows = []
    for i, row in enumerate(summary.rows):
        by_threshold = []
        for k, threshold in enumerate(summary.thresholds):
            ranks = summary.ranks[k]
            by_threshold.append(
                {
                    "threshold": threshold,
                    "freq": row.frequency[k].value,
                    "freq_interval": _bounds(row.frequency[k].interval()),
                    "rbst": row.rbst[k].value,
                    "rbst_interval": _bounds(row.rbst[k].interval()),
                    "no_interval": row.rbst[k].why or None,
                    "rbst_limit": _bounds(row.rbst[k].limit),
                    "no_limit": row.rbst[k].no_limit or None,
                    "rank": None if ranks is None else [int(ranks.low[i]), int(ranks.high[i])],
                    "reference": _theirs(row, threshold),
                }
            )
        rows.append(
            {
                "label": row.label,
                "reference_label": row.reference.label if row.reference else None,
                "settings": {k: v for k, v in row.landscape.settings.items() if v is not None},
                "axis": row.landscape.axis,
                "best": {
                    row.landscape.axis: row.best_alpha,
                    "lam": row.best_lam,
                    "score": _number(row.best),
                    "interval": _bounds(row.best_interval),
                    "seeds": row.best_seeds,
                },
                "thresholds": by_threshold,
                "tuning": _tuning(row),
                "region": _region(row),
                "cells": row.cells,
                "grid": row.grid,
                "runs": row.runs,
                "wanted": row.wanted,
                "failed": row.failed,
                "diverged": row.diverged,
            }
        )
    return {
        "environments": list(summary.environments),
        "cells": summary.cells,
        "statistic": summary.statistic,
        "evaluation": summary.evaluation,
        "diverged": summary.diverged,
        "reference": summary.reference or None,
        "rows": rows,
        "notes": list(summary.notes),
    }


def _csv(summary: Summary) -> str:
    out = io.StringIO()
    header = ["reference_label", "potential", "drift", "alpha_schedule", "lam_schedule", "label"]
    header += ["axis", "best_alpha", "best_lam", "best_score", "best_low", "best_high"]
    for t in summary.thresholds:
        names = ["freq", "freq_low", "freq_high", "rbst", "rbst_low", "rbst_high"]
        names += ["rbst_limit_low", "rbst_limit_high", "rank_low", "rank_high"]
        header += [f"{name}_{t:g}" for name in (*names, "reference", "difference")]
    header += ["cells", "grid", "runs", "wanted", "failed", "diverged", "notes"]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for i, row in enumerate(summary.rows):
        s = row.landscape.settings
        line: list[Any] = [row.reference.label if row.reference else "", s["potential"], s["drift"]]
        line += [s.get("alpha_schedule", "constant"), s.get("lam_schedule", "constant"), row.label]
        line += [row.landscape.axis, row.best_alpha, row.best_lam, row.best]
        line += _ends(row.best_interval)
        for k, t in enumerate(summary.thresholds):
            ranks, theirs, ours = summary.ranks[k], _theirs(row, t), row.rbst[k].value
            line += [row.frequency[k].value, *_ends(row.frequency[k].interval())]
            line += [ours, *_ends(row.rbst[k].interval()), *_ends(row.rbst[k].limit)]
            line += ["", ""] if ranks is None else [int(ranks.low[i]), int(ranks.high[i])]
            line += ["", ""] if theirs is None else [theirs, ours - theirs]
        line += [row.cells, row.grid, row.runs, row.wanted, row.failed, row.diverged]
        line.append("; ".join(summary.notes))  # the same in every row
        writer.writerow(line)
    return out.getvalue()
