"""The robustness table as text, Markdown, CSV and JSON, and for the page.

`COLUMNS` declares every column once: its key, how it is computed from a row, and how it is printed.
A new statistic is a new entry there; every format and the page of `mirrorax report` have it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from mirrorax.analysis.estimates import ENOUGH, Estimate, Interval
from mirrorax.analysis.findings import headline
from mirrorax.analysis.summary import RobustnessRow, RobustnessTable
from mirrorax.errors import unknown

FORMATS = ("text", "markdown", "csv", "json")
#: From a row and the place of a threshold to a number, a text, a list, an `Interval` or None.
Value = Callable[[RobustnessRow, int], Any]


def limit_text(estimate: Estimate, digits: int = 4) -> str:
    """Write where Rbst would be with infinitely many seeds; no lower end: only the upper one."""
    limit = estimate.limit
    if limit is None:
        return "no interval"
    if limit.low == 0 < limit.high:
        return f"<= {limit.high:.{digits}f}"
    return f"[{limit.low:.{digits}f}, {limit.high:.{digits}f}]"


def _best_cell(row: RobustnessRow, _: int) -> str:
    return f"({row.best_alpha:g}, {row.best_lam:g})"


def _best_score(row: RobustnessRow, _: int) -> str:
    words = row.best_seeds
    note = f" {words}" if words.startswith("[") else f" ({words})" if words else ""
    return f"{row.best:.3f}{note}"


def _rank(row: RobustnessRow, k: int) -> str:
    rank = row.ranks[k]
    if rank is None:
        return "-"
    return f"{rank[0]}" if rank[0] == rank[1] else f"{rank[0]}-{rank[1]}"


def _difference(row: RobustnessRow, k: int) -> float | None:
    theirs = row.theirs[k]
    return None if theirs is None else row.rbst[k].value - theirs


def _interval(estimates: str) -> Value:
    return lambda row, k: attrgetter(estimates)(row)[k].interval()


def _field(path: str) -> Value:
    """Return the field of a row with this path; None where a part of the path is None."""
    first, _, rest = path.partition(".")

    def value(row: RobustnessRow, _: int) -> Any:
        part = getattr(row, first)
        return attrgetter(rest)(part) if rest and part is not None else part

    return value


def _setting(name: str, default: str = "constant") -> Value:
    return lambda row, _: dict(row.landscape.settings).get(name, default)


@dataclass(frozen=True)
class Column:
    """One column of a block; those of "threshold" are repeated for each threshold.

    CSV and JSON have every column; a dot in a key nests it in JSON. Text, Markdown and the page of
    `mirrorax report` have those with a heading. A heading with {reference} needs a reference.
    """

    block: str  # name, best, threshold, profile or counts
    heading: str
    key: str
    value: Value
    form: str = ""  # of a number
    ends: bool = False  # an `Interval` or a pair: two columns in CSV
    text: Callable[[RobustnessRow, int], str] | None = None  # in place of the value

    def shown(self, row: RobustnessRow, k: int) -> str:
        """Write the value of a row at a threshold."""
        if self.text:
            return self.text(row, k)
        value = self.value(row, k)
        if isinstance(value, Interval):
            return f"[{value.low:{self.form}}, {value.high:{self.form}}]"
        if value is None and self.ends:
            return "no interval"
        if value is None and "{reference}" in self.heading:
            return ""
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return "-"
        return f"{value:{self.form}}"


def _data_only(block: str, parent: str, *names: str) -> tuple[Column, ...]:
    """Return columns for CSV and JSON alone: fields of a row, or of a part of it."""
    keys = [f"{parent}.{name}" if parent else name for name in names]
    return tuple(Column(block, "", key, _field(key)) for key in keys)


_SEEDS = "95%: as many seeds"
COLUMNS = (
    *(Column("name", "", name, _setting(name)) for name in ("potential", "drift")),
    *(Column("name", "", name, _setting(name)) for name in ("alpha_schedule", "lam_schedule")),
    Column("name", "(h, D) and schedule", "label", _field("label")),
    Column("best", "", "axis", _field("landscape.axis")),
    Column("best", "best ({axis}, lam)", "best.alpha", _field("best_alpha"), text=_best_cell),
    Column("best", "", "best.lam", _field("best_lam")),
    Column("best", "its score", "best.score", _field("best"), text=_best_score),
    Column("best", "", "best.interval", _field("best_interval"), ends=True),
    Column("best", "", "best.seeds", _field("best_seeds")),
    Column("threshold", "freq({T})", "freq", lambda row, k: row.frequency[k].value, ".3f"),
    Column("threshold", _SEEDS, "freq_interval", _interval("frequency"), ".3f", ends=True),
    Column("threshold", "Rbst_{T}", "rbst", lambda row, k: row.rbst[k].value, ".4f"),
    Column("threshold", _SEEDS, "rbst_interval", _interval("rbst"), ".4f", ends=True),
    Column(
        "threshold",
        "infinitely many",
        "rbst_limit",
        lambda row, k: row.rbst[k].limit,
        ends=True,
        text=lambda row, k: limit_text(row.rbst[k]),
    ),
    Column("threshold", "", "no_interval", lambda row, k: row.rbst[k].why or None),
    Column("threshold", "", "no_limit", lambda row, k: row.rbst[k].no_limit or None),
    Column("threshold", "rank", "rank", lambda row, k: row.ranks[k], ends=True, text=_rank),
    Column("threshold", "{reference}", "reference", lambda row, k: row.theirs[k], ".4f"),
    Column("threshold", "ours - {reference}", "difference", _difference, "+.4f"),
    Column("profile", "tuned", "tuning.tuned", _field("tuning.tuned"), ".3f"),
    Column("profile", "held out", "tuning.tuned_held_out", _field("tuning.tuned_held_out"), ".3f"),
    Column("profile", "one for all", "tuning.fixed", _field("tuning.fixed"), ".3f"),
    Column("profile", "held out", "tuning.fixed_held_out", _field("tuning.fixed_held_out"), ".3f"),
    *_data_only("profile", "tuning", "price", "price_held_out"),
    Column("profile", "good area", "region.area", _field("region.area"), ".2f"),
    Column("profile", "pieces", "region.pieces", _field("region.pieces")),
    Column("profile", "alpha band", "region.alpha_decades", _field("region.alpha_decades"), ".2f"),
    Column("profile", "lam band", "region.lam_decades", _field("region.lam_decades"), ".2f"),
    Column("profile", "L", "region.likeness", _field("region.likeness"), ".2f"),
    *_data_only("profile", "region", "threshold", "share", "components", "alpha_band", "lam_band"),
    *_data_only("profile", "region", "explained", "filled"),
    Column("counts", "cells", "cells", _field("cells"), text=lambda r, _: f"{r.cells}/{r.grid}"),
    *_data_only("counts", "", "elsewhere", "grid"),
    Column("counts", "runs", "runs", _field("runs"), text=lambda r, _: f"{r.runs}/{r.wanted}"),
    *_data_only("counts", "", "wanted", "failed", "diverged"),
)
_Block = tuple[list[str], list[list[str]]]  # a header and rows


def render(table: RobustnessTable, form: str = "text") -> str:
    """Return the table in one of `FORMATS`, ending in a newline."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return {"text": _plain, "markdown": _markdown, "csv": _csv, "json": _json}[form](table)


