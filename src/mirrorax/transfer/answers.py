"""What the results of the study say of each unit of temperatures.

(a) How far apart the good regions of several reward scales of one environment are.
(b) What share of tasks (environment and reward scale) one single setting solves: it is chosen on
    half of the seeds and judged on the other half, both ways round.
(c) Rbst over all tasks.
(d) The mean score of the best 1% and 10% of cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.estimates import Estimate, robustness
from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.scores import cell_scores, environment_scores, top

THRESHOLD = 0.9


@dataclass(frozen=True)
class Answer:
    """The answers for one scheme: a unit, a pair and a schedule of lambda."""

    label: str
    units: str
    #: environment -> how far apart the good regions of its reward scales are in alpha and in
    #: lambda, in decades; NaN where a scale has no good cell
    apart: dict[str, tuple[float, float]]
    #: the share of tasks that one setting solves, held out; None with a single seed
    solved: float | None
    #: its interval by leaving out one task at a time
    solved_interval: tuple[float, float] | None
    rbst: Estimate
    top_1: float
    top_10: float
    tasks: int


def answer(landscape: Landscape, threshold: float = THRESHOLD) -> Answer:
    """Return the answers for one landscape of the study."""
    runs = landscape.runs()
    mask = landscape.cells("positive") & np.isfinite(cell_scores(runs))
    scores = cell_scores(runs)[mask]
    shares = held_out_solved(runs[mask], threshold)
    return Answer(
        label=landscape.label,
        units=str(landscape.settings["temperature_units"]),
        apart=regions_apart(landscape, threshold),
        solved=None if shares is None else float(shares.mean()),
        solved_interval=None if shares is None else _interval(shares),
        rbst=robustness(runs, [threshold], cells=mask)[0],
        top_1=top(scores, 0.01).mean,
        top_10=top(scores, 0.1).mean,
        tasks=len(landscape.environments),
    )


def regions_apart(landscape: Landscape, threshold: float) -> dict[str, tuple[float, float]]:
    """Return how far apart the centres of good regions are, for each environment with scales."""
    scores = environment_scores(landscape.runs())
    names = [environment.name for environment in landscape.environments]
    out = {}
    for name in dict.fromkeys(names):
        mine = [e for e, other in enumerate(names) if other == name]
        if len(mine) < 2:
            continue
        centres = np.array([_centre(landscape, scores[..., e], threshold) for e in mine])
        gaps = centres.max(axis=0) - centres.min(axis=0)  # NaN if one has none
        out[name] = (float(gaps[0]), float(gaps[1]))
    return out


def _centre(
    landscape: Landscape, scores: Float[np.ndarray, "alpha lam"], threshold: float
) -> tuple[float, float]:
    """Return the mean place of the good cells, in decades."""
    good = landscape.cells("positive") & (scores >= threshold)
    if not good.any():
        return math.nan, math.nan
    i, j = np.nonzero(good)
    return (
        float(np.log10(landscape.alphas[i]).mean()),
        float(np.log10(landscape.lams[j]).mean()),
    )


def held_out_solved(
    runs: Float[np.ndarray, "cells task seed"], threshold: float
) -> Float[np.ndarray, " task"] | None:
    """Return for each task how often the one best setting solves it, on seeds not used to choose.

    The setting is the one that solves most tasks on half of the seeds; of several, the one with
    the best mean score.
    """
    seeds = runs.shape[-1]
    if seeds < 2:
        return None
    halves = [np.arange(0, seeds, 2), np.arange(1, seeds, 2)]
    out = []
    for chosen, judged in (halves, halves[::-1]):
        first = environment_scores(runs[..., chosen])
        solved = (first >= threshold).mean(axis=1)
        best = np.lexsort((np.nan_to_num(first).mean(axis=1), solved))[-1]
        out.append(environment_scores(runs[..., judged])[best] >= threshold)
    return np.asarray(np.mean(out, axis=0))


def _interval(shares: Float[np.ndarray, " task"]) -> tuple[float, float]:
    """Return Wilson's 95% interval of the mean share over tasks.

    Tasks are few and are not drawn at random: it says how much hangs on single tasks.
    """
    n, p, z = len(shares), float(shares.mean()), 1.96
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def table(answers: Sequence[Answer]) -> str:
    """Write the answers as Markdown."""
    names = list(dict.fromkeys(name for each in answers for name in each.apart))
    head = [
        "scheme",
        "unit",
        "solved by one setting",
        "95%",
        "Rbst_0.9",
        "95%",
        "top 1%",
        "top 10%",
    ]
    head += [f"{name}: decades apart (alpha, lambda)" for name in names]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for each in answers:
        interval = each.rbst.interval()
        cells = [
            each.label,
            each.units,
            "-" if each.solved is None else f"{each.solved:.2f} of {each.tasks}",
            "-"
            if each.solved_interval is None
            else "[{:.2f}, {:.2f}]".format(*each.solved_interval),
            f"{each.rbst.value:.3f}",
            _ends(None if interval is None else (interval.low, interval.high), 3),
            f"{each.top_1:.3f}",
            f"{each.top_10:.3f}",
        ]
        gaps = [each.apart.get(name, (math.nan, math.nan)) for name in names]
        cells += ["none good" if math.isnan(a) else f"{a:.1f}, {b:.1f}" for a, b in gaps]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _ends(interval: tuple[float, float] | None, digits: int) -> str:
    if interval is None:
        return "-"
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
