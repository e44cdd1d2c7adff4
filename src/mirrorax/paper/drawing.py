"""Each figure of the paper, drawn from the runs there are, and labelled with what they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import Top, cell_scores, top
from mirrorax.analysis.summary import summarise
from mirrorax.analysis.temperature import (
    NAMES,
    STRIP,
    THRESHOLDS,
    Temperature,
    minimal_temperatures,
)
from mirrorax.figures.bars import Bars, draw_best
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import HeatMap, draw_panel, heat_map
from mirrorax.figures.robustness_table import render
from mirrorax.figures.scaling import Scaling, draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, save, style
from mirrorax.paper.axes import BASELINE, SCHEDULES, TSALLIS
from mirrorax.paper.claim import sizes
from mirrorax.paper.panels import Figure, Panel
from mirrorax.paper.regression import regression
from mirrorax.paper.runs import Found, Runs, alike
from mirrorax.paper.table_1 import reference

_FORMATS = ("png", "pdf")
_TEXTS = {"text": "txt", "markdown": "md", "csv": "csv"}
_AXES = ("linear", "logarithmic")


@dataclass(frozen=True)
class Drawn:
    """A figure as it came out: its files, what is behind it, and what is missing."""

    figure: Figure
    files: tuple[Path, ...]
    runs: int
    size: str
    missing: tuple[str, ...]


def draw(figure: Figure, runs: Runs, home: Path) -> Drawn:
    """Draw a figure into a folder, in place of an older one; without any run of it, only say so."""
    if figure.kind == "scaling":
        drawn = _scaling(figure, runs, home)
    else:
        drawn = _panels(figure, runs, home)
    for path in _names(figure, home):
        if path not in drawn.files:
            path.unlink(missing_ok=True)
    return drawn


def _panels(figure: Figure, runs: Runs, home: Path) -> Drawn:
    found = runs.find_all(figure.panels)
    if figure.kind == "maps" and len({each.given.shape for each in found}) > 1:
        # Strips beside whole grids: everything there is of each, so that they can be compared.
        found = runs.find_all(figure.panels, nested=False)
    if figure.kind == "best":
        found = _alike_by_pair(found)
    have = {each.panel for each in found}
    missing = tuple(panel.title for panel in figure.panels if panel not in have)
    files: tuple[Path, ...] = ()
    if found:
        with style():
            kinds = {"maps": _maps, "table": _table, "frequency": _frequency, "best": _best}
            files = kinds[figure.kind](figure, found, home)
    return Drawn(figure, files, sum(each.runs for each in found), sizes(found), missing)


def _alike_by_pair(found: Sequence[Found]) -> tuple[Found, ...]:
    """Cut the schedules of a pair to what all of them have."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for each in found:
        groups.setdefault(each.panel.pair, []).append(each)
    return tuple(one for group in groups.values() for one in alike(group) or group)


def _stem(figure: Figure) -> str:
    return re.sub(r"[^a-z0-9]+", "_", figure.name.lower())


def _names(figure: Figure, home: Path) -> list[Path]:
    """Return the files that a figure can have."""
    stem = _stem(figure)
    if figure.kind == "table":
        return [home / f"{stem}.{suffix}" for suffix in _TEXTS.values()]
    stems = [f"{stem}_{axes}" for axes in _AXES] if figure.kind == "scaling" else [stem]
    return [home / f"{name}.{suffix}" for name in stems for suffix in _FORMATS]


def _title(figure: Figure, found: Sequence[Found]) -> str:
    return f"{figure.name}: {figure.title}\n{sizes(found)}"


