"""Each figure of the paper, drawn from the runs there are, and labelled with what they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import Top, cell_scores, top
from mirrorax.analysis.summary import summarise
from mirrorax.analysis.temperature import THRESHOLDS, Temperature, minimal_temperatures
from mirrorax.figures.bars import draw_best
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import HeatMap, draw_panel, heat_map
from mirrorax.figures.robustness_table import render
from mirrorax.figures.scaling import draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, save, style, wrapped
from mirrorax.paper.axes import BASELINE, NAMES, SCHEDULES, TSALLIS
from mirrorax.paper.panels import Figure, Panel
from mirrorax.paper.regression import regression
from mirrorax.paper.runs import PanelRuns, ReadingRuns, alike, sizes
from mirrorax.paper.table_1 import reference

if TYPE_CHECKING:
    import matplotlib.figure

    #: by the ends of their names: pictures, or texts by their formats
    Pictures = dict[str, matplotlib.figure.Figure | str]

FORMATS = ("png", "pdf")
_TEXTS = {"txt": "text", "md": "markdown", "csv": "csv"}


@dataclass(frozen=True)
class Drawn:
    """A figure as it came out: its files, what is behind it, and what is missing."""

    figure: Figure
    files: tuple[Path, ...]
    runs: int
    size: str
    missing: tuple[str, ...]


def draw(figure: Figure, runs: ReadingRuns, home: Path) -> Drawn:
    """Draw a figure into a folder, in place of an older one; without any run of it, only say so."""
    find = _strips if figure.kind == "scaling" else _panels
    panels, missing = find(figure, runs)
    size = sizes(panels)
    stem = re.sub(r"[^a-z0-9]+", "_", figure.name.lower())
    for end in ("", *(f"_{axes}" for axes in _AXES)):
        for suffix in (*FORMATS, *_TEXTS):
            (home / f"{stem}{end}.{suffix}").unlink(missing_ok=True)
    files: list[Path] = []
    with style():
        for end, picture in (_KINDS[figure.kind](panels) if panels else {}).items():
            if isinstance(picture, str):
                files.append(home / f"{stem}.{end}")
                files[-1].write_text(picture, encoding="utf-8")
            else:
                title = wrapped(f"{figure.name}: {figure.title}\n{size}", 110)
                picture.suptitle(title, fontsize=8)
                files += save(picture, home / f"{stem}{end}", FORMATS)
    behind = sum(each.runs for each in panels)
    if figure.kind == "scaling" and panels:  # the strips cross
        behind = np.unique(np.concatenate([each.rows for each in panels])).size
    return Drawn(figure, tuple(files), behind, size, missing)


def _panels(figure: Figure, runs: ReadingRuns) -> tuple[tuple[PanelRuns, ...], tuple[str, ...]]:
    """Return the runs of a figure's panels, and the panels that have none."""
    matches = runs.find_all(figure.panels)
    if figure.kind == "maps" and len({each.given.shape for each in matches}) > 1:
        # Strips beside whole grids: everything there is of each, so that they can be compared.
        matches = runs.find_all(figure.panels, nested=False)
    if figure.kind == "best":  # the schedules of a pair are cut to what all of them have
        groups: dict[tuple[str, str], list[PanelRuns]] = {}
        for each in matches:
            groups.setdefault(each.panel.pair, []).append(each)
        matches = tuple(one for group in groups.values() for one in alike(group) or group)
    have = {each.panel for each in matches}
    return matches, tuple(panel.title for panel in figure.panels if panel not in have)


