"""Searches on landscapes made of published runs: they cost nothing, so there can be hundreds.

A landscape is one pair in one environment of a published study, a grid of positive temperatures
with the scores of some seeds in each cell. The score of a run at temperatures between the cells is
simulated: a number u in [0, 1) is drawn for the run, the seed of rank floor(u * seeds) is taken in
each of the four cells around it, and the four scores are interpolated linearly in log alpha and
log lambda. So the mean of many runs is the interpolated mean of the cells, and seeds differ as they
did: where half of them failed, half of the simulated runs fail. Outside of the grid the nearest
cell counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mirrorax.analysis.landscape import Landscape, full_grid, landscapes
from mirrorax.store import read_results
from mirrorax.tuning.space import Cell, Run
from mirrorax.tuning.task import prepare

#: Where published grids of at least this many cells a side are, and what the table calls them.
SOURCES = {
    "paper/each_each_bootstrap": "16M steps",
    "paper/each_all": "1M steps",
    "on_policy/study.parquet": "on-policy",
}
LEAST_SIDE = 6
#: What random play scores (`mirrorax.envs.adapter.random_return`).
RANDOM_PLAY = {"CartPole": 0.048, "Acrobot": 0.004, "Catch": 0.18, "DeepSea": -0.005}


@dataclass(frozen=True)
class Simulated:
    """One landscape of published runs, with the scores of each cell in ascending order."""

    name: str
    environment: str
    alphas: np.ndarray
    lams: np.ndarray
    runs: np.ndarray  # alpha, lam, seed

    @cached_property
    def best(self) -> float:
        """The best mean of a cell."""
        return float(self.runs.mean(axis=2).max())

    def score(self, run: Run) -> float:
        """Return the simulated score of a run: a function of its cell and seed."""
        key = zlib.crc32(repr((self.name, run.cell.values, run.seed)).encode())
        rank = int(np.random.default_rng(key).random() * self.runs.shape[2])
        return self._between(run.cell, self.runs[..., rank])

    def scores(self, runs: Sequence[Run]) -> list[float]:
        return [self.score(run) for run in runs]

    def mean(self, cell: Cell) -> float:
        """Return the mean of all the runs that there could be at a cell."""
        return self._between(cell, self.runs.mean(axis=2))

    def _between(self, cell: Cell, values: np.ndarray) -> float:
        alpha, lam = cell.values
        i, a = _place(self.alphas, alpha)
        j, b = _place(self.lams, lam)
        corner = values[i : i + 2, j : j + 2]
        return float(np.array([1 - a, a]) @ corner @ np.array([1 - b, b]))


def _place(axis: np.ndarray, value: float) -> tuple[int, float]:
    """Return the cell below a value and how far the value is from it, in shares of the step."""
    at = np.clip(np.interp(np.log(value), np.log(axis), np.arange(len(axis))), 0, len(axis) - 1)
    low = min(int(at), len(axis) - 2)
    return low, float(at - low)


def simulated(results: Path) -> list[Simulated]:
    """Return a landscape for each pair and environment of the published studies."""
    out = []
    for source, label in SOURCES.items():
        for item in landscapes(read_results(results / source, "results")):
            if item.settings["alpha_schedule"] == item.settings["lam_schedule"] == "constant":
                out += _of(item, label)
    return out


def _of(item: Landscape, label: str) -> list[Simulated]:
    runs = item.runs()  # diverged runs count as 0
    pair = f"({item.settings['potential']}, {item.settings['drift']})"
    out = []
    for e, environment in enumerate(item.environments):
        i, j = full_grid(np.isfinite(runs[:, :, e]).all(axis=-1) & item.cells())
        part = np.sort(runs[np.ix_(i, j)][:, :, e], axis=-1)
        if environment.reward_scale == 1 and min(part.shape[:2]) >= LEAST_SIDE:
            name = f"{label}: {pair} in {environment.name}"
            out.append(Simulated(name, environment.name, item.alphas[i], item.lams[j], part))
    return out


def row(item: Simulated, method: str, budget: int, searches: int, play) -> dict:
    """Return what some searches of one method find in a landscape, in parts of its best score."""
    found = []
    for seed in range(searches):
        spec = prepare(item.environment, budget=budget, seed=seed, steps=1_000_000)
        spec = replace(spec, random=RANDOM_PLAY[item.environment], best=1.0)
        found.append(play(method, spec, item.scores))
    looks = {
        look: [round(item.mean(each["choices"][look]) / item.best, 3) for each in found]
        for look in found[0]["choices"]
    }
    scores = [round(item.mean(each["choice"]) / item.best, 3) for each in found]
    head = {"landscape": item.name, "method": method, "budget": budget}
    return {**head, "scores": scores, "looks": looks}


def table(rows: list[dict], budget: int) -> list[str]:
    """Return a table of one budget as Markdown lines: a line for each study and environment."""
    rows = [each for each in rows if each["budget"] == budget]
    methods = list(dict.fromkeys(each["method"] for each in rows))
    groups: dict[str, list[dict]] = {}
    for each in rows:
        study, where = each["landscape"].split(":")[0], each["landscape"].split(" in ")[1]
        groups.setdefault(f"{where}, {study}", []).append(each)
    head = ["task", "landscapes", *methods, *(f"runs, {m}" for m in methods), "as random after"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    worse, better, halves, ratios = [], [], [], []
    for name, some in groups.items():
        mine = {m: [each for each in some if each["method"] == m] for m in methods}
        scores = {m: np.concatenate([each["scores"] for each in mine[m]]) for m in methods}
        curves = {m: _curve(mine[m]) for m in methods}
        needed = {m: float(np.median(_needed(mine[m]))) for m in methods}
        most = max(curves["random"])
        after = min(
            (k for k, v in curves["tune"].items() if v >= curves["random"][most]), default=0
        )
        cells = [name, str(len(mine["tune"])), *(f"{scores[m].mean():.3f}" for m in methods)]
        cells += ["-" if needed[m] > most else f"{needed[m]:g}" for m in methods]
        lines.append("| " + " | ".join([*cells, str(after) if after else "-"]) + " |")
        gap = scores["tune"].mean() - scores["random"].mean()
        noise = np.hypot(
            *(scores[m].std(ddof=1) / scores[m].size ** 0.5 for m in ("tune", "random"))
        )
        worse += [name] if gap < -2 * noise else []
        better += [name] if gap > 2 * noise else []
        halves.append((after or 2 * most) / most)
        ratios.append(needed["tune"] / needed["random"])
    lines += [
        "",
        f"Of {len(groups)} tasks `tune` is worse than random search by more than two standard "
        f"errors on {len(worse)}{_named(worse)} and better on {len(better)}{_named(better)}. In "
        f"the median task it needs {np.median(ratios):.2f} runs for each of random search to 95% "
        f"of the best, and {np.median(halves):.2f} of the runs of random search to be as good as "
        "it is at its end.",
    ]
    return lines


def _named(tasks: list[str]) -> str:
    return f" ({'; '.join(tasks)})" if tasks else ""


def _curve(rows: list[dict]) -> dict[int, float]:
    """Return the mean value of the choice by the number of runs that were seen."""
    return {
        int(look): float(np.mean([value for row in rows for value in row["looks"][look]]))
        for look in rows[0]["looks"]
    }


def _needed(rows: list[dict]) -> list[int]:
    """Return after how many runs each search first has 95% of the best; twice all if never."""
    out = []
    for each in rows:
        looks = np.array([int(look) for look in each["looks"]])
        good = np.array(list(each["looks"].values())) >= 0.95
        out += np.where(good.any(axis=0), looks[good.argmax(axis=0)], 2 * looks[-1]).tolist()
    return out
