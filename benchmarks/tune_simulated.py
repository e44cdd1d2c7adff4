"""How many runs searches need, on published grids: no training.

    python benchmarks/tune_simulated.py RESULTS... [--repeats 20] [--budget 32] [--share 0.95]

A run at a cell is a draw from the runs that were made at the nearest measured cell of a published
grid. One task is one pair in one environment at one reward scale. After every run or batch a
search's choice is looked up: the mean of all published runs at that cell. Reported per task and in
all: the score of the last choice, and the runs needed until the choice first reaches a share
of the task's best cell (twice the budget where it never does).

- tune: `mirrorax.tuning.propose`, its search alone (no further seeds)
- random: cells drawn at random from the same range; the choice is that of `tune` from the same runs
- random, best: the choice is the best single run, as most people would choose
- tpe: Optuna's sampler, one run at a time; the choice is that of `tune` from its runs
- default: the one cell of the default temperatures
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass

import numpy as np

from mirrorax.analysis import landscapes
from mirrorax.analysis.scores import environment_scores
from mirrorax.runs.settings import RunValues
from mirrorax.store import read_results
from mirrorax.tuning.propose import (
    Cell,
    Found,
    Range,
    Run,
    Specification,
    Tried,
    best_cells,
    search,
)
from mirrorax.tuning.space import plan_budget


@dataclass(frozen=True, eq=False)
class Task:
    """One map of runs."""

    name: str
    places: np.ndarray  # of the measured cells, in decades
    scores: np.ndarray
    runs: list[np.ndarray]
    ranges: tuple[Range, ...]

    def nearest(self, cell: Cell) -> int:
        at = np.log10(cell.values)
        return int(np.argmin(((self.places - at) ** 2).sum(axis=1)))

    def draw(self, run: Run, repeat: int) -> float:
        own = self.runs[self.nearest(run.cell)]
        digits = [round(1e4 * (10 + np.log10(v))) for v in run.cell.values]
        return float(own[np.random.default_rng([repeat, run.seed, *digits]).integers(len(own))])

    @property
    def default(self) -> Cell:
        values = RunValues()
        ends = [(r.low, r.high) for r in self.ranges]
        wanted = (values.alpha, values.lam)
        return Cell(0, tuple(min(max(w, a), b) for w, (a, b) in zip(wanted, ends, strict=True)))


def tasks(table) -> list[Task]:
    out = []
    for item in landscapes(table):
        schedules = (item.settings.get("alpha_schedule"), item.settings.get("lam_schedule"))
        if item.axis != "alpha" or set(schedules) - {None, "constant"}:
            continue
        runs = item.runs()
        for e, environment in enumerate(item.environments):
            scores = environment_scores(runs)[..., e]
            held = np.isfinite(scores) & item.cells("positive")
            cells = np.argwhere(held)
            alphas, lams = item.alphas[cells[:, 0]], item.lams[cells[:, 1]]
            if len(cells) < 36 or len(set(alphas)) < 5 or len(set(lams)) < 5:
                continue
            own = [runs[i, j, e][np.isfinite(runs[i, j, e])] for i, j in cells]
            out.append(
                Task(
                    f"{item.label} {environment.label}",
                    np.log10(np.stack([alphas, lams], axis=1)),
                    scores[held],
                    own,
                    (
                        Range("alpha", float(alphas.min()), float(alphas.max())),
                        Range("lam", float(lams.min()), float(lams.max())),
                    ),
                )
            )
    return out


class Trace:
    """The true score of a search's choice after each of its runs."""

    def __init__(self, task: Task, threshold: float) -> None:
        self.task, self.threshold = task, threshold
        self.needed: int | None = None
        self.last = np.nan

    def look(self, spent: int, cell: Cell) -> None:
        self.last = float(self.task.scores[self.task.nearest(cell)])
        if self.last < self.threshold:
            self.needed = None
        elif self.needed is None:
            self.needed = spent


