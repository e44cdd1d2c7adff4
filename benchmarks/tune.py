"""How many runs a search needs to find temperatures that reach 0.95.

    python benchmarks/tune.py RESULTS                    # a store or exports; trains nothing
    python benchmarks/tune.py RESULTS --repeats 5 --budget 64 --threshold 0.9
    python benchmarks/tune.py --train Catch --steps 100000 --budget 64

With results, a run at a cell is a draw from the runs that were made at the nearest measured cell:
many searches cost nothing. A search has seen no run of its environment before: it starts
from what the other environments suggest. After every batch its choice so far is looked up: the mean
of all runs at that cell. "Runs needed" is the budget used when that first reaches the threshold.

- tune: the search as it is, without halving, for which results without curves say nothing
- tune, blind: the same from the whole grid's range, without a suggestion
- random: cells drawn at random from the whole range, chosen from in the same way
- grid: one run in every cell of the results, then the best

With --train runs are real, and the halving is in: tune beside random search with the same budget.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import numpy as np

from mirrorax.analysis import landscapes
from mirrorax.tuning import evidence as evidences
from mirrorax.tuning.cells import best_cells
from mirrorax.tuning.evidence import Evidence, ScoreMap, gather, read_runs
from mirrorax.tuning.journal import open_journal
from mirrorax.tuning.search import Search
from mirrorax.tuning.space import Axis, log_axis, plan_budget
from mirrorax.tuning.suggestion import suggest


class Lookup:
    """Trains nothing: draws from the runs of the nearest cell that was measured."""

    updates = 1  # one rung: a run is finished at once

    def __init__(self, one: ScoreMap, runs: np.ndarray, lanes: int, repeat: int) -> None:
        self.map, self.runs, self.lanes, self.repeat = one, runs, lanes, repeat
        cells = np.argwhere(np.isfinite(one.scores))
        self._cells = cells
        self._place = np.stack(
            [np.log10(one.alphas[cells[:, 0]]), np.log10(one.lams[cells[:, 1]])], axis=1
        )

    def nearest(self, cell):
        at = np.log10([cell["alpha"], cell["lam"]])
        return tuple(self._cells[np.argmin(((self._place - at) ** 2).sum(axis=1))])

    def mean(self, cell) -> float:
        return float(self.map.scores[self.nearest(cell)])

    def start(self, cells, seeds):
        return Drawn([self._draw(c, s) for c, s in zip(cells, seeds, strict=True)])

    def _draw(self, cell, seed) -> float:
        own = self.runs[self.nearest(cell)]
        own = own[np.isfinite(own)]
        return float(own[np.random.default_rng([self.repeat, seed]).integers(len(own))])


class Drawn:
    def __init__(self, scores) -> None:
        self.scores = scores

    def train(self, until):
        return np.array(self.scores)

    def keep(self, rows):
        return Drawn([self.scores[row] for row in rows])


def needed(search: Search, axes: Sequence[Axis], lookup: Lookup, threshold: float):
    """Run a search; return the runs used when its choice was first good, and its last choice."""
    seen = {"needed": None, "last": float("nan")}

    def after(found, part):
        if part != "search":
            return
        (cell,) = best_cells(axes, found.batches, 1)
        seen["last"] = lookup.mean(cell)
        if seen["needed"] is None and seen["last"] >= threshold:
            seen["needed"] = found.spent

    search.on_batch = after
    search.run()
    return seen["needed"], seen["last"]


def whole(one: ScoreMap) -> tuple[Axis, Axis]:
    """The range of the results, without a suggestion."""
    ends = [(float(v[0]), float(v[-1])) for v in (one.alphas, one.lams)]
    return log_axis("alpha", ends[0], ends[0]), log_axis("lam", ends[1], ends[1])


def suggested(known: Evidence, one: ScoreMap):
    """Where the other environments say to start."""
    rest = tuple(m for m in known.maps if m.family != one.family)
    if not any(m.pair == one.pair and m.reward_scale == 1 for m in rest):
        return None
    found = suggest(
        "an unknown environment",
        potential=one.potential,
        drift=one.drift,
        evidence=Evidence(rest, known.settings),
    )
    axes = log_axis("alpha", found.alpha_range), log_axis("lam", found.lam_range)
    return axes, {"alpha": found.alpha, "lam": found.lam}


def one_search(lookup, axes, budget, seed, sampler, first=None) -> tuple:
    with open_journal(None) as storage:
        search = Search(
            lookup,
            axes,
            plan_budget(budget),
            storage,
            arguments={},
            seed=seed,
            sampler=sampler,
            first=first,
        )
        return needed(search, axes, lookup, lookup.threshold)


def grid_search(one: ScoreMap, runs: np.ndarray, rng, threshold: float) -> tuple[bool, int]:
    """One run in every cell; the best of them, and whether it is good on average."""
    cells = np.argwhere(np.isfinite(one.scores))
    scores = []
    for i, j in cells:
        own = runs[i, j][np.isfinite(runs[i, j])]
        scores.append(own[rng.integers(len(own))])
    best = tuple(cells[int(np.argmax(scores))])
    return bool(one.scores[best] >= threshold), len(cells)


def runs_of(table, one: ScoreMap) -> np.ndarray:
    """The scores [alpha, lam, seed] behind a map."""
    for item in landscapes(table):
        if not evidences._counts(item):
            continue
        names = [(e.name, e.reward_scale) for e in item.environments]
        pair = item.settings["potential"], item.settings["drift"]
        if pair == one.pair and (one.environment, one.reward_scale) in names:
            i = np.flatnonzero(np.isin(item.alphas, one.alphas))
            j = np.flatnonzero(np.isin(item.lams, one.lams))
            at = names.index((one.environment, one.reward_scale))
            return item.runs()[np.ix_(i, j)][:, :, at]
    raise LookupError(one.label)


def describe(found: list) -> str:
    reached = [n for n, _ in found if n is not None]
    if not reached:
        return f"0/{len(found)}"
    return f"{np.median(reached):.0f} ({len(reached)}/{len(found)})"


def describe_grid(grid: list) -> str:
    hits = sum(good for good, _ in grid)
    return f"{np.median([cost for _, cost in grid]):.0f} ({hits}/{len(grid)})"


def summarise(found: dict[str, list[dict[str, list]]]) -> None:
    """Print what each environment takes, over all pairs."""
    print("\n| environment | pairs | tune | tune, blind | random | grid |")
    print("|---|---:|---|---|---|---|")
    for name, maps in found.items():
        cells = [name, f"{len(maps)}"]
        for way in ("tune", "tune, blind", "random"):
            every = [search for rows in maps for search in rows[way]]
            cells.append(describe(every) if every else "")
        cells.append(describe_grid([search for rows in maps for search in rows["grid"]]))
        print("| " + " | ".join(cells) + " |", flush=True)


def simulate(args) -> None:
    table = read_runs(args.results)
    known = gather(table)
    print(evidences.describe(known))
    print(f"threshold {args.threshold:g}, budget {args.budget}, searches each: {args.repeats}")
    print("median runs needed (searches that got there)")
    every: dict[str, list[dict[str, list]]] = {}
    for one in (one for pair in known.pairs for one in known.of(pair)):
        if not (one.scores >= args.threshold).any():
            print(f"  {one.label} {one.pair}: no cell reaches {args.threshold:g}")
            continue
        runs = runs_of(table, one)
        rng = np.random.default_rng(0)
        start = suggested(known, one)
        rows = {"tune": [], "tune, blind": [], "random": []}
        grid = []
        for repeat in range(args.repeats):
            lookup = Lookup(one, runs, args.lanes, repeat)
            lookup.threshold = args.threshold
            if start is not None:
                axes, first = start
                rows["tune"].append(one_search(lookup, axes, args.budget, repeat, "tpe", first))
            rows["tune, blind"].append(one_search(lookup, whole(one), args.budget, repeat, "tpe"))
            rows["random"].append(one_search(lookup, whole(one), args.budget, repeat, "random"))
            grid.append(grid_search(one, runs, rng, args.threshold))
        share = np.mean(one.scores[np.isfinite(one.scores)] >= args.threshold)
        print(f"  {one.label} ({one.potential}, {one.drift}), {share:.0%} of cells good")
        for name, found in rows.items():
            if found:
                print(f"    {name:<12} {describe(found)}")
        print(f"    {'grid':<12} {describe_grid(grid)}", flush=True)
        every.setdefault(one.label, []).append({**rows, "grid": grid})
    summarise(every)


def trained(args) -> None:
    import mirrorax
    from mirrorax.tuning.lanes import LaneTrainer
    from mirrorax.tuning.tune import prepare

    more = {"steps": args.steps, "budget": args.budget, "lanes": args.lanes}
    for seed in range(args.repeats):
        found = mirrorax.tune(args.train, "entropy", "kl", seed=seed, **more)
        row = {"search": "tune", "seed": seed, "cell": found.cell, "mean": found.mean}
        print(json.dumps({**row, "interval": found.interval, "spent": found.spent}), flush=True)
        task = prepare(args.train, "entropy", "kl", seed=seed, **more)
        trainer = LaneTrainer(task.settings, task.fixed, lanes=args.lanes)
        with open_journal(None) as storage:
            search = Search(
                trainer,
                task.axes,
                plan_budget(args.budget),
                storage,
                arguments={},
                seed=seed,
                sampler="random",
            )
            # Random search as it is usually done: every run to its end.
            search.rungs = (trainer.updates,)
            other = search.run()
        row = {"search": "random", "seed": seed, "cell": other.best.cell, "mean": other.best.mean}
        print(json.dumps({**row, "spent": other.spent}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="?", help="a store, an exported file or a folder of them")
    parser.add_argument("--train", metavar="ENV", help="train for real on this environment")
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--budget", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--lanes", type=int, default=32)
    parser.add_argument("--threshold", type=float, default=0.95)
    args = parser.parse_args()
    if args.train:
        trained(args)
    elif args.results:
        simulate(args)
    else:
        parser.error("give results, or --train ENV")


if __name__ == "__main__":
    main()
