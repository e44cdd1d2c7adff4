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
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.scores import cell_scores, environment_scores, top
from mirrorax.formatting import counted, markdown_table
from mirrorax.runs.results import Results

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
    #: the same of each task: 0, 0.5 or 1, for the two halves of the seeds
    by_task: dict[str, float]
    #: Wilson's interval over tasks
    solved_interval: tuple[float, float] | None
    #: None where no cell has runs in every task
    rbst: Estimate | None
    top_1: float
    top_10: float
    tasks: int
    #: the share of the grid that has runs in every task
    complete: float


def study_landscapes(results: Results) -> tuple[Landscape, ...]:
    """Return a landscape for each scheme; CartPole is trained longer than the other tasks."""
    return landscapes(results, across=("steps",))


def answer(landscape: Landscape, threshold: float = THRESHOLD) -> Answer:
    """Return the answers for one landscape of the study, as far as its runs go."""
    runs = landscape.runs()
    positive = landscape.cells("positive")
    mask = positive & np.isfinite(cell_scores(runs))
    scores = cell_scores(runs)[mask]
    shares = held_out_solved(runs[mask], threshold) if mask.any() else None
    return Answer(
        label=pair_name(landscape),
        units=unit_name(landscape),
        apart=regions_apart(landscape, threshold),
        solved=None if shares is None else float(shares.mean()),
        by_task={}
        if shares is None
        else dict(zip((e.label for e in landscape.environments), shares.tolist(), strict=True)),
        solved_interval=None if shares is None else _interval(shares),
        rbst=robustness(runs, [threshold], cells=mask)[0] if mask.any() else None,
        top_1=top(scores, 0.01).mean if mask.any() else math.nan,
        top_10=top(scores, 0.1).mean if mask.any() else math.nan,
        tasks=len(landscape.environments),
        complete=float(mask.sum() / max(positive.sum(), 1)),
    )


def pair_name(landscape: Landscape) -> str:
    """Return the pair of regularisers."""
    return landscape.label.split(" [")[0].split(" alpha ")[0]


def unit_name(landscape: Landscape) -> str:
    """Return the unit of temperatures, and that lambda is learned."""
    units = str(landscape.settings["temperature_units"])
    return units if landscape.lam_axis == "lam" else f"{units}, learned lambda"


@dataclass(frozen=True)
class Region:
    """The good cells of one task: their smallest, mean and largest place, in decades."""

    pair: str
    units: str
    label: str
    environment: str
    reward_scale: float
    max_return: float
    share: float  # of the cells with runs, that are good
    #: (smallest, mean, largest) of alpha and of lambda or v; NaN without a good cell
    alpha: tuple[float, float, float]
    lam: tuple[float, float, float]
    #: the mean places by the runs of each seed alone, from the lowest to the highest
    alpha_seeds: tuple[float, float]
    lam_seeds: tuple[float, float]


def regions(landscape: Landscape, threshold: float = THRESHOLD) -> list[Region]:
    """Return where the good cells of each task are."""
    runs = landscape.runs()
    out = []
    for e, task in enumerate(landscape.environments):
        whole = environment_scores(runs)[..., e]
        alone = [_places(landscape, runs[..., e, s], threshold) for s in range(runs.shape[-1])]
        measured = landscape.cells("positive") & np.isfinite(whole)
        means = np.array([[places.mean() for places in each] for each in alone if each[0].size])
        low, high = (means.min(0), means.max(0)) if len(means) else (np.full(2, np.nan),) * 2
        alpha, lam = (_span(each) for each in _places(landscape, whole, threshold))
        out.append(
            Region(
                pair=pair_name(landscape),
                units=unit_name(landscape),
                label=task.label,
                environment=task.name,
                reward_scale=task.reward_scale,
                max_return=task.return_max,
                share=float((measured & (whole >= threshold)).sum() / max(measured.sum(), 1)),
                alpha=alpha,
                lam=lam,
                alpha_seeds=(float(low[0]), float(high[0])),
                lam_seeds=(float(low[1]), float(high[1])),
            )
        )
    return sorted(out, key=lambda each: (each.environment, each.max_return))


