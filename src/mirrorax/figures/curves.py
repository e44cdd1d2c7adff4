"""Learning curves with bands: the mean over seeds and where it probably is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.scores import UNIT, environment_scores, mean_intervals
from mirrorax.envs.suite import normalize, random_score
from mirrorax.errors import UserError
from mirrorax.figures.style import LINES, PALETTE
from mirrorax.formatting import Shown
from mirrorax.runs.arrow import CURVE, read_lists
from mirrorax.runs.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RETURN, _UPDATE = f"{CURVE}return", f"{CURVE}update"
#: Of more curves than colours, this part is called the middle.
_MIDDLE = 0.8
#: Curves up to which each has its band even where its seeds are drawn.
_BANDS = 2
_TWO = "two seeds: no band"
_ABOVE: Any = {"ha": "right", "va": "bottom", "size": 6, "color": "0.4"}


@dataclass(frozen=True, eq=False, repr=False)
class LearningCurve(Shown):
    """Scores of some seeds along the training: [seed, time], NaN where there is none."""

    label: str
    steps: Float[np.ndarray, " time"]
    scores: Float[np.ndarray, "seed time"]
    random: float | None = None  # the score of a random policy, where it is known


def curve_scores(
    landscape: Landscape,
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "alpha lam env seed time"]] | None:
    """Return the updates after which runs were scored, and these scores; NaN where there is none.

    None if no run has a learning curve.
    """
    rows, where = landscape.results.rows, landscape.rows >= 0
    if not {_RETURN, _UPDATE} <= set(rows.column_names):
        return None
    rows = rows.take(pa.array(landscape.rows[where]))
    returns, lengths = read_lists(rows[_RETURN])
    if not lengths.any():
        return None
    values = np.full((*where.shape, returns.shape[1]), np.nan)
    values[where] = returns
    low, high = (
        np.array([getattr(e, name) for e in landscape.environments])[:, None, None]
        for name in ("return_min", "return_max")
    )
    updates = read_lists(rows[_UPDATE])[0]
    if updates.shape[1] != returns.shape[1]:
        raise UserError("curves: runs have not as many updates as returns along the way")
    return updates[lengths.argmax()], normalize(values, (low, high))


def curve_numbers(results: Results) -> int:
    """Return how many scores the learning curves of some runs hold."""
    if _RETURN not in results.rows.column_names:
        return 0
    return pc.sum(pc.list_value_length(results.rows[_RETURN])).as_py() or 0


def learning_curve(
    landscape: Landscape, *, alpha: float, lam: float, environment: str
) -> LearningCurve:
    """Return the learning curves of one cell's seeds on one environment."""
    chosen = landscape.select([environment])
    i, j = np.flatnonzero(chosen.alphas == alpha), np.flatnonzero(chosen.lams == lam)
    if len(i) == 0 or len(j) == 0:
        raise UserError(f"{landscape.axis}, lam: the grid has no cell ({alpha:g}, {lam:g})")
    cell = chosen.crop(i, j)
    curves = curve_scores(cell)
    if curves is None:
        raise UserError("curves: this cell's runs have none; a study asks for them with eval_every")
    updates, scores = curves[0], curves[1][0, 0, 0]
    (per_update,) = {c.settings.steps_per_update for c in cell.configurations}
    (task,) = cell.environments
    return LearningCurve(
        f"{landscape.label}, ({alpha:g}, {lam:g})",
        updates * per_update,
        scores[np.isfinite(scores).any(axis=-1)],
        0.0 if task.bounds_source == "estimated" else random_score(task.name),
    )