def tune(task: Task, budget: int, repeat: int, trace: Trace) -> None:
    spec = Specification(
        task.ranges, plan_budget(budget), starts=(task.default,), seed=repeat, random=0.0, best=1.0
    )
    found = Found()
    proposals = search(spec, found)
    batch = next(proposals)
    while len(found.tried) < spec.budget.search:
        batch = proposals.send([task.draw(run, repeat) for run in batch])
        trace.look(len(found.tried), best_cells(spec, found, 1)[0])


def one_by_one(task, budget, repeat, trace, ask, choose) -> None:
    spec = Specification(task.ranges, plan_budget(budget), seed=repeat)
    found = Found(ranges=task.ranges)
    for number in range(spec.budget.search):
        cell, tell = ask()
        score = task.draw(Run(cell, number), repeat)
        tell(score)
        found.batches.append([Tried(Run(cell, number), score)])
        if number >= 3:
            trace.look(number + 1, choose(spec, found))


def at_random(task: Task, rng: np.random.Generator):
    def ask():
        unit = rng.random(len(task.ranges))
        values = [
            r.value(r.ends[0] + u * (r.ends[1] - r.ends[0]))
            for r, u in zip(task.ranges, unit, strict=True)
        ]
        return Cell(0, tuple(values)), lambda score: None

    return ask


def with_tpe(task: Task, seed: int):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)

    def ask():
        trial = study.ask()
        values = [trial.suggest_float(r.name, r.low, r.high, log=True) for r in task.ranges]
        return Cell(0, tuple(values)), lambda score: study.tell(trial, score)

    return ask


def by_surrogate(spec, found):
    return best_cells(spec, found, 1)[0]


def by_best_run(spec, found):
    return max(found.tried, key=lambda item: item.score).run.cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--budget", type=int, default=32)
    parser.add_argument("--share", type=float, default=0.95)
    parser.add_argument("--methods", default="tune,random,random best,tpe,default")
    parser.add_argument("--every", type=int, default=1, help="take every n-th task")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    methods = args.methods.split(",")
    print("task | best | " + " | ".join(f"{m}: score, runs" for m in methods), flush=True)
    totals: dict[str, list[tuple[float, float, float]]] = {m: [] for m in methods}
    for place in args.results:
        for task in tasks(read_results(place, "results"))[:: args.every]:
            most = float(task.scores.max())
            threshold = args.share * most
            cells = []
            for method in methods:
                scores, needed = [], []
                for repeat in range(args.repeats):
                    trace = Trace(task, threshold)
                    match method:
                        case "tune":
                            tune(task, args.budget, repeat, trace)
                        case "random" | "random best":
                            rng = np.random.default_rng([9, repeat])
                            choose = by_surrogate if method == "random" else by_best_run
                            ask = at_random(task, rng)
                            one_by_one(task, args.budget, repeat, trace, ask, choose)
                        case "tpe":
                            ask = with_tpe(task, repeat)
                            one_by_one(task, args.budget, repeat, trace, ask, by_surrogate)
                        case "default":
                            trace.look(1, task.default)
                    scores.append(trace.last)
                    needed.append(2 * args.budget if trace.needed is None else trace.needed)
                mean = float(np.mean(scores))
                error = float(np.std(scores) / np.sqrt(args.repeats))
                totals[method].append((mean / max(most, 1e-9), float(np.median(needed)), error))
                cells.append(f"{mean:.3f}, {np.median(needed):.0f}")
            print(f"{task.name} | {most:.3f} | " + " | ".join(cells), flush=True)
    for method, rows in totals.items():
        share, runs, _ = np.mean(rows, axis=0)
        print(
            f"{method}: {share:.3f} of the best on average over {len(rows)} tasks, "
            f"{runs:.1f} runs needed in the mean, "
            f"{np.median([r for _, r, _ in rows]):.0f} in the median task"
        )
    if "tune" in totals and "random" in totals:
        pairs = zip(totals["tune"], totals["random"], strict=True)
        worse = [a for a, b in pairs if a[0] < b[0] - 2 * np.hypot(a[2], b[2]) - 0.01]
        print(f"tune is worse than random beyond noise on {len(worse)} tasks")


if __name__ == "__main__":
    main()
