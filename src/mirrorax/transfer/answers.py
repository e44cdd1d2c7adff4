"""What the results of the study say of each unit of temperatures.

(a) How far apart the good regions of several reward scales of one environment are.
(b) What share of tasks (environment and reward scale) one single setting solves: it is chosen on
    half of the seeds and judged on the other half, both ways round.
(c) Rbst over all tasks.
(d) The mean score of the best 1% and 10% of cells, chosen and judged on other seeds like (b).

Two seeds give no interval. A `Spread` has the values by each seed, or half of the seeds, alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import binomtest

from mirrorax.analysis.estimates import Estimate, robustness
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.scores import cell_scores, environment_scores, top_count
from mirrorax.formatting import counted, markdown_table
from mirrorax.runs.results import Results

THRESHOLD = 0.9


class Spread(NamedTuple):
    """A number by all seeds, and the least and the largest by some of them alone; NaN if none."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, alone: Float[np.ndarray, " parts"]) -> Spread:
        """Return the spread of a value and what single parts of the seeds say."""
        known = alone[np.isfinite(alone)]
        low, high = (known.min(), known.max()) if known.size else (math.nan, math.nan)
        return cls(float(value), float(low), float(high))

    def text(self, digits: int) -> str:
        """Write it as `value [low, high]`."""
        if math.isnan(self.value):
            return "-"
        return f"{self.value:.{digits}f} [{self.low:.{digits}f}, {self.high:.{digits}f}]"


@dataclass(frozen=True)
class Answer:
    """The answers for one scheme: a unit, a pair and a schedule of lambda."""

    label: str
    units: str
    #: environment -> how far apart the good regions of its reward scales are in alpha and in
    #: lambda, in decades; NaN where a scale has no good cell
    apart: dict[str, tuple[Spread, Spread]]
    #: the share of tasks that one setting solves, held out; None with a single seed
    solved: float | None
    #: the same of each task: 0, 0.5 or 1, for the two halves of the seeds
    by_task: dict[str, float]
    #: Wilson's interval over tasks
    solved_interval: tuple[float, float] | None
    #: None where no cell has runs in every task
    rbst: Estimate | None
    top_1: Spread
    top_10: Spread
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
        top_1=held_out_top(runs[mask], 0.01),
        top_10=held_out_top(runs[mask], 0.1),
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
    #: the mean places of alpha and of lambda or v, by the runs of each seed alone
    alone: Float[np.ndarray, "seeds 2"]


def regions(landscape: Landscape, threshold: float = THRESHOLD) -> list[Region]:
    """Return where the good cells of each task are."""
    runs = landscape.runs()
    out = []
    for e, task in enumerate(landscape.environments):
        whole = environment_scores(runs)[..., e]
        seeds = [_places(landscape, runs[..., e, s], threshold) for s in range(runs.shape[-1])]
        measured = landscape.cells("positive") & np.isfinite(whole)
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
                alone=np.array([[_span(axis)[1] for axis in each] for each in seeds]),
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


def regions_apart(landscape: Landscape, threshold: float) -> dict[str, tuple[Spread, Spread]]:
    """Return how far apart the centres of good regions are, for each environment with scales."""
    found = regions(landscape, threshold)
    out = {}
    for name in dict.fromkeys(each.environment for each in found):
        mine = [each for each in found if each.environment == name]
        if len(mine) > 1:
            gaps = np.ptp([(each.alpha[1], each.lam[1]) for each in mine], axis=0)
            alone = np.ptp([each.alone for each in mine], axis=0)  # NaN if a scale has no good cell
            out[name] = (Spread.of(gaps[0], alone[:, 0]), Spread.of(gaps[1], alone[:, 1]))
    return out


def held_out_solved(
    runs: Float[np.ndarray, "cells task seed"], threshold: float
) -> Float[np.ndarray, " task"] | None:
    """Return for each task how often the one best setting solves it, on seeds not used to choose.

    The setting is the one that solves most tasks on half of the seeds; of several, the one with
    the best mean score.
    """
    if runs.shape[-1] < 2:
        return None
    out = []
    for chosen, judged in _halves(runs):
        first = environment_scores(chosen)
        solved = (first >= threshold).mean(axis=1)
        best = np.lexsort((np.nan_to_num(first).mean(axis=1), solved))[-1]
        out.append(environment_scores(judged)[best] >= threshold)
    return np.asarray(np.mean(out, axis=0))


