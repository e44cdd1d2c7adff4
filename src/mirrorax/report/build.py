"""Put the page together from its parts and write it."""

from __future__ import annotations

import html
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pyarrow as pa

from mirrorax.analysis.reference import Reference
from mirrorax.errors import UserError
from mirrorax.files import write_file
from mirrorax.report.facts import Facts
from mirrorax.report.payload import as_json, payload
from mirrorax.runs.results import Results

#: The page's JavaScript, in the order in which one part uses another.
SCRIPTS = (
    "stats.js",
    "colours.js",
    "surface.js",
    "data.js",
    "heatmap.js",
    "plots.js",
    "download.js",
    "table.js",
    "compare.js",
    "detail.js",
    "main.js",
)


def _part(name: str) -> str:
    return (resources.files("mirrorax.report") / "page" / name).read_text(encoding="utf-8")


def build(
    runs: Results | pa.Table,
    about: Facts,
    curves: pa.Table | None = None,
    reference: Reference | None = None,
) -> str:
    """Return the page as text; the values of a `reference` stand beside those of its table."""
    return fill(payload(runs, about, curves, reference), about.title)


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
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"out: there is no folder {target.parent}; make it first")
    if target.is_dir():
        raise UserError(f"out: {target} is a folder, not a file")
    try:
        write_file(target, page.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise UserError("page: its text (the title?) holds bytes that are not UTF-8") from error
    except OSError as error:
        raise UserError(f"out: cannot write {target}: {error.strerror}") from error
    return target
