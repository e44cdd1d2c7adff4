"""Landscapes with known truth, to measure how often intervals hold it.

A landscape says for every cell and environment how a run scores. Most have runs that succeed or
fail, by a chance of their own, as CartPole and Acrobot do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirrorax.analysis.landscape import landscapes
from mirrorax.store import read_results

RESULTS = Path(__file__).parent.parent / "results"
SUCCESS, FAILURE, JITTER = 0.99, 0.02, 0.01
ENVIRONMENTS = 4


class Truth(NamedTuple):
    """How runs score: `draw(seeds, rng)` gives some [alpha, lam, env, seed]; their true means."""

    draw: Callable[[int, np.random.Generator], np.ndarray]
    means: np.ndarray  # [alpha, lam, env]


def by_chance(chance: np.ndarray) -> Truth:
    """Runs succeed by chances [alpha, lam, env] or fail, and vary a little in either case."""

    def draw(seeds: int, rng: np.random.Generator) -> np.ndarray:
        shape = (*chance.shape, seeds)
        good = rng.random(shape) < chance[..., None]
        return np.where(good, SUCCESS, FAILURE) - JITTER * rng.random(shape)

    return Truth(draw, chance * SUCCESS + (1 - chance) * FAILURE - JITTER / 2)


def by_noise(means: np.ndarray, spread: float) -> Truth:
    """Runs scatter about their means: beta distributed, between 0 and 1."""
    sharp = means * (1 - means) / spread**2 + 1

    def draw(seeds: int, rng: np.random.Generator) -> np.ndarray:
        shape = (*means.shape, seeds)
        return rng.beta((means * sharp)[..., None], ((1 - means) * sharp)[..., None], shape)

    return Truth(draw, means)


def by_picking(pool: np.ndarray) -> Truth:
    """Runs are picked from those of a pool [alpha, lam, env, run]."""

    def draw(seeds: int, rng: np.random.Generator) -> np.ndarray:
        pick = rng.integers(0, pool.shape[-1], (*pool.shape[:-1], seeds))
        return np.take_along_axis(pool, pick, axis=-1)

    return Truth(draw, pool.mean(axis=-1))


def _places(side: int) -> tuple[np.ndarray, np.ndarray]:
    x = (np.arange(side) + 0.5) / side
    return x[:, None], x[None, :]


def _all(side: int, value: float = 1.0) -> np.ndarray:
    return np.full((side, side, ENVIRONMENTS), value)


def _inside(side: int) -> np.ndarray:
    x, y = _places(side)
    return ((np.abs(x - 0.5) < 0.3) & (np.abs(y - 0.5) < 0.3))[..., None]


def _letter(side: int, rng: np.random.Generator) -> np.ndarray:
    """An L for every environment, from 0 to 1, jittered."""
    x = np.linspace(0, 1, side)
    layers = []
    for _ in range(ENVIRONMENTS):
        bend = np.array([0.45, 0.55]) + rng.normal(0, 0.06, 2)
        width = np.abs(0.13 + rng.normal(0, 0.02, 2))
        arms = np.exp(-(((x[:, None] - bend) / width) ** 4))
        first = arms[:, 0, None] * (x < bend[1] + 0.1)
        second = arms[None, :, 1] * (x < bend[0] + 0.1)[:, None]
        layers.append(np.maximum(first, second))
    return np.stack(layers, axis=-1)


def cartpole_at_times(side: int, rng: np.random.Generator) -> Truth:
    chance = _all(side)
    x, y = _places(side)
    chance[..., 0] = 0.55 + 0.4 * np.sin(2 * x + 1.5 * y + rng.uniform(0, 6)) ** 2
    return by_chance(chance)


def sharp_region(side: int, rng: np.random.Generator) -> Truth:
    chance = _all(side) * _inside(side)
    chance[..., 0] *= 0.8
    return by_chance(chance)


def all_at_times(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(_all(side, 0.93) * _inside(side))


def smooth_letter(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(0.985 * _letter(side, rng))


def rough(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(rng.beta(2.0, 0.3, (side, side, ENVIRONMENTS)))


def very_rough(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(rng.beta(0.4, 0.2, (side, side, ENVIRONMENTS)))


def narrow_ridges(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(_all(side, 0.95) * (np.arange(side) % 4 == 1)[:, None, None])


def at_the_threshold(side: int, rng: np.random.Generator) -> Truth:
    return by_chance(_all(side, 0.97))


def seldom(side: int, rng: np.random.Generator) -> Truth:
    chance = _all(side)
    chance[..., 0] = 0.1
    return by_chance(chance)


def scattered(side: int, rng: np.random.Generator) -> Truth:
    return by_noise(0.05 + 0.93 * _letter(side, rng), 0.05)


def _neighbourhoods(name: str) -> np.ndarray:
    """The published runs of a pair, each cell's with those of the 3 x 3 cells around it."""
    (item,) = landscapes(
        read_results(RESULTS / "paper" / "each_each_bootstrap" / f"pair_{name}.parquet")
    )
    runs = item.runs()[item.alphas > 0][:, item.lams > 0]
    padded = np.pad(runs, ((1, 1), (1, 1), (0, 0), (0, 0)), mode="edge")
    rows, columns = runs.shape[:2]
    parts = [padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)]
    return np.concatenate(parts, axis=-1)


def published(name: str) -> Callable[[int, np.random.Generator], Truth]:
    """Cells that score as those of a published pair; on larger grids a cell becomes several."""

    def make(side: int, rng: np.random.Generator) -> Truth:
        pool = _neighbourhoods(name)
        at = np.arange(side) * len(pool) // side
        return by_picking(pool[np.ix_(at, at)])

    return make


#: name -> how to make one of a size
LANDSCAPES: dict[str, Callable[[int, np.random.Generator], Truth]] = {
    "all solved but CartPole, which fails at times": cartpole_at_times,
    "sharp region in which CartPole succeeds 80%": sharp_region,
    "all succeed 93% of the time inside a region": all_at_times,
    "smooth L": smooth_letter,
    "rough": rough,
    "very rough: most chances near 0 or 1": very_rough,
    "ridges one cell wide, 95%": narrow_ridges,
    "all cells at the threshold, 97%": at_the_threshold,
    "CartPole succeeds 10%": seldom,
    "smooth L, scores scatter, none fails": scattered,
    "published runs of A": published("A"),
    "published runs of I": published("I"),
    "published runs of K": published("K"),
}