def held_out_top(runs: Float[np.ndarray, "cells task seed"], share: float) -> Spread:
    """Return the mean score of the best share of the cells, on seeds not used to choose them."""
    if not len(runs) or runs.shape[-1] < 2:
        return Spread(math.nan, math.nan, math.nan)
    count = top_count(len(runs), share)
    out = np.array(
        [
            cell_scores(judged)[np.argsort(-cell_scores(chosen), kind="stable")[:count]].mean()
            for chosen, judged in _halves(runs)
        ]
    )
    return Spread.of(out.mean(), out)


def _halves(runs: Float[np.ndarray, "cells task seed"]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the runs of half of the seeds and those of the others, both ways round."""
    even, odd = runs[..., ::2], runs[..., 1::2]
    return [(even, odd), (odd, even)]


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
            each.top_1.text(3),
            each.top_10.text(3),
        ]
        gaps = [each.apart.get(name) for name in names]
        cells += [
            "-"
            if gap is None
            else "none good"
            if math.isnan(gap[0].value)
            else f"{gap[0].text(1)}, {gap[1].text(1)}"
            for gap in gaps
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
            f"{counted(gained, 'task')}, worse on {lost}: {_supported(gained, lost)}."
            + _moves({"reward": plain, **mine})
            + _learned(mine)
        )
    return "\n".join(lines)


def _moves(schemes: dict[str, Answer]) -> str:
    """Say how far the good regions of one environment move with its reward scale, in each unit."""
    parts = []
    for units, each in schemes.items():
        gaps = np.array([[axis.value for axis in pair] for pair in each.apart.values()])
        if "," not in units and len(gaps) and np.isfinite(gaps).all():
            alpha, lam = gaps.mean(axis=0)
            parts.append(f"{alpha:.1f} and {lam:.1f} in `{units}`")
    if not parts:
        return ""
    return (
        " Between the reward scales of one environment the good alphas and lambdas move, in "
        f"decades on average, by {', '.join(parts)}."
    )


def _learned(schemes: dict[str, Answer]) -> str:
    """Say what a learned lambda costs or gives, beside a constant one in the same unit."""
    return "".join(
        f" With a learned lambda the best 10% of cells score {each.top_10.value:.3f}, with a "
        f"constant one {schemes[plain].top_10.value:.3f}."
        for units, each in schemes.items()
        if (plain := units.split(",")[0]) != units and plain in schemes
    )


def _supported(gained: int, lost: int) -> str:
    """Say what a sign test over the tasks makes of such a count."""
    chance = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    known = "the difference is supported" if chance <= 0.05 else "no difference is supported"
    return f"{known} (sign test, p = {chance:.2f})"


def _changes(before: dict[str, float], after: dict[str, float]) -> tuple[int, int]:
    """Return on how many tasks a share is larger after, and on how many smaller."""
    gaps = [after[name] - before[name] for name in before]
    return sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)


def region_table(found: Sequence[Region]) -> str:
    """Write where the good cells are as Markdown: the mean place, and by each seed alone."""

    def place(span: tuple[float, float, float], alone: Float[np.ndarray, " seeds"]) -> str:
        if math.isnan(span[1]):
            return "none good"
        value, low, high = (float(f"{10**each:.2g}") for each in Spread.of(span[1], alone))
        return f"{value:g} [{low:g}, {high:g}]"

    head = ["pair", "unit", "task", "maximum return", "good cells", "alpha", "lambda or v"]
    rows = [
        [
            each.pair,
            each.units,
            each.label,
            f"{each.max_return:g}",
            f"{each.share:.0%}",
            place(each.alpha, each.alone[:, 0]),
            place(each.lam, each.alone[:, 1]),
        ]
        for each in found
    ]
    return markdown_table(head, rows).rstrip()
