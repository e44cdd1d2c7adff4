"""The robustness table as text, Markdown, CSV and JSON, and for the page.

`COLUMNS` declares every column once: its key, how it is computed from a row, and how it is printed.
A new statistic is a new entry there, a function of a row: `row.scores` are those of its cells.
Every format and the page of `mirrorax report` have it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirrorax.analysis.estimates import ENOUGH, Estimate, Interval
from mirrorax.analysis.findings import headline
from mirrorax.analysis.landscape import OF_A_PAIR
from mirrorax.analysis.summary import RobustnessRow, RobustnessTable
from mirrorax.errors import unknown
from mirrorax.formatting import columns, comma_separated, markdown_table

FORMATS = ("text", "markdown", "csv", "json")
#: What stands below a table of the text.
_EXPLAINED = {
    "profile": "good: a score of at least {T}; area in square decades, bands in decades; L: 1 is a "
    "perfect L;\n"
    "tuned: the best cell of each environment; held out: on seeds not used to choose",
    "interplay": "shares of the variance over the grid: of alpha alone, of lam alone, of both "
    "together,\nnoise of seeds taken off; tilt: below 0, more of one makes up for less of the "
    "other;\nsensitivity: tuned minus one for all, scores between the 5th and 95th percentile "
    "(Adkins\net al. 2024); to tune: temperatures to tune per environment to keep 95% of tuned",
}
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
    return lambda row, k: getattr(row, estimates)[k].interval()


def _by_environment(row: RobustnessRow, _: int) -> str:
    shares = [each.interaction.value if each else math.nan for each in row.by_environment]
    return " ".join("-" if math.isnan(share) else f"{share:.2f}" for share in shares)


@dataclass(frozen=True)
class Column:
    """One column of a block; those of "threshold" are repeated for each threshold.

    CSV and JSON have every column; a dot in a key nests it in JSON. Text, Markdown and the page of
    `mirrorax report` have those with a heading. A heading with {reference} needs a reference.
    """

    block: str  # name, best, threshold, profile, interplay or counts
    heading: str
    key: str
    source: Value | str = ""  # a function, or the path of a field of a row: the key, if not given
    form: str = ""  # of a number
    ends: bool = False  # an `Interval` or a pair: two columns in CSV
    text: Callable[[RobustnessRow, int], str] | None = None  # in place of the value

    def value(self, row: RobustnessRow, k: int) -> Any:
        """Return the value of a row at a threshold; None where a part of its path is None."""
        if callable(self.source):
            return self.source(row, k)
        value: Any = row
        for name in (self.source or self.key).split("."):
            value = None if value is None else getattr(value, name)
        return value

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


def _setting(name: str) -> Column:
    return Column("name", "", name, lambda row, _: row.landscape.settings[name])


_SEEDS, _BOTH = "95%: as many seeds", "interplay.interaction.interval"
COLUMNS = (
    *map(_setting, OF_A_PAIR),
    Column("name", "(h, D) and schedule", "label"),
    Column("best", "", "axis", "landscape.axis"),
    Column("best", "", "lam_axis", "landscape.lam_axis"),
    Column("best", "best ({axis}, {lam})", "best.alpha", "best_alpha", text=_best_cell),
    Column("best", "", "best.lam", "best_lam"),
    Column("best", "its score", "best.score", "best", text=_best_score),
    Column("best", "", "best.interval", "best_interval", ends=True),
    Column("best", "", "best.seeds", "best_seeds"),
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
    Column("profile", "tuned", "tuning.tuned", form=".3f"),
    Column("profile", "held out", "tuning.tuned_held_out", form=".3f"),
    Column("profile", "one for all", "tuning.fixed", form=".3f"),
    Column("profile", "held out", "tuning.fixed_held_out", form=".3f"),
    Column("profile", "", "tuning.price"),
    Column("profile", "", "tuning.price_held_out"),
    Column("profile", "good area", "region.area", form=".2f"),
    Column("profile", "pieces", "region.pieces"),
    Column("profile", "alpha band", "region.alpha_decades", form=".2f"),
    Column("profile", "lam band", "region.lam_decades", form=".2f"),
    Column("profile", "L", "region.likeness", form=".2f"),
    Column("profile", "", "region.threshold"),
    Column("profile", "", "region.share"),
    Column("profile", "", "region.components"),
    Column("profile", "", "region.alpha_band"),
    Column("profile", "", "region.lam_band"),
    Column("profile", "", "region.explained"),
    Column("profile", "", "region.filled"),
    Column("interplay", "alpha's", "interplay.alpha", "interplay.alpha.value", ".2f"),
    Column("interplay", "lam's", "interplay.lam", "interplay.lam.value", ".2f"),
    Column("interplay", "both", "interplay.both", "interplay.interaction.value", ".2f"),
    Column("interplay", "95%", "interplay.both_interval", _BOTH, ".2f", ends=True),
    Column("interplay", "in each environment", "interplay.by_environment", _by_environment),
    Column("interplay", "tilt", "interplay.tilt", form="+.3f"),
    Column("interplay", "95%", "interplay.tilt_interval", form="+.3f", ends=True),
    Column("interplay", "", "interplay.variance"),
    Column("interplay", "", "interplay.noise"),
    Column("interplay", "sensitivity", "sensitivity.value", "sensitivity.price", ".3f"),
    Column("interplay", "held out", "sensitivity.held_out", "sensitivity.price_held_out", ".3f"),
    Column("interplay", "", "sensitivity.per_environment", "sensitivity.tuned"),
    Column("interplay", "", "sensitivity.cross_environment", "sensitivity.fixed"),
    Column("interplay", "to tune", "sensitivity.dimensionality"),
    Column("counts", "cells", "cells", text=lambda row, _: f"{row.cells}/{row.grid}"),
    Column("counts", "", "elsewhere"),
    Column("counts", "", "grid"),
    Column("counts", "runs", "runs", text=lambda row, _: f"{row.runs}/{row.wanted}"),
    Column("counts", "", "wanted"),
    Column("counts", "", "failed"),
    Column("counts", "", "diverged"),
)


def _placed(blocks: Iterable[str] = (), places: Sequence[int] = (0,)) -> list[tuple[Column, int]]:
    """Return the columns of blocks, of all if none is named.

    Those of "threshold" come once at the place of each threshold.
    """
    blocks = blocks or dict.fromkeys(column.block for column in COLUMNS)
    return [
        (column, k)
        for block in blocks
        for k in (places if block == "threshold" else places[:1])
        for column in COLUMNS
        if column.block == block
    ]


def render(table: RobustnessTable, form: str = "text") -> str:
    """Return the table in one of `FORMATS`, ending in a newline."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return {"text": _plain, "markdown": _markdown, "csv": _csv, "json": _json}[form](table)


