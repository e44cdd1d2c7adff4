"""Every figure and table that a store has the data for, written to a folder in one go."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.progress import unfinished
from mirrorax.analysis.reference import Reference
from mirrorax.analysis.scores import cell_scores
from mirrorax.analysis.shares import Top, top
from mirrorax.analysis.summary import Summary, summarise
from mirrorax.analysis.temperature import THRESHOLDS, minimal_temperatures
from mirrorax.errors import UserError
from mirrorax.figures.best import Bars, draw_best
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import draw_heat_map, draw_panel, heat_map
from mirrorax.figures.robustness_table import render
from mirrorax.figures.save import FORMATS, save
from mirrorax.figures.scaling import Scaling, draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, style
from mirrorax.runs.results import Results

_TABLES = {"text": "txt", "markdown": "md", "latex": "tex", "csv": "csv", "json": "json"}


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
    try:
        return _write(table, home, formats, planned, reference)
    except OSError as error:
        raise UserError(f"figures: cannot write to {home}: {error.strerror or error}") from error


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


def _write(
    table: Results | pa.Table,
    home: Path,
    formats: Sequence[str],
    planned: pa.ChunkedArray | None,
    reference: Reference | None,
) -> tuple[list[Path], list[str]]:
    items = landscapes(table)
    summary = summarise(items, notes=unfinished(table, planned), reference=reference)
    whole = {item.label: item for item in items}
    files: list[Path] = []
    skipped: list[str] = []
    for form, suffix in _TABLES.items():
        path = home / f"robustness.{suffix}"
        path.write_text(render(summary, form), encoding="utf-8")
        files.append(path)
    with style():
        for k, row in enumerate(summary.rows):
            files += _maps(row.landscape, whole[row.label], home, f"{k + 1:02d}", formats)
        files += _curves(summary, home, formats)
        files += _bars(summary, home, formats)
        for row in summary.rows:
            drawn, reasons = _scaling(whole[row.label], home, summary.rows.index(row), formats)
            files += drawn
            skipped += reasons
    return files, skipped


def _maps(
    mean: Landscape, whole: Landscape, home: Path, number: str, formats: Sequence[str]
) -> list[Path]:
    figure, ax = new(COLUMN)
    draw_heat_map(heat_map(mean), ax)
    out = list(save(figure, home / f"landscape_{number}", formats))
    maps = [heat_map(whole, environment=e.label) for e in whole.environments]
    rows = -(-len(maps) // 4)
    # Few panels need no whole page: a cell should not be three times as wide as it is high.
    width = PAGE * min(1.0, 0.2 + 0.22 * len(maps))
    figure, _ = new(width, PAGE * (0.05 + 0.28 * rows))
    figure.clear()
    draw_panel(maps, figure)
    figure.suptitle(mean.label)
    return out + list(save(figure, home / f"environments_{number}", formats))


def _curves(summary: Summary, home: Path, formats: Sequence[str]) -> list[Path]:
    curves = []
    # Where it gets interesting: a little below the best score, and no higher than 0.8.
    best = max(row.best for row in summary.rows)
    start = float(np.clip(np.floor(10 * best - 2) / 10, 0.0, 0.8))
    for k, row in enumerate(summary.rows):
        item = row.landscape
        short = row.reference.label if row.reference else ""
        name = row.label if len(summary.rows) <= 4 else short or f"{k + 1}"
        curves.append(frequency_curve(name, item.runs(), cells=item.cells(), start=start))
    figure, ax = new(COLUMN if len(curves) <= 4 else PAGE, COLUMN)
    draw_frequency(curves, ax)
    return list(save(figure, home / "frequency", formats))


def _bars(summary: Summary, home: Path, formats: Sequence[str]) -> list[Path]:
    tops: list[list[Top | None]] = []
    for row in summary.rows:
        scores = cell_scores(row.landscape.runs())[row.landscape.cells()]
        tops.append([top(scores, 0.01), top(scores, 0.1)])
    wide = PAGE if len(tops) > 6 else COLUMN
    figure, ax = new(wide, COLUMN)
    draw_best(Bars([row.label for row in summary.rows], ["best 1%", "best 10%"], tops), ax)
    ax.set_ylabel("mean score")
    return list(save(figure, home / "best", formats))


def _scaling(
    item: Landscape, home: Path, k: int, formats: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """Minimal temperatures, for an environment that was run with several reward scales."""
    files: list[Path] = []
    skipped: list[str] = []
    for name in dict.fromkeys(e.name for e in item.environments):
        labels = [e.label for e in item.environments if e.name == name]
        if len(labels) < 3:
            continue
        chosen = item.select(labels)
        for temperature in ("alpha", "lam"):
            if temperature == "alpha" and item.axis != "alpha":
                continue
            try:
                points = {t: minimal_temperatures(chosen, temperature, t) for t in THRESHOLDS}
            except UserError as error:
                skipped.append(f"{item.label}, minimal {temperature} on {name}: {error}")
                continue
            for log in (False, True):
                figure, ax = new(COLUMN)
                draw_scaling(Scaling(temperature, dict(points)), ax, log=log)
                way = "log" if log else "linear"
                stem = f"minimal_{temperature}_{way}_{_slug(name)}_{k + 1:02d}"
                files += save(figure, home / stem, formats)
    return files, skipped


def _slug(name: str) -> str:
    """Return an environment's name as part of a file name: Catch(20x10) is Catch-20x10."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "environment"