def draw_curves(
    curves: Sequence[LearningCurve],
    ax: Axes,
    *,
    seeds: bool = False,
) -> Axes:
    """Draw the mean over seeds with a pointwise 95% band; with `seeds`, each seed as a thin line.

    With one seed or two there is no band, and the label says so; two are drawn as lines. More than
    two curves whose seeds are drawn have no bands either, which would cover them. The score of a
    random policy, where known, is a dotted line. Of more curves than there are colours the middle
    is drawn, and the one that is best in the end.
    """
    if not curves:
        raise UserError("curves: there is no learning curve to draw")
    if len(curves) > len(PALETTE):
        curves, seeds = [_draw_middle(curves, ax)], False
    lows, highs, notes = [0.0], [1.0], [_without_band(curve) for curve in curves]
    shared = notes[0] if len(curves) > 1 and len(set(notes)) == 1 else ""
    for k, curve in enumerate(curves):
        if curve.scores.shape[1] != len(curve.steps):
            raise UserError(
                f"curves: {curve.label} has {curve.scores.shape[1]} scores for "
                f"{len(curve.steps)} times"
            )
        colour = PALETTE[k % len(PALETTE)]
        cells = curve.scores.T[:, None, :]  # one environment per point in time
        mean = environment_scores(cells)[:, 0]
        lows.append(float(np.nanmin(mean, initial=0.0)))
        highs.append(float(np.nanmax(mean, initial=1.0)))
        label = f"{curve.label} ({note})" if (note := notes[k]) and not shared else curve.label
        if not note and (len(curves) <= _BANDS or not seeds):
            given = curve.scores[np.isfinite(curve.scores)]
            inside = given.min() >= UNIT[0] and given.max() <= UNIT[1]
            low, high = mean_intervals(cells, bounds=UNIT if inside else None, agree=0.0)
            ax.fill_between(curve.steps, low, high, color=colour, alpha=0.18, lw=0)
        if seeds or note == _TWO:
            ax.plot(curve.steps, curve.scores.T, color=colour, lw=0.4, alpha=0.5)
        ax.plot(curve.steps, mean, color=colour, linestyle=LINES[k % len(LINES)], label=label)
    if max(curve.steps[-1] for curve in curves) >= 1e5:
        ax.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}")
        ax.set_xlabel("environment steps (millions)")
    else:
        ax.set_xlabel("environment steps")
    ax.set_ylabel("normalised return")
    levels = {curve.random: curve.label for curve in curves}
    for level, label in levels.items():
        if level is not None:
            ax.axhline(level, color="0.5", lw=0.8, linestyle=":")
            text = "random policy" if len(levels) == 1 else f"random policy, {label}"
            ax.annotate(text, (1, level), xycoords=("axes fraction", "data"), **_ABOVE)
    # From 0 to 1, further where a mean is: a wide band must not squeeze the curves.
    ax.set_ylim(min(0.0, *lows) - 0.04, max(1.0, *highs) + 0.04)
    ax.set_xlim(left=0)
    place: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.2}
    ax.legend(title=shared or None, alignment="left", title_fontsize=7, **place)
    return ax


def _without_band(curve: LearningCurve) -> str:
    """Return why there is no band; empty where there are enough seeds for one."""
    most = np.isfinite(curve.scores).sum(axis=0).max(initial=0)
    return "" if most > 2 else _TWO if most == 2 else "one seed: no band"


def _draw_middle(curves: Sequence[LearningCurve], ax: Axes) -> LearningCurve:
    """Draw where the middle of many curves is; return the one that is best in the end."""
    steps = curves[0].steps
    means = np.stack([curve.scores.mean(0) for curve in curves])
    edges = np.quantile(means, [(1 - _MIDDLE) / 2, (1 + _MIDDLE) / 2], axis=0)
    middle = f"the middle {_MIDDLE:.0%} of {len(curves)} points"
    ax.fill_between(steps, *edges, color="0.85", linewidth=0, label=middle)
    ax.plot(steps, np.median(means, axis=0), color="0.4", label="their median")
    best = curves[int(np.argmax(np.nan_to_num(means[:, -1], nan=-np.inf)))]
    return replace(best, label=f"the best in the end: {best.label}")
