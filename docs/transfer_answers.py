"""What the results of the study say of each unit of temperatures: the answers of docs/transfer.md.

    python docs/transfer_answers.py results/transfer

prints them for a folder with results of `results/transfer/transfer.toml`.

(a) How far apart the good regions of several reward scales of one environment are.
(b) What share of tasks (environment and reward scale) one single setting solves: it is chosen on
    half of the seeds and judged on the other half, both ways round.
(c) Rbst over all tasks.
(d) The mean score of the best 1% and 10% of cells, chosen and judged on other seeds like (b).
(e) What the setting that all seeds of the study choose scores with further seeds.

Two seeds give no interval. A `Spread` has the values by each seed, or half of the seeds, alone.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.analysis.estimates import Estimate, robustness
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.scores import cell_scores, environment_scores, mean_interval, top_count
from mirrorax.errors import UserError
from mirrorax.formatting import counted, markdown_table
from mirrorax.runs.results import Results
from mirrorax.runs.scoring import ScoredEnvironment
from mirrorax.store import read_results

#: seeds of the study; those from here on are further ones, of the chosen settings
SEEDS = 2
#: the score from which on a task is solved, and a cell good
THRESHOLD = 0.9


class Spread(NamedTuple):
    """A number, and the least and the largest of its parts; NaN if there are none.

    The parts are the values by some seeds alone, or the places of which it is the mean.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, parts: Float[np.ndarray, " parts"], value: float | None = None) -> Spread:
        """Return the spread of a value, by default the mean, and its parts."""
        known = parts[np.isfinite(parts)]
        if value is None:
            value = parts.mean() if parts.size else math.nan
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
    #: task -> whether one setting solves it, held out: 0, 0.5 or 1, for the two halves of the
    #: seeds; empty with a single seed
    by_task: dict[str, float]
    #: None where no cell has runs in every task
    rbst: Estimate | None
    top_1: Spread
    top_10: Spread
    tasks: int
    #: the share of the grid that has runs in every task
    complete: float

    @property
    def solved(self) -> float | None:
        """The share of tasks that one setting solves."""
        return float(np.mean(list(self.by_task.values()))) if self.by_task else None


def study_landscapes(results: Results) -> tuple[Landscape, ...]:
    """Return a landscape for each scheme; CartPole is trained longer than the other tasks."""
    return _landscapes(results, results.numbers("seed") < SEEDS)


def _landscapes(results: Results, which: Bool[np.ndarray, " runs"]) -> tuple[Landscape, ...]:
    return landscapes(results.take(np.flatnonzero(which)), across=("steps",))


class Further(NamedTuple):
    """The setting that the study chooses for one scheme, with further seeds."""

    label: str
    units: str
    alpha: float
    lam: float
    #: task -> the score of each seed
    scores: dict[str, Float[np.ndarray, " seeds"]]

    def means(self) -> Float[np.ndarray, " tasks"]:
        """Return the mean score of each task."""
        return np.array([scores.mean() for scores in self.scores.values()])


def further(results: Results) -> list[Further]:
    """Return what further seeds of the chosen settings score, where all tasks have them."""
    which = results.numbers("seed") >= SEEDS
    if not which.any():
        return []
    study = {(pair_name(each), unit_name(each)): each for each in study_landscapes(results)}
    out = []
    for item in _landscapes(results, which):
        scheme = pair_name(item), unit_name(item)
        chosen = best_setting(study[scheme]) if scheme in study else None
        if chosen is None or chosen[0] not in item.alphas or chosen[1] not in item.lams:
            continue
        i, j = item.alphas.tolist().index(chosen[0]), item.lams.tolist().index(chosen[1])
        tasks, scores = [e.label for e in item.environments], item.runs()[i, j]
        if np.isfinite(scores).all():
            out.append(Further(*scheme, *chosen, dict(zip(tasks, scores, strict=True))))
    return out


def best_setting(landscape: Landscape) -> tuple[float, float] | None:
    """Return alpha and lambda (or v) of the setting that solves the most tasks, by all seeds.

    None while no setting has runs in every task.
    """
    runs = landscape.runs()
    cells = np.argwhere(landscape.cells("positive") & np.isfinite(cell_scores(runs)))
    if not len(cells):
        return None
    i, j = cells[_best(runs[tuple(cells.T)])]
    return float(landscape.alphas[i]), float(landscape.lams[j])