def page_table(table: RobustnessTable) -> dict[str, Any]:
    """Return the columns, and by label of a row [value, text] of each at the first threshold.

    Columns that are not `fixed` depend on the choices; the page computes some of them again.
    """
    placed = [column for column, _ in _placed()]
    heads = [
        {"key": c.key, "name": _heading(table, c, "T"), "ends": c.ends, "fixed": c.block == "name"}
        for c in placed
    ]
    rows = {
        row.label: [[_data(c.value(row, 0)), c.shown(row, 0) if c.heading else ""] for c in placed]
        for row in table.rows
    }
    return {"columns": heads, "rows": rows}


def _heading(table: RobustnessTable, column: Column, threshold: str) -> str:
    """Return the heading of a column, or nothing where it is not shown."""
    if "{reference}" in column.heading and not any(row.reference for row in table.rows):
        return ""
    learned = any(row.landscape.axis == "w" for row in table.rows)
    drifting = any(row.landscape.lam_axis == "v" for row in table.rows)
    return column.heading.format(
        T=threshold,
        axis="alpha or w" if learned else "alpha",
        lam="lam or v" if drifting else "lam",
        reference=table.reference,
    )


def _lines(table: RobustnessTable, *blocks: str, places: Sequence[int] = (0,)) -> list[list[str]]:
    """Return a header and rows: a row's label in the reference or its number, its name, blocks."""
    shown = [
        (heading, column, k)
        for column, k in _placed(("name", *blocks), places)
        if (heading := _heading(table, column, f"{table.thresholds[k]:g}"))
    ]
    out = [["#", *(heading for heading, _, _ in shown)]]
    for i, row in enumerate(table.rows):
        short = (row.reference.label if row.reference else "") if table.reference else f"{i + 1}"
        out.append([short, *(column.shown(row, k) for _, column, k in shown)])
    return out


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
    places = range(len(table.thresholds))
    tables = [_aligned(_lines(table, "best", "counts"))]
    tables += [_aligned(_lines(table, "threshold", places=[k])) for k in places]
    for block, text in _EXPLAINED.items():
        explained = text.format(T=f"{table.thresholds[0]:g}")
        tables.append(f"{_aligned(_lines(table, block))}\n{explained}")
    return "\n\n".join(["\n".join(headline(table)), *tables, "\n".join(_footer(table))]) + "\n"


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    header, *rows = columns(lines, left=2).splitlines()
    return "\n".join([header, "-" * max(map(len, (header, *rows))), *rows])


def _markdown(table: RobustnessTable) -> str:
    places = range(len(table.thresholds))
    header, *rows = _lines(table, "best", "counts", "threshold", places=places)
    body = markdown_table(header, rows, "lllr")
    return body + "\n" + "\n".join(f"- {note}" for note in _footer(table)) + "\n"


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
        settings = {k: v for k, v in row.landscape.settings.items() if v is not None}
        reference = row.reference.label if row.reference else None
        out: dict[str, Any] = {"reference_label": reference, "settings": settings}
        for column in COLUMNS:
            if column.block != "threshold":
                *parents, name = column.key.split(".")
                place = out.setdefault(parents[0], {}) if parents else out
                place[name] = _data(column.value(row, 0))
        out["thresholds"] = [
            {"threshold": t, **{c.key: _data(c.value(row, k)) for c, _ in _placed(["threshold"])}}
            for k, t in enumerate(table.thresholds)
        ]
        rows.append(out)
    whole = {name: getattr(table, name) for name in ("cells", "statistic", "evaluation")}
    whole |= {"environments": list(table.environments), "diverged": table.diverged}
    whole |= {"reference": table.reference or None, "headline": headline(table)}
    whole |= {"rows": rows, "notes": list(table.notes)}
    return json.dumps(whole, indent=2, allow_nan=False, default=str) + "\n"


def _csv(table: RobustnessTable) -> str:
    """Return one line per algorithm; the notes are the same in every line."""
    placed = _placed(places=range(len(table.thresholds)))
    header = ["reference_label"]
    for column, k in placed:
        name = column.key.replace(".", "_")
        suffix = f"_{table.thresholds[k]:g}" if column.block == "threshold" else ""
        ends = [f"{name.removesuffix('_interval')}_{end}" for end in ("low", "high")]
        header += [f"{part}{suffix}" for part in (ends if column.ends else [name])]
    lines = []
    for row in table.rows:
        line: list[Any] = [row.reference.label if row.reference else ""]
        for column, k in placed:
            value = _data(column.value(row, k))
            if column.ends:
                line += value or ["", ""]
            else:
                line.append(" ".join(map(str, value)) if isinstance(value, list) else value)
        lines.append([*line, "; ".join(table.notes)])
    return comma_separated([*header, "notes"], lines)
