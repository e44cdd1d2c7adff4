"""Numbers in words, and objects in a few lines: as text, and as a small table in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

#: of a table in a `repr` this many rows are shown
_MOST_ROWS = 6


def counted(count: int, noun: str) -> str:
    """Say how many: 1 run, 2 runs, 504,600 runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
    """Read a whole number of a flag; one that does not fit into 64 bits is a `ValueError`."""
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{len(text)} digits do not fit into 64 bits")
    return value


class Shown:
    """What is shown as a title and a small table, in a terminal and in a notebook."""

    def _summary(self) -> tuple[str, Sequence[Sequence[str]]]:
        """Return the title, and the rows of the table with their head."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Return a few lines."""
        title, rows = self._summary()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        shown = [
            "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows[: 1 + _MOST_ROWS]
        ]
        more = len(rows) - len(shown)
        return "\n".join(
            [f"{type(self).__name__}: {title}", *shown, *([f"  and {more} more"] * (more > 0))]
        )

    def _repr_html_(self) -> str:
        title, rows = self._summary()

        def line(cells: Sequence[Any], tag: str) -> str:
            inside = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
            return f"<tr>{inside}</tr>"

        body = "".join(line(row, "td") for row in rows[1 : 1 + _MOST_ROWS])
        more = len(rows) - 1 - _MOST_ROWS
        rest = f"<p>and {more} more</p>" if more > 0 else ""
        return f"<p>{html.escape(title)}</p><table>{line(rows[0], 'th')}{body}</table>{rest}"