def page_table(table: RobustnessTable) -> dict[str, Any]:
    """Return the columns, and by label of a row [value, text] of each at the first threshold.

    Columns that are not `fixed` depend on the choices; the page computes some of them again.
    """
    names = _headings(table, "T")
    columns = [
        {"key": c.key, "name": names.get(c, ""), "ends": c.ends, "fixed": c.block == "name"}
        for c in COLUMNS
    ]
    rows = {
        row.label: [[_data(c.value(row, 0)), c.shown(row, 0) if c.heading else ""] for c in COLUMNS]
        for row in table.rows
    }
    return {"columns": columns, "rows": rows}


def _short(table: RobustnessTable, i: int) -> str:
    """Return a row's label in the reference; without a reference its number."""
    reference = table.rows[i].reference
    if not table.reference:
        return f"{i + 1}"
    return reference.label if reference else ""


def _headings(table: RobustnessTable, threshold: str) -> dict[Column, str]:
    """Return the columns that are shown, with their headings at a threshold."""
    learned = any(row.landscape.axis == "w" for row in table.rows)
    words = {"axis": "alpha or w" if learned else "alpha", "reference": table.reference}
    compared = any(row.reference for row in table.rows)
    return {
        c: c.heading.format(T=threshold, **words)
        for c in COLUMNS
        if c.heading and (compared or "{reference}" not in c.heading)
    }


def _block(table: RobustnessTable, block: str, k: int = 0) -> _Block:
    """Return the columns of a block with a heading, at a threshold."""
    names = {
        c: name
        for c, name in _headings(table, f"{table.thresholds[k]:g}").items()
        if c.block == block
    }
    return list(names.values()), [[c.shown(row, k) for c in names] for row in table.rows]


def _beside(*parts: _Block) -> _Block:
    header = [name for part in parts for name in part[0]]
    rows = zip(*(part[1] for part in parts), strict=True)
    return header, [[cell for piece in row for cell in piece] for row in rows]


