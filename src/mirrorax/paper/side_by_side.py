"""The readings side by side: verdicts, fingerprint and agreement, as tables and pictures."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.figures.style import DIFFERENCES, PAGE, PALETTE, new, save, style
from mirrorax.paper import agreement, fingerprint, matrix
from mirrorax.paper.agreement import PAPER, Correlations, between
from mirrorax.paper.claim import ends
from mirrorax.paper.drawing import FORMATS
from mirrorax.paper.fingerprint import Fingerprint, ranking
from mirrorax.paper.implications import implications
from mirrorax.paper.matrix import Matrix
from mirrorax.paper.runs import ReadingRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: The level of Table 1, and one that readings reach under which nothing is good.
LEVELS = (0.9, 0.75)
#: met or reproduced, neither, the opposite: light enough for black text
_YES, _OPEN, _NO = "#A6D8C3", "#E6E6E6", "#F2B79A"
_MARKS = {"met": _YES, "open": _OPEN, "not met": _NO}
_VERDICTS = {"reproduced": _YES, "not decided": _OPEN, "not reproduced": _NO}
_ROW = 0.27  # inches


def fingerprints(runs: Mapping[str, ReadingRuns], seed: int) -> dict[str, Fingerprint]:
    """Return the likelihood of each reading that has all points of the fingerprint."""
    prints = {
        name: fingerprint.fingerprint(each, np.random.default_rng(seed))
        for name, each in runs.items()
    }
    return {name: each for name, each in prints.items() if each is not None}


def agreements(runs: Mapping[str, ReadingRuns], seed: int) -> dict[float, Correlations]:
    """Return the rank correlations of the readings at each level."""
    return {
        level: agreement.agreement(runs, np.random.default_rng(seed), level) for level in LEVELS
    }


def pictures(
    verdicts: Matrix, prints: Mapping[str, Fingerprint], orders: Mapping[float, Correlations]
) -> dict[str, tuple[str, str, Figure]]:
    """Return what there is to show by name: its title, as Markdown, and as a picture."""
    out = {}
    if verdicts.claims:
        text = matrix.summary(verdicts) + "\n" + matrix.markdown(verdicts)
        out["verdicts"] = ("Claims by readings", text, draw_matrix(verdicts))
    if prints:
        title = "What Table 1 implies, by reading, and the likelihood of each"
        out["fingerprint"] = (title, fingerprint.table(prints), draw_fingerprint(prints))
    for level, each in orders.items():
        if each:
            title = f"Rank correlations of the order of the pairs by Rbst_{level:g}"
            out[f"agreement_{level:g}"] = (title, agreement.table(each), draw_agreement(each))
    return out


def write_readings(runs: Mapping[str, ReadingRuns], verdicts: Matrix, home: Path, seed: int) -> str:
    """Write tables and pictures to a folder; return them as part of a page."""
    body = ["<h2>Readings</h2>"]
    if verdicts.claims:
        (home / "verdicts.csv").write_text(matrix.as_csv(verdicts), encoding="utf-8")
        lines = (f"{claim.title}: {matrix.holds(row)}" for claim, row in verdicts.rows)
        body.append(f"<ul>{''.join(f'<li>{html.escape(line)}</li>' for line in lines)}</ul>")
    with style():
        shown = pictures(verdicts, fingerprints(runs, seed), agreements(runs, seed))
        for name, (title, text, figure) in shown.items():
            (home / f"{name}.md").write_text(text, encoding="utf-8")
            save(figure, home / name, FORMATS)
            body.append(
                f'<figure><img src="{name}.png" alt="{html.escape(title)}"><figcaption class=note>'
                f'{html.escape(title)} (<a href="{name}.pdf">{name}.pdf</a>)</figcaption></figure>'
            )
    return "\n".join(body) + "\n"


def draw_fingerprint(prints: Mapping[str, Fingerprint]) -> Figure:
    """Draw readings by implications, the likeliest first, and their likelihoods beside them."""
    names = [name for name, _ in ranking(prints)]
    figure, axes = new(PAGE, 1.15 + _ROW * len(names), ncols=2, sharey=True, width_ratios=[3.4, 1])
    left, right = axes
    for y, name in enumerate(names):
        each = prints[name]
        for x, point in enumerate(each.points):
            text = f"{point.score:.2f}\n{ends(point.interval, 2)}"
            _cell(left, x, y, _MARKS[point.mark], text)
        right.plot([each.interval.low, each.interval.high], [y, y], color=PALETTE[0])
        right.plot(each.log_likelihood, y, "o", color=PALETTE[0], markersize=4)
    _frame(left, [f"{each.name}\n{each.bound}" for each in implications()], names)
    right.set_xlabel("log-likelihood")
    right.tick_params(axis="y", length=0)
    right.grid(axis="x", color="0.9", linewidth=0.5)
    right.set_axisbelow(True)
    _legend(figure, _MARKS)
    return figure


def draw_matrix(verdicts: Matrix) -> Figure:
    """Draw claims by readings: the colour is the verdict, the text the number behind it."""
    names = list(verdicts.claims)
    figure, ax = new(PAGE, 1.4 + _ROW * len(names))
    for x, (_, row) in enumerate(verdicts.rows):
        for y, claim in enumerate(row.values()):
            colour = _VERDICTS[claim.verdict] if claim.runs else "white"
            _cell(ax, x, y, colour, claim.key.replace(" ", "\n") if claim.runs else "")
    heads = [f"({claim.number})\n{claim.topic}" for claim, _ in verdicts.rows]
    _frame(ax, heads, names)
    _legend(figure, {**_VERDICTS, "no runs": "white"})
    return figure


def draw_agreement(correlations: Correlations) -> Figure:
    """Draw the rank correlations of readings with the paper and with each other."""
    names = list(dict.fromkeys(name for name, _ in correlations))
    columns = [PAPER, *names]
    values = np.full((len(names), len(columns)), np.nan)
    # One row alone would be lower than the name of the colour bar.
    figure, ax = new(PAGE, 1.0 + 0.36 * max(len(names), 2))
    for y, name in enumerate(names):
        for x, other in enumerate(columns):
            both = between(correlations, name, other)
            if both is not None:
                values[y, x] = both.value
                colour = "white" if abs(both.value) > 0.7 else "black"
                _write(ax, x, y, f"{both.value:.2f}\n{ends(both.interval, 2)}", color=colour)
    mesh = ax.imshow(values, cmap=DIFFERENCES, vmin=-1, vmax=1, aspect="auto")
    slant = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
    ax.set_xticks(range(len(columns)), columns, **slant)
    ax.set_yticks(range(len(names)), names)
    _bare(ax)
    bar = figure.colorbar(mesh, ax=ax, fraction=0.04, pad=0.02)
    bar.set_label("rank correlation")
    bar.outline.set_visible(False)
    return figure


def _cell(ax: Any, x: int, y: int, colour: str, text: str) -> None:
    from matplotlib.patches import Rectangle

    box = Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="0.85", lw=0.4)
    ax.add_patch(box)
    _write(ax, x, y, text, linespacing=1.1)


def _write(ax: Any, x: int, y: int, text: str, **options: Any) -> None:
    ax.text(x, y, text, ha="center", va="center", fontsize=5.5, **options)


def _frame(ax: Any, columns: list[str], rows: list[str]) -> None:
    ax.set_xlim(-0.55, len(columns) - 0.45)
    ax.set_ylim(len(rows) - 0.45, -0.55)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.xaxis.tick_top()
    _bare(ax)


def _bare(ax: Any) -> None:
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _legend(figure: Figure, colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    patches = [Patch(facecolor=c, edgecolor="0.85", label=name) for name, c in colours.items()]
    figure.legend(handles=patches, loc="outside lower left", ncols=len(colours))