def _maps(figure: Figure, found: Sequence[Found], home: Path) -> tuple[Path, ...]:
    maps = []
    for each in found:
        item = each.landscape
        scores = np.where(each.given, cell_scores(item.runs()), np.nan)
        maps.append(HeatMap(scores, item.alphas, item.lams, each.panel.title, item.axis))
    if len(found) == 1 and len(found[0].panel.labels) > 1:
        item = found[0].landscape
        maps += [heat_map(item, environment=name) for name in found[0].panel.labels]
        maps[0] = HeatMap(maps[0].scores, item.alphas, item.lams, "mean", item.axis)
    columns = 3 if len(maps) > 4 else len(maps)
    rows = -(-len(maps) // columns)
    drawing, _ = new(PAGE, PAGE * (0.12 + 0.3 * rows))
    drawing.clear()
    draw_panel(maps, drawing, columns=columns)
    drawing.suptitle(_title(figure, found), fontsize=8)
    return save(drawing, home / _stem(figure), _FORMATS)


def _table(figure: Figure, found: Sequence[Found], home: Path) -> tuple[Path, ...]:
    usable = [f for f in found if f.positive.any()]
    if not usable:
        return ()
    summary = summarise([f.landscape for f in usable], notes=(sizes(found),), reference=reference())
    out = []
    for form, suffix in _TEXTS.items():
        path = home / f"{_stem(figure)}.{suffix}"
        path.write_text(render(summary, form), encoding="utf-8")
        out.append(path)
    return tuple(out)


def _frequency(figure: Figure, found: Sequence[Found], home: Path) -> tuple[Path, ...]:
    curves = []
    for each in found:
        if each.positive.any():
            label = each.panel.title if len(found) <= 4 else each.panel.title[0]
            curves.append(frequency_curve(label, each.landscape.runs(), cells=each.positive))
    if not curves:
        return ()
    drawing, ax = new(PAGE, COLUMN * 1.1)
    draw_frequency(curves, ax)
    drawing.suptitle(_title(figure, found), fontsize=8)
    return save(drawing, home / _stem(figure), _FORMATS)


def _best(figure: Figure, found: Sequence[Found], home: Path) -> tuple[Path, ...]:
    by = {(each.panel.pair, each.panel.schedules): each for each in found}
    drawing, axes = new(PAGE, COLUMN * 1.1, ncols=2)
    for ax, share in zip(axes, (0.01, 0.1), strict=True):
        tops: list[list[Top | None]] = [
            [_top(by.get((pair, schedules)), share) for pair in (BASELINE, TSALLIS)]
            for schedules in SCHEDULES
        ]
        if not any(value for row in tops for value in row):
            return ()
        names = [f"{alpha} / {lam}".replace("_", " ") for alpha, lam in SCHEDULES]
        draw_best(Bars(names, ["(entropy, kl)", "Tsallis 0.5"], tops), ax)
        ax.set_xlabel("alpha / lambda")
    drawing.suptitle(_title(figure, found), fontsize=8)
    return save(drawing, home / _stem(figure), _FORMATS)


def _top(found: Found | None, share: float) -> Top | None:
    if found is None:
        return None
    cells = cell_scores(found.landscape.runs())[found.positive]
    return top(cells, share) if cells.size else None


def _scaling(figure: Figure, runs: Runs, home: Path) -> Drawn:
    """Draw minimal temperatures over the reward scales that have been run along their strips."""
    ways: tuple[Temperature, ...] = ("alpha", "lam")
    have = {way: [panel for panel in figure.panels if runs.strip(panel, way)] for way in ways}
    joint: dict[Temperature, Found] = {}
    for way, panels in have.items():
        scales = tuple(panel.environments[0] for panel in panels)
        found = runs.strip(Panel("CartPole", environments=scales), way) if len(scales) > 1 else None
        if found is not None:
            joint[way] = found
    missing = tuple(
        panel.title if len(lacking) == len(ways) else f"{panel.title} ({lacking[0]})"
        for panel in figure.panels
        if (lacking := [NAMES[way] for way in ways if panel not in have[way]])
    )
    if not joint:
        return Drawn(figure, (), 0, "", missing)
    behind = np.unique(np.concatenate([each.rows for each in joint.values()])).size
    files: list[Path] = []
    with style():
        for name in _AXES:
            drawing, axes = new(PAGE, COLUMN * 1.1, ncols=len(joint), squeeze=False)
            for ax, (way, found) in zip(axes[0], joint.items(), strict=True):
                points = {
                    threshold: minimal_temperatures(found.landscape, way, threshold, strip=STRIP)
                    for threshold in THRESHOLDS
                }
                data = Scaling(way, dict(points), sure=found.seeds[0] > 1)
                log = name == "logarithmic"
                draw_scaling(data, ax, log=log, fit=power_law if log else regression)
            drawing.suptitle(_title(figure, tuple(joint.values())), fontsize=8)
            files += save(drawing, home / f"{_stem(figure)}_{name}", _FORMATS)
    return Drawn(figure, tuple(files), behind, sizes(tuple(joint.values())), missing)
