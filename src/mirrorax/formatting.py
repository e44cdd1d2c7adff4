"""Numbers in words, tables as Markdown, CSV and HTML, and objects in a few lines."""

from __future__ import annotations

import base64
import csv
import html
import importlib
import io
import operator
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import fields
from typing import Any

from mirrorax import registry
from mirrorax.errors import UserError, shown

#: of a table in a `repr` this many rows are shown
_MOST_ROWS = 6
#: a field's value in a `repr` has this many characters
_LONGEST = 60


def counted(count: int, noun: str) -> str:
    """Say how many: 1 run, 2 runs, 504,600 runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def columns(rows: Sequence[Sequence[str]], left: int = 1, text: bool = False) -> str:
    """Return rows of text in columns: the first `left` aligned to the left, the others right.

    With `text` the last one holds sentences and is aligned to the left, too.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    to_left = {*range(left), *([len(widths) - 1] if text else [])}
    lines = []
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        aligned = [c.ljust(w) if k in to_left else c.rjust(w) for k, (c, w) in cells]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Say a time span shortly: 45 s, 12 min, 3 h 20 min, 5 d 4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def rate(per_second: float) -> str:
    """Say how many runs are done in a second, or in an hour if they are few."""
    if per_second >= 1:
        return f"{per_second:,.1f} runs/s"
    return f"{per_second * 3600:,.0f} runs/h"


def whole(text: str) -> int:
    """Read a whole number, which may be written as 1e6; a `ValueError` if it is none of 64 bits."""
    value = float(text) if "e" in text.lower() else int(text)
    if value != int(value) or not -(2**63) <= value < 2**63:
        raise ValueError(f"{text[:40]} is not a whole number of 64 bits")
    return int(value)


def check_whole(field: str, value: Any, low: int = 0, high: int | None = None) -> int:
    """Return a whole number from `low` to `high`; anything else is an error."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise UserError(f"{field}: {shown(value)} is not a whole number")
    number = operator.index(value)
    if number < low or (high is not None and number > high):
        allowed = f"at least {low}" if high is None else f"{low} to {high}"
        raise UserError(f"{field}: {shown(number)} is not allowed: {allowed}")
    return number


def flag_text(value: Any) -> str:
    """Return a value as a flag of the command line takes it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value).replace(" x ", ",")


def as_flags(fields: Mapping[str, Any]) -> list[str]:
    """Return fields as flags of the command line, quoted for a shell."""
    return [
        f"--{name.replace('_', '-')} {shlex.quote(flag_text(value))}"
        for name, value in fields.items()
    ]


def notebook_line() -> Callable[[str], None] | None:
    """Return what shows a line of text in a notebook in place of the last one; None elsewhere."""
    if "ipykernel" not in sys.modules:
        return None
    display = importlib.import_module("IPython.display").display
    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)


def brief(value: Any) -> str:
    """Return a value in a few words: an array by its type and shape, a long text cut."""
    if getattr(value, "ndim", 0) and hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    text = repr(value)
    if len(text) > _LONGEST and isinstance(value, Sized) and not isinstance(value, str):
        return f"{type(value).__name__} of {len(value):,}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """Return a table as Markdown; `align` has l or r for each column, the last one for the rest."""
    align = align.ljust(len(head), align[-1])

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join({"l": "---", "r": "---:"}[side] for side in align) + "|"
    return "\n".join([line(head), rule, *map(line, rows)]) + "\n"


def html_table(head: Sequence[Any], rows: Iterable[Sequence[Any]], align: str = "l") -> str:
    """Return a table as HTML; columns with r in `align` have the class `number`."""
    align = align.ljust(len(head), align[-1])

    def line(cells: Sequence[Any], tag: str) -> str:
        inside = (
            f"<{tag}{' class=number' * (side == 'r')}>{html.escape(str(cell))}</{tag}>"
            for cell, side in zip(cells, align, strict=True)
        )
        return f"<tr>{''.join(inside)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def comma_separated(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


class Shown:
    """A few lines in a terminal; a small table, and perhaps a picture, in a notebook.

    A dataclass without a `_summary` of its own is one line: its fields, each in a few words.
    """

    def _summary(self) -> tuple[str, Sequence[Sequence[str]]]:
        """Return the title, and the rows of the table with their head."""
        parts = [f for f in fields(self) if f.repr]  # type: ignore[arg-type]
        return "", [["field", "value"], *([f.name, brief(getattr(self, f.name))] for f in parts)]

    def _picture(self, ax: Any) -> Any:
        """Draw the picture that a notebook shows below the table; None if there is none."""

    def __repr__(self) -> str:
        """Return a few lines."""
        name, (title, rows) = type(self).__name__, self._summary()
        if not title:
            return f"{name}({', '.join('='.join(row) for row in rows[1:])})"
        table = textwrap.indent(columns(rows[: 1 + _MOST_ROWS], left=0), "  ")
        more = len(rows) - 1 - _MOST_ROWS
        return "\n".join([f"{name}: {title}", table, *([f"  and {more} more"] * (more > 0))])

    def _repr_html_(self) -> str:
        title, rows = self._summary()
        most = _MOST_ROWS if title else len(rows)
        table = html_table(rows[0], rows[1 : 1 + most])
        more = len(rows) - 1 - most
        rest = f"<p>and {more} more</p>" if more > 0 else ""
        head = html.escape(title or type(self).__name__)
        return f"<p>{head}</p>{table}{rest}{self._image()}"

    def _image(self) -> str:
        """Return the picture as part of a page; on white, so that it is readable in dark mode."""
        if type(self)._picture is Shown._picture:
            return ""
        style = importlib.import_module("mirrorax.figures.style")  # of a room above
        width = style.PAGE / 2
        data = style.rendered(self._picture, "png", width, dpi=150, facecolor="white")
        text = base64.b64encode(data).decode()
        return text and (
            f'<img width="{round(72 * 1.4 * width)}" src="data:image/png;base64,{text}">'
        )


class Frame(Shown):
    """What is shown, and is a table of numbers too."""

    def _columns(self) -> tuple[list[str], dict[str, Any]]:
        """Return the columns, and the names of those that tell the rows apart."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a data frame with one row per run (needs pandas)."""
        return registry.optional_package("pandas").DataFrame(self._columns()[1])

    def to_xarray(self) -> Any:
        """Return a dataset over what tells the rows apart (needs pandas and xarray)."""
        registry.optional_package("xarray")
        return self.to_pandas().set_index(self._columns()[0]).to_xarray()