def _blocks(table: RobustnessTable) -> tuple[_Block, _Block, list[_Block], _Block]:
    """Return names, the best cell and counts, one block per threshold, and the profile."""
    header, rows = _block(table, "name")
    names = (["#", *header], [[_short(table, i), *row] for i, row in enumerate(rows)])
    first = _beside(_block(table, "best"), _block(table, "counts"))
    levels = [_block(table, "threshold", k) for k in range(len(table.thresholds))]
    return names, first, levels, _block(table, "profile")


def _footer(table: RobustnessTable) -> list[str]:
    how = {"mean": "mean", "median": "median", "iqm": "interquartile mean"}[table.statistic]
    which = "cells with positive temperatures" if table.cells == "positive" else "all cells"
    return [
        f"scores: {how} of normalised {table.evaluation} returns over "
        f"{', '.join(table.environments)}; {which}",
        "95%: as many seeds: of what studies of these cells with as many seeds report on average; "
        "infinitely many: of Rbst if every cell's mean were known, which is lower, as noise can "
        f"only raise it; '<= x': no lower end shown, {ENOUGH} seeds per cell or more may",
        "best: the largest of many noisy scores, which flatters, its interval too; "
        "held-out scores do not",
        *(f"note: {note}" for note in table.notes),
    ]


def _plain(table: RobustnessTable) -> str:
    """Several tables below each other, each as wide as a terminal."""
    names, first, levels, profile = _blocks(table)
    explained = (
        f"good: a score of at least {table.thresholds[0]:g}; area in square decades, bands in "
        "decades; L: 1 is a perfect L;\n"
        "tuned: the best cell of each environment; held out: on seeds not used to choose"
    )
    tables = [_aligned(*_beside(names, block)) for block in (first, *levels, profile)]
    tables[-1] += "\n" + explained
    return "\n\n".join(["\n".join(headline(table)), *tables, "\n".join(_footer(table))]) + "\n"


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


def _markdown(table: RobustnessTable) -> str:
    names, first, levels, _ = _blocks(table)
    header, rows = _beside(names, first, *levels)

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    rule = "|" + "|".join("---" if k < 3 else "---:" for k in range(len(header))) + "|"
    body = "\n".join([line(header), rule, *map(line, rows)])
    return body + "\n\n" + "\n".join(f"- {note}" for note in _footer(table)) + "\n"


def _data(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, Interval):
        return [value.low, value.high]
    if isinstance(value, (tuple, np.ndarray)):
        return np.asarray(value).tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _json(table: RobustnessTable) -> str:
    rows = []
    for row in table.rows:
        settings = {k: v for k, v in dict(row.landscape.settings).items() if v is not None}
        reference = row.reference.label if row.reference else None
        out: dict[str, Any] = {"reference_label": reference, "settings": settings}
        for column in COLUMNS:
            if column.block != "threshold":
                *parents, name = column.key.split(".")
                place = out.setdefault(parents[0], {}) if parents else out
                place[name] = _data(column.value(row, 0))
        out["thresholds"] = [
            {"threshold": t, **{c.key: _data(c.value(row, k)) for c in _of("threshold")}}
            for k, t in enumerate(table.thresholds)
        ]
        rows.append(out)
    whole = {name: getattr(table, name) for name in ("cells", "statistic", "evaluation")}
    whole |= {"environments": list(table.environments), "diverged": table.diverged}
    whole |= {"reference": table.reference or None, "headline": headline(table)}
    whole |= {"rows": rows, "notes": list(table.notes)}
    return json.dumps(whole, indent=2, allow_nan=False, default=str) + "\n"


def _of(*blocks: str) -> list[Column]:
    return [column for column in COLUMNS if column.block in blocks]


def _csv(table: RobustnessTable) -> str:
    """Return one line per algorithm; the notes are the same in every line."""
    before, after = _of("name", "best"), _of("profile", "counts")
    levels = range(len(table.thresholds))
    placed = [(c, 0, "") for c in before]
    placed += [(c, k, f"_{table.thresholds[k]:g}") for k in levels for c in _of("threshold")]
    placed += [(c, 0, "") for c in after]
    header = ["reference_label"]
    for column, _, suffix in placed:
        name = column.key.replace(".", "_")
        ends = [f"{name.removesuffix('_interval')}_{end}" for end in ("low", "high")]
        header += [f"{part}{suffix}" for part in (ends if column.ends else [name])]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*header, "notes"])
    for row in table.rows:
        line: list[Any] = [row.reference.label if row.reference else ""]
        for column, k, _ in placed:
            value = _data(column.value(row, k))
            if column.ends:
                line += value or ["", ""]
            else:
                line.append(" ".join(map(str, value)) if isinstance(value, list) else value)
        writer.writerow([*line, "; ".join(table.notes)])
    return out.getvalue()