def _maps(panels: Sequence[PanelRuns]) -> Pictures:
    maps = [
        HeatMap(p.scores, p.landscape.alphas, p.landscape.lams, p.panel.title, p.landscape.axis)
        for p in panels
    ]
    if len(panels) == 1 and len(panels[0].panel.labels) > 1:
        item = panels[0].landscape
        maps[0] = HeatMap(maps[0].scores, item.alphas, item.lams, "mean", item.axis)
        maps += [heat_map(item, environment=name) for name in panels[0].panel.labels]
    columns = 3 if len(maps) > 4 else len(maps)
    drawing, _ = new(PAGE, PAGE * (0.12 + 0.3 * -(-len(maps) // columns)))
    drawing.clear()
    draw_panel(maps, drawing, columns=columns)
    return {"": drawing}


def _table(panels: Sequence[PanelRuns]) -> Pictures:
    usable = [each.landscape for each in panels if each.positive.any()]
    if not usable:
        return {}
    summary = summarise(usable, notes=(sizes(panels),), reference=reference())
    return {suffix: render(summary, form) for suffix, form in _TEXTS.items()}


def _frequency(panels: Sequence[PanelRuns]) -> Pictures:
    curves = []
    for each in panels:
        if each.positive.any():
            label = each.panel.title if len(panels) <= 4 else each.panel.title[0]
            curves.append(frequency_curve(label, each.landscape.runs(), cells=each.positive))
    if not curves:
        return {}
    drawing, ax = new(PAGE, COLUMN * 1.1)
    draw_frequency(curves, ax)
    return {"": drawing}


def _best(panels: Sequence[PanelRuns]) -> Pictures:
    by = {(each.panel.pair, each.panel.schedules): each for each in panels}
    drawing, axes = new(PAGE, COLUMN * 1.1, ncols=2)
    for ax, share in zip(axes, (0.01, 0.1), strict=True):
        tops = {
            f"{alpha} / {lam}".replace("_", " "): {
                name: _top(by.get((pair, (alpha, lam))), share)
                for name, pair in (("(entropy, kl)", BASELINE), ("Tsallis 0.5", TSALLIS))
            }
            for alpha, lam in SCHEDULES
        }
        if not any(value for group in tops.values() for value in group.values()):
            return {}
        draw_best(tops, ax)
        ax.set_xlabel("alpha / lambda")
    return {"": drawing}


def _top(panel: PanelRuns | None, share: float) -> Top | None:
    if panel is None:
        return None
    cells = cell_scores(panel.landscape.runs())[panel.positive]
    return top(cells, share) if cells.size else None


#: The axes that Figure 4 is drawn on, and the line through its points.
_AXES: dict[str, Callable[..., object]] = {"linear": regression, "logarithmic": power_law}


def _strips(figure: Figure, runs: ReadingRuns) -> tuple[tuple[PanelRuns, ...], tuple[str, ...]]:
    """Return the reward scales that have been run along a strip, one panel by temperature."""
    have = {way: [panel for panel in figure.panels if runs.strip(panel, way)] for way in NAMES}
    joint = []
    for way, panels in have.items():
        scales = tuple(panel.environments[0] for panel in panels)
        match = runs.strip(Panel(way, environments=scales), way) if len(scales) > 1 else None
        joint += [match] if match else []
    missing = tuple(
        panel.title if len(lacking) == len(have) else f"{panel.title} ({lacking[0]})"
        for panel in figure.panels
        if (lacking := [NAMES[way] for way in have if panel not in have[way]])
    )
    return tuple(joint), missing


def _scaling(panels: Sequence[PanelRuns]) -> Pictures:
    """Draw minimal temperatures over the reward scales."""
    out: Pictures = {}
    for name, fit in _AXES.items():
        drawing, axes = new(PAGE, COLUMN * 1.1, ncols=len(panels), squeeze=False)
        for ax, each in zip(axes[0], panels, strict=True):
            way: Temperature = "alpha" if each.panel.title == "alpha" else "lam"
            points = {
                threshold: minimal_temperatures(each.landscape, way, threshold)
                for threshold in THRESHOLDS
            }
            draw_scaling(
                points,
                ax,
                temperature=way,
                sure=each.seeds[0] > 1,
                log=name == "logarithmic",
                fit=fit,
            )
        out[f"_{name}"] = drawing
    return out


_KINDS: dict[str, Callable[[Sequence[PanelRuns]], Pictures]] = {
    "maps": _maps,
    "table": _table,
    "frequency": _frequency,
    "best": _best,
    "scaling": _scaling,
}
