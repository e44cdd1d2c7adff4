"""The learning curves of a result: normalised return against environment steps."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.figures import style
from mirrorax.figures.curves import LearningCurve
from mirrorax.figures.curves import draw_curves as draw
from mirrorax.figures.style import PALETTE
from mirrorax.files import write_file

if TYPE_CHECKING:
    from mirrorax.training.result import TrainResult

#: As many points of a grid as can be told apart have a line each.
MOST_LINES = len(PALETTE)

#: Of more than that the middle is drawn: this part of them.
_MIDDLE = 0.8


def learning_curves(result: TrainResult) -> list[LearningCurve]:
    """Return the curves of each point of the grid, over its seeds."""
    from mirrorax.training.result import rows_of_cells, varying

    if "return" not in result.curves:
        raise UserError("curves: the result has none; train with curve_points=20 or eval_every")
    scale = np.array([run.reward_scale for run in result.runs])[:, None]
    steps = result.curves["update"][0] * result.settings.steps_per_update
    scores = suite.normalize(result.curves["return"], result.return_bounds, scale)
    random = suite.random_score(result.settings.environment)
    if result.bounds_source == "estimated":
        random = 0.0  # the estimated lower bound
    curves = []
    for rows in rows_of_cells(result.runs).values():
        values = [
            f"{name} {getattr(result.runs[rows[0]], name):g}" for name in varying(result.runs)
        ]
        label = ", ".join(values) or (f"mean of {len(rows)} runs" if len(rows) > 1 else "one run")
        curves.append(LearningCurve(label, steps, scores[rows], random))
    return curves


def draw_curves(ax: Any, result: TrainResult) -> Any:
    """Draw a line for each point of the grid, the mean over its seeds with a 95% band.

    More points than there are colours: where the middle of them is, and the one that is best in the
    end.
    """
    curves = learning_curves(result)
    if len(curves) <= MOST_LINES:
        draw(curves, ax, seeds=True)
    else:
        _draw_many(ax, curves)
    settings = result.settings
    ax.figure.suptitle(f"MDPO({settings.potential}, {settings.drift}), {settings.environment}")
    return ax


def _draw_many(ax: Any, curves: list[LearningCurve]) -> None:
    steps = curves[0].steps
    means = np.stack([curve.scores.mean(0) for curve in curves])
    edges = np.quantile(means, [(1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2], axis=0)
    middle = f"the middle {_MIDDLE:.0%} of {len(curves)} points"
    ax.fill_between(steps, *edges, color="0.85", linewidth=0, label=middle)
    ax.plot(steps, np.median(means, axis=0), color="0.4", label="their median")
    best = curves[int(np.argmax(np.nan_to_num(means[:, -1], nan=-np.inf)))]
    label = f"the best in the end: {best.label}"
    draw([LearningCurve(label, steps, best.scores, best.random)], ax)


def save_curves(path: Path, result: TrainResult) -> None:
    """Write the picture as a PNG file."""
    data = io.BytesIO()
    with style.style():
        figure, ax = style.new(style.PAGE * 0.8)
        draw_curves(ax, result)
        figure.savefig(data, format="png")
    write_file(path, data.getvalue())
