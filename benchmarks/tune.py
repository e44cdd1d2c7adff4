"""What a search finds with a budget of runs: on real tasks, which it trains, and on simulated ones.

    python benchmarks/tune.py run STORES [--budget 32] [--seeds 2] [--only NAME] [--methods ...]
    python benchmarks/tune.py run STORES --only Bridge --methods tune --seeds 10
    python benchmarks/tune.py lengths STORES
    python benchmarks/tune.py surrogate results [--searches 8]
    python benchmarks/tune.py table

`run` trains. It prints a line of JSON for each search as it ends, appends it to
results/tune/searches.jsonl, and skips what stands there. `lengths` compares the same cells at both
lengths: does a short training tell which cells to keep? `surrogate` simulates searches on published
runs (see tune_landscapes.py) and trains nothing. `table` writes the tables of docs/tuning.md, which
`surrogate` does, too.

Every method has the same runs to search with, and chooses with the same number of further seeds as
`mirrorax tune`:

- tune: the search of `mirrorax tune`
- random: cells at random from the same range, in `ORDERS` orders of one pool
- tpe: cells from Optuna's sampler, four at a time
- default: the default cell, without a search

A cell's value is the mean of `HELD` seeds that no search uses and all methods share. The score of a
search is the value of its choice. "Runs" is the number of runs after which the choice is for the
first time a cell with 95% of the best value that is known of the task, looked at after 1, 2, 3, 4,
6, 8, 11, ... runs; the choice from some runs is the same for all methods (`best_cells`).

Runs are functions of their specification, so each task has one store for all methods, seeds and
budgets: nothing is trained twice, and `run` goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.stats
import tune_landscapes

from mirrorax import plugins
from mirrorax.analysis.landscape import landscapes
from mirrorax.store import read_results
from mirrorax.store.store import Store
from mirrorax.tuning.propose import Record, Trial, best_cells, choose, explore
from mirrorax.tuning.space import Cell, Run, Specification
from mirrorax.tuning.task import prepare
from mirrorax.tuning.tune import SearchRuns, with_random_play

FOUR = ("CartPole", "Acrobot", "Catch", "DeepSea")
SHORT, LONG = (
    {"preset": "on_policy", "hidden": (32, 32), "steps": steps} for steps in (20_480, 81_920)
)
#: The paper's environments at two lengths, three reward scales, the tutorial's task, the paper's
#: environments with the default preset, and two others.
TASKS: dict[str, tuple[str, dict]] = {
    "Bridge": ("Bridge", {"steps": 16_384, "potential": "burg"}),
    **{f"{name}, short": (name, SHORT) for name in FOUR},
    **{f"{name}, long": (name, LONG) for name in FOUR},
    **{f"CartPole x {c:g}": ("CartPole", {**LONG, "reward_scale": c}) for c in (0.01, 0.1, 2.0)},
    **{f"{name}, off-policy": (name, {"steps": 25_600}) for name in ("Acrobot", "DeepSea")},
    "Catch, off-policy": ("Catch", {"steps": 51_200}),
}
METHODS = ("default", "random", "tune", "tpe")
#: Seeds of the values of cells and of the pool; those of searches are elsewhere.
HELD, HELD_SEEDS, POOL_SEEDS = 12, 8_000_000, 9_000_000
ORDERS = 4
#: Cells of the pool: at least a search of 128 runs.
POOL = 128
SEARCHES = Path("results/tune/searches.jsonl")
SIMULATIONS = Path("results/tune/simulated.jsonl")
PAGE = Path("docs/tuning.md")
LOOKS = (1, 2, 3, 4, 6, 8, 11, 14, 19, 24, 32, 48, 64, 96)


def load_tutorial() -> None:
    """Load the task of docs/tutorial.md as a plugin, here and in workers."""
    text = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
    code = text.split("```python\n# mine.py", 1)[1].split("```", 1)[0]
    folder = tempfile.mkdtemp(prefix="mirrorax-bench-")
    (Path(folder) / "mine.py").write_text("# mine.py" + code)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    plugins.load_all(["mine"])


def folder(args: argparse.Namespace, name: str) -> Path:
    """Return the store of a task."""
    return Path(args.stores) / name.replace(" ", "_").replace(",", "")


def drive(proposals, score):
    """Send scores to a generator of batches until it ends; return its value."""
    try:
        batch = next(proposals)
        while True:
            batch = proposals.send(score(batch))
    except StopIteration as end:
        return end.value


def random_cell(spec: Specification, number: int) -> Cell:
    """Return a cell of the pool: the same place in the range for every task."""
    rng = np.random.default_rng([11, number])
    return Cell(0, tuple(r.at(rng.random()) for r in spec.ranges))


def at_random(spec: Specification, score, pool: int) -> list[Trial]:
    """Search at random: in cells of a pool, or in cells of its own if there is none."""
    count = spec.budget.search
    order = np.random.default_rng([13, spec.seed]).permutation(pool or count)[:count]
    order += 0 if pool else 1_000 * (spec.seed + 1)
    runs = [Run(random_cell(spec, int(i)), POOL_SEEDS + int(i)) for i in order]
    return [Trial(run, value) for run, value in zip(runs, score(runs), strict=True)]


def with_tpe(spec: Specification, score) -> Iterator[Trial]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=spec.seed, multivariate=True, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for first in range(0, spec.budget.search, 4):
        trials = [study.ask() for _ in range(min(4, spec.budget.search - first))]
        runs = []
        for number, trial in enumerate(trials, first):
            values = [trial.suggest_float(r.name, r.low, r.high, log=True) for r in spec.ranges]
            cell = Cell(
                0, tuple(r.value(r.place(v)) for r, v in zip(spec.ranges, values, strict=True))
            )
            runs.append(Run(cell, spec.seed * 10_000_000 + 3_000_000 + number))
        for trial, run, value in zip(trials, runs, score(runs), strict=True):
            study.tell(trial, value if np.isfinite(value) else -1e9)
            yield Trial(run, value)


def play(method: str, spec: Specification, score, pool: int = 0) -> dict:
    """Search with a method; return its trials, its choices on the way and the last one."""
    record = Record(ranges=spec.ranges)
    if method == "tune":
        drive(explore(spec, record), score)
    elif method == "random":
        record.batches.append(at_random(spec, score, pool))
    elif method == "tpe":
        record.batches.append(list(with_tpe(spec, score)))
    trials = record.trials
    if not trials:
        return {"choices": {1: spec.starts[0]}, "choice": spec.starts[0], "trials": 1}
    choices = {}
    for look in (*(look for look in LOOKS if look < len(trials)), len(trials)):
        seen = Record([trials[:look]], record.ranges)
        choices[look] = best_cells(spec, seen, 1)[0]
    return {"choices": choices, "choice": drive(choose(spec, record), score), "trials": len(trials)}


def read_lines(path: Path) -> list[dict]:
    """Return the lines of a file of searches, without one that was cut off."""
    out = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with suppress(json.JSONDecodeError):
            out.append(json.loads(line))
    return out


def run(args: argparse.Namespace) -> None:
    """Make the searches that are missing, and write a line for each."""
    load_tutorial()
    keys = ("task", "budget", "method", "seed", "held")
    done = {tuple(row.get(key) for key in keys) for row in read_lines(args.searches)}
    for name in args.tasks:
        orders = {"random": ORDERS, "default": 1}
        searches = [(m, s) for m in args.methods for s in range(orders.get(m, args.seeds))]
        searches = [each for each in searches if (name, args.budget, *each, HELD) not in done]
        if not searches:
            continue
        env, fields = TASKS[name]
        with Store(folder(args, name)) as store:
            spec = with_random_play(prepare(env, budget=args.budget, **fields))
            with SearchRuns(spec, store, args.workers) as runs:
                for method, seed in searches:
                    line = json.dumps(one(name, method, args.budget, seed, fields, runs, spec))
                    print(line, flush=True)
                    with args.searches.open("a", encoding="utf-8") as file:
                        file.write("\n" + line)  # after one that was cut off, too
            store.consolidate()


def one(name, method, budget, seed, fields, runs, spec) -> dict:
    """Return the line of one search."""
    own = prepare(TASKS[name][0], budget=budget, seed=seed, **fields)
    spec = replace(own, random=spec.random, best=spec.best)
    found = play(method, spec, runs.scores, POOL)
    cells = list(dict.fromkeys([*found["choices"].values(), found["choice"]]))
    held = [Run(cell, HELD_SEEDS + i) for cell in cells for i in range(HELD)]
    values = np.nan_to_num(np.reshape(runs.scores(held), (len(cells), HELD)), nan=0.0)
    worth = dict(zip(cells, values.mean(axis=1).round(5).tolist(), strict=True))
    return {
        "task": name,
        "budget": budget,
        "method": method,
        "seed": seed,
        "held": HELD,
        "random_play": round(float(spec.random or 0.0), 5),
        "cell": found["choice"].values,
        "score": worth[found["choice"]],
        "error": round(float(values[cells.index(found["choice"])].std(ddof=1) / HELD**0.5), 5),
        "looks": {str(look): worth[cell] for look, cell in found["choices"].items()},
        "searched": found["trials"],
    }


def pool_scores(place: Path) -> dict[int, float]:
    """Return the scores of the random cells that a store has, by their numbers."""
    if not place.is_dir():
        return {}
    (item,) = landscapes(read_results(place, "results"))
    runs, seeds = item.runs().ravel(), item.seeds.ravel()
    pairs = zip(seeds.tolist(), runs.tolist(), strict=True)
    return {seed - POOL_SEEDS: score for seed, score in pairs if 0 <= seed - POOL_SEEDS < 1_000_000}


def lengths(args: argparse.Namespace) -> None:
    """Write how well the scores of short runs predict those of the same cells in long ones."""
    for env in FOUR:
        known = [pool_scores(folder(args, f"{env}, {name}")) for name in ("short", "long")]
        cells = sorted(set(known[0]) & set(known[1]))
        if len(cells) < 8:
            continue
        short, long = (np.nan_to_num([each[cell] for cell in cells]) for each in known)
        kept = np.argsort(-short, kind="stable")[: len(short) // 2]  # halving keeps these
        row = {
            "lengths": env,
            "cells": len(short),
            "spearman": round(float(scipy.stats.spearmanr(short, long).statistic), 3),
            "best": round(float(long.max()), 4),
            "best_kept": round(float(long[kept].max()), 4),
            "good": int((long >= 0.95 * long.max()).sum()),
            "good_kept": int((long[kept] >= 0.95 * long.max()).sum()),
        }
        print(json.dumps(row), flush=True)


def runs_needed(row: dict, target: float) -> int:
    """Return after how many runs the choice reached a target; twice the search if never."""
    good = [int(look) for look, value in row["looks"].items() if value >= target]
    return min(good, default=2 * row["searched"])


def table(rows: list[dict], budget: int) -> list[str]:
    """Return the table of one budget as Markdown lines, and what it adds up to."""
    rows = [row for row in rows if row["budget"] == budget or row["method"] == "default"]
    rows = [row for row in rows if row["task"] != "Bridge" or row["seed"] < ORDERS]
    both = {(r["task"], r["method"]) for r in rows}
    tasks = [t for t in TASKS if {(t, "tune"), (t, "random")} <= both]
    if not tasks:
        return ["(not run yet)"]
    methods = [m for m in METHODS if any(r["method"] == m for r in rows)]
    head = ["task", "random play", "best known", *methods]
    head += [f"runs, {method}" for method in methods if method != "default"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    worse, better, ratios, below = [], [], [], 0
    for task in tasks:
        mine = {m: [r for r in rows if (r["task"], r["method"]) == (task, m)] for m in methods}
        best = max(row["score"] for some in mine.values() for row in some)
        score = {m: np.array([r["score"] for r in mine[m]]) for m in methods}
        target = best - 0.05 * abs(best)
        counts = {m: [runs_needed(r, target) for r in mine[m]] for m in methods if mine[m]}
        needed = {m: np.median(counts[m]) for m in counts}
        cells = [task, f"{mine['tune'][0]['random_play']:.3f}", f"{best:.3f}"]
        cells += [f"{score[m].mean():.3f}" if mine[m] else "" for m in methods]
        for method in methods[1:]:
            most = mine[method][0]["searched"] if mine[method] else 0
            shown = sorted(counts.get(method, []))
            cells.append(", ".join("-" if count > most else str(count) for count in shown))
        lines.append("| " + " | ".join(cells) + " |")
        gap = score["random"].mean() - score["tune"].mean()
        noise = np.hypot(*(_error(score[m], mine[m]) for m in ("tune", "random")))
        worse += [task] if gap > 2 * noise else []
        better += [task] if -gap > 2 * noise else []
        ratios.append(needed["tune"] / needed["random"])
        below += score["tune"].mean() < score["default"].mean() if mine["default"] else 0
    lines += [
        "",
        f"Of {len(tasks)} tasks `tune` is worse than random search by more than two standard "
        f"errors on {len(worse)}{_named(worse)} and better on {len(better)}{_named(better)}. In "
        f"the median task it needs {np.median(ratios):.2f} runs for each of random search; one "
        "that never gets there counts with twice its runs. Its last choice has a lower mean than "
        f"the default cell on {below}.",
    ]
    return lines


def _named(tasks: list[str]) -> str:
    return f" ({'; '.join(tasks)})" if tasks else ""


def tutorial_table(rows: list[dict]) -> list[str]:
    """Return the table of the tutorial's task, a line for each seed of `tune`."""
    lines = ["| seed | score | alpha | lam |", "|---:|---:|---:|---:|"]
    for row in rows:
        if (row["task"], row["method"], row["budget"]) == ("Bridge", "tune", 32):
            alpha, lam = row["cell"]
            lines.append(f"| {row['seed']} | {row['score']:.3f} | {alpha:g} | {lam:g} |")
    return lines