def answer(landscape: Landscape) -> Answer:
    """Return the answers for one landscape of the study, as far as its runs go."""
    runs = landscape.runs()
    positive = landscape.cells("positive")
    mask = positive & np.isfinite(cell_scores(runs))
    tasks = [environment.label for environment in landscape.environments]
    shares = held_out_solved(runs[mask]) if mask.any() else None
    return Answer(
        label=pair_name(landscape),
        units=unit_name(landscape),
        apart=regions_apart(landscape),
        by_task={} if shares is None else dict(zip(tasks, shares.tolist(), strict=True)),
        rbst=robustness(runs, [THRESHOLD], cells=mask)[0] if mask.any() else None,
        top_1=held_out_top(runs[mask], 0.01),
        top_10=held_out_top(runs[mask], 0.1),
        tasks=len(tasks),
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
    """The good cells of one task, and the mean of their places, in decades."""

    pair: str
    units: str
    task: ScoredEnvironment
    share: float  # of the cells with runs, that are good
    #: the mean of alpha and of lambda or v; NaN without a good cell
    alpha: Spread
    lam: Spread
    #: the mean places of alpha and of lambda or v, by the runs of each seed alone
    alone: Float[np.ndarray, "seeds 2"]


def regions(landscape: Landscape) -> list[Region]:
    """Return where the good cells of each task are."""
    runs = landscape.runs()
    out = []
    for e, task in enumerate(landscape.environments):
        whole = environment_scores(runs)[..., e]
        seeds = [_places(landscape, runs[..., e, s]) for s in range(runs.shape[-1])]
        measured = landscape.cells("positive") & np.isfinite(whole)
        alpha, lam = _places(landscape, whole)
        out.append(
            Region(
                pair=pair_name(landscape),
                units=unit_name(landscape),
                task=task,
                share=float((measured & (whole >= THRESHOLD)).sum() / max(measured.sum(), 1)),
                alpha=alpha,
                lam=lam,
                alone=np.array([[axis.value for axis in each] for each in seeds]),
            )
        )
    return sorted(out, key=lambda each: (each.task.name, each.task.return_max))


def _places(landscape: Landscape, scores: Float[np.ndarray, "alpha lam"]) -> tuple[Spread, Spread]:
    """Return the mean of the alphas and lambdas of the good cells, in decades."""
    i, j = np.nonzero(landscape.cells("positive") & (scores >= THRESHOLD))
    return Spread.of(np.log10(landscape.alphas[i])), Spread.of(np.log10(landscape.lams[j]))


def regions_apart(landscape: Landscape) -> dict[str, tuple[Spread, Spread]]:
    """Return how far apart the centres of good regions are, for each environment with scales."""
    by_name: dict[str, list[Region]] = {}
    for each in regions(landscape):
        by_name.setdefault(each.task.name, []).append(each)
    out = {}
    for name, mine in by_name.items():
        if len(mine) > 1:
            gaps = np.ptp([(each.alpha.value, each.lam.value) for each in mine], axis=0)
            alone = np.ptp([each.alone for each in mine], axis=0)  # NaN if a scale has no good cell
            out[name] = (Spread.of(alone[:, 0], gaps[0]), Spread.of(alone[:, 1], gaps[1]))
    return out


def held_out_solved(
    runs: Float[np.ndarray, "cells task seed"],
) -> Float[np.ndarray, " task"] | None:
    """Return for each task how often the one best setting solves it, on seeds not used to choose.

    The setting is chosen on half of the seeds.
    """
    if runs.shape[-1] < 2:
        return None
    out = []
    for chosen, judged in _halves(runs):
        out.append(environment_scores(judged)[_best(chosen)] >= THRESHOLD)
    return np.asarray(np.mean(out, axis=0))


def _best(runs: Float[np.ndarray, "cells task seed"]) -> int:
    """Return the cell that solves the most tasks; of several, the one with the best mean score."""
    scores = environment_scores(runs)
    solved = (scores >= THRESHOLD).mean(axis=1)
    return int(np.lexsort((np.nan_to_num(scores).mean(axis=1), solved))[-1])


def held_out_top(runs: Float[np.ndarray, "cells task seed"], share: float) -> Spread:
    """Return the mean score of the best share of the cells, on seeds not used to choose them."""
    if not len(runs) or runs.shape[-1] < 2:
        return Spread.of(np.zeros(0))
    count = top_count(len(runs), share)
    out = []
    for chosen, judged in _halves(runs):
        best = np.argsort(-cell_scores(chosen), kind="stable")[:count]
        out.append(cell_scores(judged)[best].mean())
    return Spread.of(np.array(out))


def _halves(runs: Float[np.ndarray, "cells task seed"]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the runs of half of the seeds and those of the others, both ways round."""
    even, odd = runs[..., ::2], runs[..., 1::2]
    return [(even, odd), (odd, even)]


def _interval(shares: Sequence[float]) -> tuple[float, float]:
    """Return Wilson's 95% interval of the mean share over tasks.

    Tasks are few and are not drawn at random: it says how much hangs on single tasks.
    """
    n, p, z = len(shares), float(np.mean(shares)), 1.96
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
        if each.by_task:
            low, high = _interval(list(each.by_task.values()))
            solved = f"{each.solved:.2f} of {each.tasks} [{low:.2f}, {high:.2f}]"
        if each.rbst is not None:
            interval = each.rbst.interval()
            ends = "" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]"
            rbst = f"{each.rbst.value:.3f}{ends}"
        cells = [each.label, each.units, f"{each.complete:.0%} of {counted(each.tasks, 'task')}"]
        cells += [solved, rbst, each.top_1.text(3), each.top_10.text(3)]
        cells += [_gap_text(each.apart.get(name)) for name in names]
        rows.append(cells)
    return markdown_table(head, rows).rstrip()


def _gap_text(gap: tuple[Spread, Spread] | None) -> str:
    if gap is None:
        return "-"
    alpha, lam = gap
    return "none good" if math.isnan(alpha.value) else f"{alpha.text(1)}, {lam.text(1)}"


def further_table(items: Sequence[Further]) -> str:
    """Write what the chosen settings score with further seeds as Markdown."""
    head = ["pair", "unit", "alpha", "lambda or v", "tasks solved", "mean score"]
    head += ["less that in `reward`, 95% over tasks", "lowest task"]
    rows = []
    for each in items:
        means = each.means()
        lowest = int(means.argmin())
        solved = f"{(means >= THRESHOLD).sum()} of {len(means)}"
        setting = f"{each.alpha:g}", f"{each.lam:g}"
        low = f"{list(each.scores)[lowest]}: {means[lowest]:.3f}"
        gap = change_text(each, items)
        rows.append([each.label, each.units, *setting, solved, f"{means.mean():.3f}", gap, low])
    return markdown_table(head, rows).rstrip()


def change_text(item: Further, items: Sequence[Further]) -> str:
    """Return the mean change over tasks from the same pair in units of the reward, as text."""
    plain = [each for each in items if (each.label, each.units) == (item.label, "reward")]
    if item.units == "reward" or not plain:
        return ""
    change = item.means() - plain[0].means()
    interval = mean_interval(change, None)
    ends = "" if interval is None else f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    return f"{change.mean():+.3f}{ends}"


def region_table(found: Sequence[Region]) -> str:
    """Write where the good cells are as Markdown: the mean place, and by each seed alone."""

    def place(mean: float, alone: Float[np.ndarray, " seeds"]) -> str:
        if math.isnan(mean):
            return "none good"
        value, low, high = (float(f"{10**each:.2g}") for each in Spread.of(alone, mean))
        return f"{value:g} [{low:g}, {high:g}]"

    head = ["pair", "unit", "task", "maximum return", "good cells", "alpha", "lambda or v"]
    rows = [
        [
            each.pair,
            each.units,
            each.task.label,
            f"{each.task.return_max:g}",
            f"{each.share:.0%}",
            place(each.alpha.value, each.alone[:, 0]),
            place(each.lam.value, each.alone[:, 1]),
        ]
        for each in found
    ]
    return markdown_table(head, rows).rstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the answers."""
    parser = argparse.ArgumentParser(description="Print what the results of the study answer.")
    parser.add_argument("results", help="the store of the study, or its exports")
    args = parser.parse_args(argv)
    try:
        results = read_results(args.results, "results")
        items = study_landscapes(results)
        print(table([answer(item) for item in items]))
        print()
        if more := further(results):
            print(further_table(more))
            print()
        print(region_table([each for item in items for each in regions(item)]))
    except UserError as error:
        print(f"mirrorax: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