def _places(
    landscape: Landscape, scores: Float[np.ndarray, "alpha lam"], threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the alphas and lambdas of the good cells, in decades."""
    i, j = np.nonzero(landscape.cells("positive") & (scores >= threshold))
    return np.log10(landscape.alphas[i]), np.log10(landscape.lams[j])


def _span(places: np.ndarray) -> tuple[float, float, float]:
    if not places.size:
        return math.nan, math.nan, math.nan
    return float(places.min()), float(places.mean()), float(places.max())


def regions_apart(landscape: Landscape, threshold: float) -> dict[str, tuple[float, float]]:
    """Return how far apart the centres of good regions are, for each environment with scales."""
    found = regions(landscape, threshold)
    out = {}
    for name in dict.fromkeys(each.environment for each in found):
        mine = [(each.alpha[1], each.lam[1]) for each in found if each.environment == name]
        if len(mine) > 1:
            gaps = np.ptp(np.array(mine), axis=0)  # NaN if one has none
            out[name] = (float(gaps[0]), float(gaps[1]))
    return out


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
    head = ["pair", "unit", "cells with runs in every task", "solved by one setting", "Rbst_0.9"]
    head += ["top 1%", "top 10%", *(f"{name}: decades apart (alpha, lambda)" for name in names)]
    rows = []
    for each in answers:
        solved = rbst = "-"
        if each.solved is not None and each.solved_interval is not None:
            low, high = each.solved_interval
            solved = f"{each.solved:.2f} of {each.tasks} [{low:.2f}, {high:.2f}]"
        if each.rbst is not None:
            interval = each.rbst.interval()
            ends = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
            rbst = f"{each.rbst.value:.3f}{ends}"
        cells = [each.label, each.units, f"{each.complete:.0%} of {counted(each.tasks, 'task')}"]
        cells += [
            solved,
            rbst,
            *("-" if math.isnan(v) else f"{v:.3f}" for v in (each.top_1, each.top_10)),
        ]
        gaps = [each.apart.get(name) for name in names]
        cells += [
            "-" if g is None else "none good" if math.isnan(g[0]) else f"{g[0]:.1f}, {g[1]:.1f}"
            for g in gaps
        ]
        rows.append(cells)
    return markdown_table(head, rows).rstrip()


def verdict(answers: Sequence[Answer]) -> str:
    """Say what the answers of each pair support, beside those in units of the reward.

    A scheme counts if all of its cells have runs in as many tasks as any scheme has.
    """
    most = max((each.tasks for each in answers), default=0)
    whole = [e for e in answers if e.tasks == most and e.complete == 1 and e.solved is not None]
    lines = []
    for pair in dict.fromkeys(each.label for each in answers):
        mine = {e.units: e for e in whole if e.label == pair}
        if len(mine) < 2 or "reward" not in mine:
            lines.append(f"- {pair}: not decided, runs are missing.")
            continue
        plain = mine.pop("reward")
        best = max(mine.values(), key=lambda each: (each.solved, each.units))
        gained, lost = _changes(plain.by_task, best.by_task)
        lines.append(
            f"- {pair}: one setting in units of `{best.units.split(',')[0]}`"
            f"{' with a learned lambda' if ',' in best.units else ''} solves {best.solved:.0%} of "
            f"{most} tasks, one in units of `reward` {plain.solved:.0%}. Better on "
            f"{counted(gained, 'task')}, worse on {lost}."
        )
    return "\n".join(lines)


def _changes(before: dict[str, float], after: dict[str, float]) -> tuple[int, int]:
    """Return on how many tasks a share is larger after, and on how many smaller."""
    gaps = [after[name] - before[name] for name in before]
    return sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)


def region_table(found: Sequence[Region]) -> str:
    """Write where the good cells are as Markdown: the mean place, and by each seed alone."""

    def place(span: tuple[float, float, float], seeds: tuple[float, float]) -> str:
        if math.isnan(span[1]):
            return "none good"
        middle, low, high = (float(f"{10**each:.2g}") for each in (span[1], *seeds))
        return f"{middle:g} [{low:g}, {high:g}]"

    head = ["pair", "unit", "task", "maximum return", "good cells", "alpha", "lambda or v"]
    rows = [
        [
            each.pair,
            each.units,
            each.label,
            f"{each.max_return:g}",
            f"{each.share:.0%}",
            place(each.alpha, each.alpha_seeds),
            place(each.lam, each.lam_seeds),
        ]
        for each in found
    ]
    return markdown_table(head, rows).rstrip()
