"""One self-contained HTML page to explore a store: no network, works from a file.

- `facts`: which study, how much is done, what failed, on what machine.
- `payload`: what the page knows, as plain data; run scores packed as 32-bit floats.
- `build`: the page from its parts in `page/` (HTML, CSS and JavaScript written for it).

The page computes scores, frequencies, Rbst and intervals itself, by the formulas of
`mirrorax.analysis`, so that every choice a reader makes is answered at once.
"""

from __future__ import annotations

import html
import os
import re
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax.analysis.reference import Reference
from mirrorax.analysis.summary import reached
from mirrorax.errors import UserError
from mirrorax.files import write_file
from mirrorax.report.payload import as_json, payload
from mirrorax.runs.chunk import PROVENANCE
from mirrorax.runs.results import Results, as_results

#: The page's JavaScript, in the order in which one part uses another.
SCRIPTS = (
    *("stats.js", "colours.js", "surface.js", "data.js", "heatmap.js", "plots.js"),
    *("download.js", "table.js", "compare.js", "detail.js", "main.js"),
)
_SHOWN = 20  # distinct reasons of failure


def facts(
    runs: Results | pa.Table,
    *,
    title: str,
    made: str,
    planned: pa.ChunkedArray | None = None,
    study: str = "",
    refresh: int = 0,
) -> dict[str, Any]:
    """Return what the page says of the store, as text and numbers.

    `planned` are the run ids of the study that was recorded last, None where the store knows of
    none; `study` is its text. The page reloads itself after `refresh` seconds; 0: never.
    """
    results = as_results(runs)
    failures: Counter[str] = Counter()
    counts = np.bincount(results.origin, minlength=len(results.origins))
    for origin, count in zip(results.origins, counts, strict=True):
        if origin.failure is not None and count:
            failures[origin.failure] += int(count)
    known = {name: results.provenance(name) for name in PROVENANCE if name != "finished_at"}
    done = int(results.done.sum())
    seconds = results.numbers("wall_seconds")
    return {
        "title": title,
        "made": made,
        "planned": None if planned is None else len(planned),
        "reached": None if planned is None else reached(results, planned),
        "done": done,
        "failed": len(results) - done,
        "diverged": int(results.diverged.sum()),
        "core_hours": float(np.nansum(seconds)) / 3600 if np.isfinite(seconds).any() else None,
        "failures": failures.most_common(_SHOWN),
        "versions": [
            (name, [str(v) for v in some[:_SHOWN]]) for name, some in known.items() if some
        ],
        "study": study,
        "refresh": refresh,
    }


def _part(name: str) -> str:
    return (resources.files("mirrorax.report") / "page" / name).read_text(encoding="utf-8")


def build(
    runs: Results | pa.Table,
    about: dict[str, Any],
    reference: Reference | None = None,
) -> str:
    """Return the page as text; the values of a `reference` stand beside those of its table."""
    return fill(payload(runs, about, reference), about["title"])


def fill(data: dict[str, Any], title: str) -> str:
    """Return the page that shows what `payload` returned."""
    script = "\n".join(_part(name) for name in SCRIPTS)
    fills = {
        "<!--TITLE-->": html.escape(title),
        "/*STYLE*/": _part("style.css"),
        "/*SCRIPT*/": f'"use strict";\n(() => {{\n{script}\n}})();',
        "<!--DATA-->": as_json(data),
    }
    # The template alone is searched for marks: titles and data may hold anything, marks as well.
    pieces = re.split("(" + "|".join(map(re.escape, fills)) + ")", _part("index.html"))
    return "".join(fills.get(piece, piece) for piece in pieces)


def write(page: str, path: str | os.PathLike[str]) -> Path:
    """Write the page in one step: a reader never sees half of it."""
    try:
        data = page.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError("page: its text (the title?) holds bytes that are not UTF-8") from error
    write_file(path, data, "out")
    return Path(path)
