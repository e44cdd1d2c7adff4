"""What a search finds with a budget of runs, on real tasks: it trains.

    python benchmarks/tune.py [--budget 32] [--seeds 3] [--only NAME] [--methods tune,random,...]
    python benchmarks/tune.py --tutorial            # the tutorial's task with ten seeds

Thirteen tasks: the paper's four environments at two lengths, three reward scales of CartPole,
MountainCar, a MinAtar game and the tutorial's. Each method has the same budget, of which a part
chooses and checks as in `mirrorax tune`; the score is that of fresh seeds. "Runs" is how many runs
of the search were made when its choice first was a cell whose fresh score is 95% of the best that
any method has found on the task; it is read off the trials in the output afterwards.

- tune: `mirrorax.tune`
- random: cells at random from the same range; the best by the surrogate, then the same check
- tpe: the same with Optuna's sampler
- default: the default cell alone

One JSON line per search goes to standard output, and a table of means at the end. With budget 32
and three seeds it takes some hours on two cores. Published numbers are in docs/tuning.md.
`tune_simulated.py` compares the same methods on published grids, in minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from mirrorax import plugins
from mirrorax.store.store import Store
from mirrorax.tuning import tune as tuning
from mirrorax.tuning.engine import SearchRuns
from mirrorax.tuning.propose import (
    CHECK_SEEDS,
    CHOICE_SEEDS,
    SEED_STRIDE,
    Cell,
    Found,
    Run,
    Specification,
    Tried,
    best_cells,
)
from mirrorax.tuning.space import plan_budget

SHORT, LONG = 100_000, 1_000_000
TASKS = {
    **{f"{name}, short": (name, {"steps": SHORT}) for name in ("CartPole", "Acrobot", "Catch")},
    "DeepSea, short": ("DeepSea", {"steps": SHORT}),
    **{f"{name}, long": (name, {"steps": LONG}) for name in ("CartPole", "Acrobot", "Catch")},
    "DeepSea, long": ("DeepSea", {"steps": LONG}),
    "CartPole x 0.01": ("CartPole", {"steps": SHORT, "reward_scale": 0.01}),
    "CartPole x 2": ("CartPole", {"steps": SHORT, "reward_scale": 2.0}),
    "MountainCar": ("MountainCar-v0", {"steps": SHORT}),
    "Breakout": ("Breakout-MinAtar", {"steps": SHORT}),
    "Bridge": ("Bridge", {"steps": 16_384, "potential": "burg"}),
}


def load_tutorial() -> None:
    """Load the task of docs/tutorial.md as a plugin."""
    text = (Path(__file__).parent.parent / "docs" / "tutorial.md").read_text()
    code = text.split("```python\n# mine.py", 1)[1].split("```", 1)[0]
    folder = Path(tempfile.mkdtemp(prefix="mirrorax-bench-"))
    (folder / "mine.py").write_text("# mine.py" + code)
    sys.path.insert(0, str(folder))
    plugins.load_all(["mine"])


def with_cells(env: str, fields: dict, method: str, budget: int, seed: int) -> dict:
    """Search with another way to choose cells; choose and check as `tune` does."""
    task = tuning.prepare(env, budget=budget, seed=seed, **fields)
    plan = plan_budget(budget, 2 * len(task.ranges))
    spec = Specification(task.ranges, plan, seed=seed)
    _, bounds = tuning._random_play(task.arms[0])
    base = seed * SEED_STRIDE
    with tempfile.TemporaryDirectory() as place, Store(place) as store:
        runs = SearchRuns(
            store,
            lambda logs: tuning._engine(None, logs),
            task.arms,
            task.names,
            task.fixed,
            normalise=bounds is not None,
        )
        try:
            if method == "default":
                winner, found = task.starts[0], Found(ranges=task.ranges)
            else:
                found = draw(task, spec, runs, method, seed)
                cells = best_cells(spec, found, plan.candidates)
                seeds = range(plan.candidate_seeds)
                more = [Run(c, base + CHOICE_SEEDS + i) for c in cells for i in seeds]
                means = np.reshape(runs.scores(more), (len(cells), -1)).mean(axis=1)
                winner = cells[int(np.nanargmax(means))]
            fresh = [Run(winner, base + CHECK_SEEDS + i) for i in range(plan.check_seeds)]
            scores = runs.scores(fresh)
        finally:
            runs.close()
    trials = [[*item.run.cell.values, item.score] for item in found.tried]
    return {"cell": winner.values, "mean": float(np.nanmean(scores)), "trials": trials}


def draw(task, spec: Specification, runs: SearchRuns, method: str, seed: int) -> Found:
    found = Found(ranges=task.ranges)
    rng = np.random.default_rng([11, seed])
    study = None
    if method == "tpe":
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        study = optuna.create_study(direction="maximize", sampler=sampler)
    number = 0
    while number < spec.budget.search:
        batch, told = [], []
        for _ in range(min(4, spec.budget.search - number)):
            if study is None:
                ends = [(r.ends, r) for r in task.ranges]
                values = [r.value(a + rng.random() * (b - a)) for (a, b), r in ends]
            else:
                trial = study.ask()
                told.append(trial)
                values = [trial.suggest_float(r.name, r.low, r.high, log=True) for r in task.ranges]
            batch.append(Run(Cell(0, tuple(values)), seed * SEED_STRIDE + number))
            number += 1
        scores = runs.scores(batch)
        for trial, score in zip(told, scores, strict=False):
            study.tell(trial, score if np.isfinite(score) else -1e9)
        found.batches.append([Tried(r, s) for r, s in zip(batch, scores, strict=True)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", help="tasks whose name has this in it")
    parser.add_argument("--methods", default="tune,random,tpe,default")
    parser.add_argument("--tutorial", action="store_true", help="the tutorial's task, ten seeds")
    args = parser.parse_args()
    load_tutorial()
    if args.tutorial:
        args.only, args.seeds, args.methods = "Bridge", 10, "tune"
    rows: dict[str, dict[str, list[float]]] = {}
    for name, (env, fields) in TASKS.items():
        if args.only and args.only not in name:
            continue
        for method in args.methods.split(","):
            for seed in range(args.seeds):
                if method == "tune":
                    result = tuning.tune(env, budget=args.budget, seed=seed, **fields)
                    trials = [[*item.run.cell.values, item.score] for item in result.found.tried]
                    row = {"cell": result.best.cell.values, "mean": result.mean, "trials": trials}
                else:
                    row = with_cells(env, fields, method, args.budget, seed)
                print(json.dumps({"task": name, "method": method, "seed": seed, **row}), flush=True)
                rows.setdefault(name, {}).setdefault(method, []).append(row["mean"])
    methods = args.methods.split(",")
    print("| task | " + " | ".join(methods) + " |")
    print("|---|" + "---:|" * len(methods))
    for name, by_method in rows.items():
        cells = [f"{np.mean(v):.3f} ({np.min(v):.3f})" for v in by_method.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
