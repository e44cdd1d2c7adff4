"""Every figure and table that a store has the data for, written to a folder in one go.

A module of this package with a function `pictures` takes part: it gets the robustness table and
yields names of files with figures, or with the reason why there is none.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import mirrorax.figures
from mirrorax.analysis.groups import largest_group
from mirrorax.analysis.reference import Reference
from mirrorax.analysis.summary import RobustnessTable, summarise, unfinished
from mirrorax.errors import UserError
from mirrorax.figures.robustness_table import render
from mirrorax.figures.style import FORMATS, save, style
from mirrorax.runs.results import Results, as_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TABLES = {"text": "txt", "markdown": "md", "csv": "csv", "json": "json"}


def gallery(
    table: Results | pa.Table,
    folder: str | os.PathLike[str],
    *,
    formats: Sequence[str] = FORMATS,
    planned: pa.ChunkedArray | None = None,
    reference: Reference | None = None,
) -> tuple[list[Path], list[str]]:
    """Write the figures; return the files, and what could not be drawn and why.

    `planned` are the run ids of the recorded study; the tables say if some of them are not done.
    The values of a `reference` stand beside those of the tables.

    Files are numbered by algorithm in the order of the robustness table, which is written, too:
    names of regularisers do not make good file names.
    """
    home = prepare(folder)
    items, notes = largest_group(as_results(table))
    notes = [*unfinished(table, planned), *notes]
    robustness = summarise(items, notes=notes, reference=reference)
    files, skipped = [], []
    try:
        for form, suffix in _TABLES.items():
            files.append(home / f"robustness.{suffix}")
            files[-1].write_text(render(robustness, form), encoding="utf-8")
        with style():
            for name, picture in _pictures(robustness):
                if isinstance(picture, str):
                    skipped.append(f"{name}: {picture}")
                else:
                    files += save(picture, home / name, formats)
    except OSError as error:
        raise UserError(f"figures: cannot write to {home}: {error.strerror or error}") from error
    return files, skipped


def prepare(folder: str | os.PathLike[str]) -> Path:
    """Make the folder for the figures; raise where there cannot be one."""
    home = Path(folder)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"figures: cannot make {home}: {error.strerror}") from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise UserError(f"figures: {home} cannot be written to")
    return home


def _pictures(table: RobustnessTable) -> Iterator[tuple[str, Figure | str]]:
    """Return the pictures of all modules of this package that have some."""
    for info in sorted(pkgutil.iter_modules(mirrorax.figures.__path__), key=lambda m: m.name):
        module = importlib.import_module(f"mirrorax.figures.{info.name}")
        if hasattr(module, "pictures"):
            yield from module.pictures(table)
