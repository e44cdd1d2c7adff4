"""The picture of `mirrorax train --out`: normalised return against environment steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.cli.output import varying
from mirrorax.figures.style import LINES, PALETTE

if TYPE_CHECKING:
    from mirrorax.runs.settings import RunValues
    from mirrorax.training.result import TrainResult

#: As many points of a grid as can be told apart have a line each.
MOST_LINES = len(PALETTE)

#: Of more than that the middle is drawn: this part of them.
_MIDDLE = 0.8


def draw_curves(ax: Any, result: TrainResult) -> Any:
    """Draw a line for each point of the grid, the mean over its seeds.

    One point: every run, and their mean. More points than there are colours: where the middle of
    them is, and the one that is best in the end.
    """
    from mirrorax.training.result import rows_of_cells

    low, high = result.return_bounds
    scale = np.array([run.reward_scale for run in result.runs])[:, None]
    steps = result.curves["update"][0] * result.settings.steps_per_update
    scores = (result.curves["return"] / scale - low) / (high - low)
    cells = list(rows_of_cells(result.runs).values())
    if len(cells) == 1:
        _draw_one(ax, steps, scores)
    elif len(cells) <= MOST_LINES:
        _draw_few(ax, steps, scores, cells, result.runs)
    else:
        _draw_many(ax, steps, scores, cells, result.runs)
    ax.set_xlabel("environment steps")
    ax.set_ylabel("normalised return")
    ax.set_title(
        f"MDPO({result.settings.potential}, {result.settings.drift}), {result.settings.environment}"
    )
    return ax


def _draw_one(ax: Any, steps: np.ndarray, scores: np.ndarray) -> None:
    label = f"mean of {len(scores)} runs" if len(scores) > 1 else "one run"
    ax.plot(steps, scores.T, color="0.75", linewidth=0.8)
    ax.plot(steps, scores.mean(0), color=PALETTE[0], linewidth=2, label=label)
    ax.legend(frameon=False, loc="best")


def _draw_few(
    ax: Any, steps: np.ndarray, scores: np.ndarray, cells: list[list[int]], runs: list[RunValues]
) -> None:
    for index, rows in enumerate(cells):
        colour, dash = PALETTE[index], LINES[index % len(LINES)]
        if len(rows) > 1:
            ax.plot(steps, scores[rows].T, color=colour, linewidth=0.6, alpha=0.25)
        label = _label(runs, rows)
        ax.plot(steps, scores[rows].mean(0), color=colour, linestyle=dash, linewidth=2, label=label)
    _legend_beside(ax, _seeds(cells))


def _draw_many(
    ax: Any, steps: np.ndarray, scores: np.ndarray, cells: list[list[int]], runs: list[RunValues]
) -> None:
    means = np.stack([scores[rows].mean(0) for rows in cells])
    edges = np.quantile(means, [(1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2], axis=0)
    middle = f"the middle {_MIDDLE:.0%} of the points"
    ax.fill_between(steps, *edges, color=PALETTE[0], alpha=0.2, linewidth=0, label=middle)
    ax.plot(steps, np.median(means, axis=0), color=PALETTE[0], linewidth=2, label="their median")
    best = int(np.argmax(np.nan_to_num(means[:, -1], nan=-np.inf)))
    label = f"best in the end:\n{_label(runs, cells[best])}"
    ax.plot(steps, means[best], color=PALETTE[1], linestyle=LINES[1], linewidth=2, label=label)
    _legend_beside(ax, f"{len(cells)} points of the grid,\n{_seeds(cells)}")


def _label(runs: list[RunValues], rows: list[int]) -> str:
    """Name a point by what tells it from the others, a line for every two values."""
    parts = [f"{name} {getattr(runs[rows[0]], name):g}" for name in varying(runs)]
    return "\n".join(", ".join(parts[i : i + 2]) for i in range(0, len(parts), 2))


def _seeds(cells: list[list[int]]) -> str:
    return f"mean of {len(cells[0])} seeds" if len(cells[0]) > 1 else "one seed each"


def _legend_beside(ax: Any, title: str) -> None:
    ax.legend(
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        fontsize="small",
        title=title,
        title_fontsize="small",
        alignment="left",
    )
