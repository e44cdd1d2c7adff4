"""A store's table made up: landscapes with the paper's "L", noisy seeds, and known cell means.

Every run belongs to an algorithm (a dict of settings), an environment, a cell and a seed. A cell's
quality u in [0, 1] follows an L; a seed succeeds with probability u or lands somewhere below.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax.paper import axes

BOUNDS = {"CartPole": (0.0, 500.0), "Acrobot": (-500.0, -75.0), "Catch": (-1.0, 1.0)}
BOUNDS |= {"DeepSea": (0.0, 1.0), "Catch(20x10)": (-1.0, 1.0), "Catch(30x15)": (-1.0, 1.0)}
SUITE = axes.SUITE
ALPHAS, LAMS = np.array(axes.ALPHAS), np.array(axes.LAMS)

DEFAULTS: dict[str, Any] = {
    "potential": "entropy",
    "drift": "kl",
    "alpha_schedule": "constant",
    "lam_schedule": "constant",
    "actor_q": "regularized",
    "steps": 1_000_000,
    "num_envs": 16,
    "hidden": [64, 64],
    "activation": "tanh",
    "adam_eps": 1e-5,
    "twin_critics": True,
    "tau": 0.95,
    "gamma": 0.99,
    "actor_lr": 0.0025,
    "critic_lr": 0.0025,
    "algorithm_version": 1,
}
PROVENANCE = {
    "mirrorax_version": "0.1.0",
    "commit": "0" * 40,
    "dirty": False,
    "jax_version": "0.10.2",
    "gymnax_version": "1.0.1",
    "numpy_version": "2.4.6",
    "device": "cpu",
    "lanes": 32,
    "host": "a-host",
}

PAIRS = tuple(axes.PAIRS.values())


def quality(
    alphas: np.ndarray, lams: np.ndarray, scale: float, rng: np.random.Generator
) -> np.ndarray:
    """Return u [alpha, lam]: an L whose bands move with the scale of the rewards."""
    width = 1.0 + rng.normal(0, 0.1)
    a = np.log10(np.maximum(alphas, 1e-5) / (0.03 * scale))[:, None] + rng.normal(0, 0.08)
    b = np.log10(np.maximum(lams, 1e-7) / (5.0 * scale))[None, :] + rng.normal(0, 0.15)
    low_b, low_a = 1 / (1 + np.exp(6 * (b - 0.5))), 1 / (1 + np.exp(8 * (a - 0.4)))
    return np.maximum(
        np.exp(-((a / (0.6 * width)) ** 4)) * low_b, np.exp(-((b / width) ** 4)) * low_a
    )


def block(
    settings: Mapping[str, Any],
    environment: str,
    alphas: np.ndarray,
    lams: np.ndarray,
    seeds: int,
    rng: np.random.Generator,
    *,
    evaluations: int = 10,
    reward_scale: float = 1.0,
    height: float = 1.0,
) -> pa.Table:
    """Return the runs of one algorithm on one environment over a whole grid."""
    u = quality(alphas, lams, reward_scale, rng) * height
    shape = (len(alphas), len(lams), seeds)
    success = rng.random(shape) < u[..., None]
    level = np.where(
        success, rng.beta(60, 1, shape), rng.beta(1, 8, shape) + 0.3 * u[..., None] ** 2
    )
    noise = rng.normal(0, 0.03, (*shape, evaluations))
    low, high = (reward_scale * x for x in BOUNDS[environment])
    norm = np.minimum(level[..., None] + noise * (1 - level[..., None]), 1.0)
    greedy = np.minimum(norm + 0.02 * rng.random(norm.shape), 1.0)
    a, l, s = (x.ravel() for x in np.meshgrid(alphas, lams, np.arange(seeds), indexing="ij"))
    n = len(a)
    learned = settings.get("alpha_schedule", "constant").startswith("learned")
    nothing = pa.nulls(n, pa.float64())
    offsets = pa.array(np.arange(0, (n + 1) * evaluations, evaluations, dtype=np.int32))

    def lists(x: np.ndarray) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array((low + x * (high - low)).ravel()))

    values = {**DEFAULTS, **settings}
    tag = (
        f"{values['potential']}{values['drift']}{values['alpha_schedule']}{values['lam_schedule']}"
    )
    name = f"{tag}{values['actor_q']}{values['steps']}{environment}{reward_scale}{settings}"
    prefix = hashlib.sha256(name.encode()).hexdigest()[:16]
    columns: dict[str, Any] = {
        "run_id": pa.array([f"{prefix}{i:016x}" for i in range(n)]),
        "environment": _constant(environment, n),
        "reward_scale": _constant(reward_scale, n),
        "alpha": nothing if learned else pa.array(a),
        "lam": pa.array(l),
        "w": pa.array(a) if learned else nothing,
        "seed": pa.array(s.astype(np.int64)),
        **{name: _constant(value, n) for name, value in values.items()},
        "returns": lists(norm),
        "greedy_returns": lists(greedy),
        "diverged": _constant(False, n),
        "diverged_at": pa.nulls(n, pa.int64()),
        "status": _constant("done", n),
        "failure": pa.nulls(n, pa.string()),
        "wall_seconds": _constant(1.5, n),
        "return_min": _constant(low, n),
        "return_max": _constant(high, n),
        **{name: _constant(value, n) for name, value in PROVENANCE.items()},
    }
    return pa.table(columns)


def _constant(value: Any, n: int) -> pa.Array:
    if isinstance(value, list):
        flat = pa.array(np.tile(np.array(value, dtype=np.int64), n))
        offsets = np.arange(0, n * len(value) + 1, len(value), dtype=np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), flat)
    return pa.repeat(pa.scalar(value), n)


def study(
    algorithms: Sequence[Mapping[str, Any]],
    rng: np.random.Generator,
    *,
    environments: Sequence[str] = SUITE,
    alphas: np.ndarray = ALPHAS,
    lams: np.ndarray = LAMS,
    seeds: int = 5,
    evaluations: int = 10,
) -> pa.Table:
    """Return the runs of several algorithms on several environments."""
    blocks = [
        block(
            settings, name, alphas, lams, seeds, rng, evaluations=evaluations, height=1 - 0.01 * k
        )
        for k, settings in enumerate(algorithms)
        for name in environments
    ]
    return pa.concat_tables(blocks)


def pairs() -> list[dict[str, Any]]:
    """Return the eleven algorithms of the paper's Table 1."""
    return [{"potential": h, "drift": d} for h, d in PAIRS]


def paper(rng: np.random.Generator, seeds: int = 5) -> pa.Table:
    """Return a table of the size of the paper's study: 120 x 4,205 = 504,600 runs at 5 seeds."""
    schedules = [
        (a, l)
        for a in ("constant", "linear", "learned", "learned_linear")
        for l in ("constant", "linear")
    ][1:]
    extra = [
        {"potential": h, "drift": d, "alpha_schedule": a, "lam_schedule": l}
        for h, d in (("entropy", "kl"), ("tsallis(0.5)", "bregman(tsallis(0.5))"))
        for a, l in schedules
    ]
    extra += [{"drift": "forward_kl"}, {"actor_q": "unregularized"}]
    tables = [study([*pairs(), *extra], rng, seeds=seeds)]
    for name in ("Catch(20x10)", "Catch(30x15)"):
        tables.append(block({}, name, ALPHAS, LAMS, seeds, rng))
    for most in (1000, 750, 400, 333, 300, 200, 143, 100, 50, 5):
        tables.append(block({}, "CartPole", ALPHAS, LAMS, seeds, rng, reward_scale=most / 500))
    return pa.concat_tables(tables)