def length_table(rows: list[dict]) -> list[str]:
    """Return the table of the two lengths."""
    lines = [
        "| environment | cells | rank correlation | good | of these kept | best | best kept |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [row["lengths"], row["cells"], row["spearman"], row["good"], row["good_kept"]]
        lines.append("| " + " | ".join(map(str, [*cells, row["best"], row["best_kept"]])) + " |")
    return lines


def _error(scores: np.ndarray, rows: list[dict]) -> float:
    """Return the standard error of a mean of searches: between them, and of the held-out seeds."""
    within = np.mean([row["error"] for row in rows])
    between = scores.std(ddof=1) / len(scores) ** 0.5 if len(scores) > 1 else 0.0
    return float(np.hypot(within, between))


def write_tables(page: Path, searches: Path, simulations: Path) -> str:
    """Return the page with its tables written from the searches."""
    lines = read_lines(searches)
    rows = [row for row in lines if row.get("held") == HELD]
    parts = {f"searches {b}": table(rows, b) for b in sorted({row["budget"] for row in rows})}
    parts["tutorial"] = tutorial_table(rows)
    parts["lengths"] = length_table([row for row in lines if "lengths" in row])
    simulated = read_lines(simulations)
    for budget in sorted({row["budget"] for row in simulated}):
        parts[f"simulated {budget}"] = tune_landscapes.table(simulated, budget)
    text = page.read_text(encoding="utf-8")
    for name, content in parts.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        text = text.split(start)[0] + start + "\n".join(content) + "\n" + end + text.split(end)[1]
    return text


def simulate(args: argparse.Namespace) -> None:
    """Simulate searches on the published landscapes and write a line for each landscape."""
    rows = []
    for landscape in tune_landscapes.simulated(args.results):
        for budget, searches in ((32, args.searches), (128, max(args.searches // 4, 2))):
            for method in args.methods:
                rows.append(tune_landscapes.row(landscape, method, budget, searches, play))
                print(json.dumps(rows[-1]), flush=True)
    SIMULATIONS.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    trains = commands.add_parser("run")
    trains.add_argument("stores")
    trains.add_argument("--budget", type=int, default=32)
    trains.add_argument("--seeds", type=int, default=2, help="of tune and tpe")
    trains.add_argument("--only", nargs="+", help="tasks whose names have this in it")
    trains.add_argument("--methods", default=",".join(METHODS))
    trains.add_argument("--workers", type=int, default=2)
    trains.add_argument("--searches", type=Path, default=SEARCHES)
    compares = commands.add_parser("lengths")
    compares.add_argument("stores")
    simulates = commands.add_parser("surrogate")
    simulates.add_argument("results", type=Path)
    simulates.add_argument("--searches", type=int, default=8, help="of each method and landscape")
    simulates.add_argument("--methods", default="random,tune,tpe")
    commands.add_parser("table")
    args = parser.parse_args()
    if hasattr(args, "methods"):
        args.methods = args.methods.split(",")
    if args.command == "lengths":
        lengths(args)
    elif args.command == "run":
        args.tasks = [t for t in TASKS if not args.only or any(each in t for each in args.only)]
        run(args)
    else:
        if args.command == "surrogate":
            simulate(args)
        PAGE.write_text(write_tables(PAGE, SEARCHES, SIMULATIONS), encoding="utf-8")


if __name__ == "__main__":
    main()
