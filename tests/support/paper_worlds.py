"""Made-up runs of the paper's algorithms: of a whole study, or of some cells without a table."""

from __future__ import annotations

import numpy as np

from mirrorax.analysis.landscape import Landscape
from mirrorax.envs import suite
from mirrorax.paper.axes import PAIRS, SUITE
from mirrorax.paper.readings import reading
from mirrorax.runs.chunk import Chunk, Outcome
from mirrorax.runs.results import concat, from_arrow
from mirrorax.runs.scoring import ABSENT, DONE, ScoredEnvironment
from mirrorax.spec.study import expand

PAPER = dict(zip(PAIRS, (11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1), strict=True))
EACH64 = reading("each64_all")


def landscape(pair, cells, score, rng, *, seeds=2, noise=0.01, of=EACH64):
    """Return a pair's runs on some cells, with the scores that a function gives them."""
    alphas, lams = (np.array(sorted({cell[i] for cell in cells})) for i in (0, 1))
    shape = (len(alphas), len(lams), len(SUITE), seeds)
    given = np.zeros(shape[:2], dtype=bool)
    values = np.zeros(shape)
    for alpha, lam in cells:
        i, j = np.searchsorted(alphas, alpha), np.searchsorted(lams, lam)
        given[i, j] = True
        values[i, j] = score(pair, alpha, lam) + noise * rng.standard_normal(shape[2:])
    held = np.broadcast_to(given[..., None, None], shape)
    settings = {
        **of.shared(),
        "potential": pair[0],
        "drift": pair[1],
        "alpha_schedule": "constant",
        "lam_schedule": "constant",
        "actor_q": "regularized",
        "algorithm_version": 2,
    }
    scores = np.where(held, values, np.nan)[..., None]
    return Landscape(
        settings,
        f"({', '.join(pair)})",
        "alpha",
        alphas,
        lams,
        tuple(ScoredEnvironment(name, 1.0, 0.0, 1.0) for name in SUITE),
        np.where(held, np.arange(seeds), -1),
        np.where(held, DONE, ABSENT),
        scores,
        scores,
        np.where(held, 0, -1),
        np.zeros(shape, dtype=bool),
        "lam",
        concat([]),
    )


def world(study, score, rng, noise=0.01):
    """Return the study's runs as a table, each with the score that a function gives it."""
    runs = expand(study)
    parts = []
    for which, settings in enumerate(runs.configurations):
        mine = runs.select(np.flatnonzero(runs.configuration == which))
        alpha = np.where(np.isnan(mine.values["alpha"]), mine.values["w"], mine.values["alpha"])
        wanted = score(settings, alpha, mine.values["lam"], mine.values["reward_scale"])
        wanted = np.clip(wanted + noise * rng.standard_normal(len(mine)), 0, 1)
        low, high = suite.environment(settings.environment).bounds
        scale = mine.values["reward_scale"]
        returns = (low + wanted * (high - low)) * scale
        every = np.repeat(returns[:, None], 10, axis=1)
        chunk = Chunk(settings, mine.values, 32)
        never = np.full(len(mine), -1)
        outcome = Outcome(chunk, every, every, never, 1.0, (low, high), {"jax_version": "0"})
        parts.append(from_arrow(outcome.to_arrow()))
    return concat(parts).table("all")


def as_the_paper_says(settings, alpha, lam, scale):
    """An L whose arms begin in proportion to the reward scale, longer for better pairs."""
    label = next((k for k, p in PAIRS.items() if p == (settings.potential, settings.drift)), "C")
    rank = PAPER[label] - 1
    widest, longest = (0.2, 0.6, 1.0)[rank // 4], (2.5, 25, 1e3, 5e4)[rank % 4]
    arm = (alpha >= 0.1 * scale) & (alpha <= widest) & (lam < 1e4)
    drift = (lam >= 2 * scale) & (lam <= longest) & (alpha <= 0.05)
    good = 0.99 if settings.lam_schedule == "constant" else 0.93
    # At the lowest return two of the three alphas of a strip work alone: with 0.3 that would be a
    # mean above 0.75, and lambda would seem to need nothing.
    return np.where(arm | drift, good, 0.3)
