"""How often the intervals hold what they promise: a simulation with known truth.

A made-up landscape has 28 x 28 cells and four environments whose good regions are L-shaped and
overlap. Run scores are drawn around known cell means; the truth is Rbst of those means. Four kinds
of noise: `gaussian`; `skewed` (beta distributed); `bimodal` (a seed succeeds or fails, as in sparse
tasks); `mixed` (an environment of each). An interval that promises 95% should hold the truth in 95
of 100 repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.comparison import difference
from mirrorax.analysis.estimates import (
    METHODS,
    Estimate,
    Method,
    cell_intervals,
    frequency_band,
    robustness,
)
from mirrorax.analysis.robustness import frequency, rbst
from mirrorax.errors import unknown

Noise = Literal["gaussian", "skewed", "bimodal", "mixed"]
NOISES = ("gaussian", "skewed", "bimodal", "mixed")


def quality(
    rng: np.random.Generator, side: int = 28, environments: int = 4, top: float = 1.0
) -> Float[np.ndarray, "alpha lam env"]:
    """Return how good each cell is, from 0 to `top`: an L for every environment, jittered."""
    x = np.linspace(0.0, 1.0, side)
    layers = []
    for _ in range(environments):
        bend_a, bend_l = 0.45 + rng.normal(0, 0.06), 0.55 + rng.normal(0, 0.06)
        width_a, width_l = np.abs(0.13 + rng.normal(0, 0.02, size=2))
        arm_a = np.exp(-(((x - bend_a) / width_a) ** 4))[:, None] * (x < bend_l + 0.1)[None, :]
        arm_l = np.exp(-(((x - bend_l) / width_l) ** 4))[None, :] * (x < bend_a + 0.1)[:, None]
        layers.append(np.maximum(arm_a, arm_l))
    return top * np.stack(layers, axis=-1)


def simulate(
    u: Float[np.ndarray, "alpha lam env"], seeds: int, noise: Noise, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "alpha lam env seed"], Float[np.ndarray, "alpha lam env"]]:
    """Return run scores and the means they were drawn around."""
    if noise not in NOISES:
        raise unknown("noise", noise, NOISES)
    if noise == "mixed":
        kinds: tuple[Noise, ...] = ("bimodal", "skewed", "gaussian", "bimodal")
        parts = [simulate(u[..., e : e + 1], seeds, kinds[e % 4], rng) for e in range(u.shape[-1])]
        return (
            np.concatenate([p[0] for p in parts], axis=2),
            np.concatenate([p[1] for p in parts], axis=2),
        )
    shape = (*u.shape, seeds)
    if noise == "bimodal":
        success = 0.985 * u
        runs = np.where(rng.random(shape) < success[..., None], 0.99, 0.25)
        return runs, 0.25 + 0.74 * success
    means = 0.05 + 0.93 * u
    if noise == "skewed":
        sharp = 6.0 + 40.0 * means**8
        return rng.beta((means * sharp)[..., None], ((1 - means) * sharp)[..., None], shape), means
    spread = 0.02 + 0.5 * means * (1 - means)
    return means[..., None] + spread[..., None] * rng.standard_normal(shape), means


@dataclass(frozen=True)
class Coverage:
    """What one method did in one setting."""

    quantity: str
    noise: str
    seeds: int
    threshold: float
    method: str
    held: float  # share of repetitions in which the interval held the truth
    width: float  # mean width
    bias: float  # mean of plug-in value less truth
    corrected_bias: float
    truth: float
    repetitions: int


Quantity = Literal["rbst", "frequency", "difference"]
QUANTITIES = ("rbst", "frequency", "difference")


def _truth(quantity: Quantity, scores: Sequence[np.ndarray], threshold: float) -> float:
    if quantity == "frequency":
        return float(frequency(scores[0], np.array([threshold]))[0])
    if quantity == "difference":
        return rbst(scores[0], threshold) - rbst(scores[1], threshold)
    return rbst(scores[0], threshold)


def _estimate(
    quantity: Quantity,
    runs: Sequence[np.ndarray],
    threshold: float,
    method: Method,
    resamples: int,
    rng: np.random.Generator,
) -> Estimate:
    estimator = frequency_band if quantity == "frequency" else robustness
    found = [
        estimator(each, [threshold], rng=rng, method=method, resamples=resamples)[0]
        for each in runs
    ]
    return difference(*found) if quantity == "difference" else found[0]


def study(
    rng: np.random.Generator,
    *,
    repetitions: int = 200,
    seeds: Sequence[int] = (2, 3, 5, 10),
    noises: Sequence[Noise] = ("gaussian", "skewed", "bimodal", "mixed"),
    threshold: float = 0.9,
    top: float = 1.0,
    methods: Sequence[Method] = ("percentile", "scaled", "basic", "corrected"),
    resamples: int = 500,
    quantity: Quantity = "rbst",
    side: int = 28,
) -> list[Coverage]:
    """Measure the coverage of 95% intervals for each method.

    The quantity is Rbst_T, freq(T), or the difference in Rbst_T of two landscapes.
    """
    if quantity not in QUANTITIES:
        raise unknown("quantity", quantity, QUANTITIES)
    for method in methods:
        if method not in METHODS:
            raise unknown("method", method, METHODS)
    out = []
    for noise in noises:
        for number in seeds:
            held: dict[str, list[tuple[bool, float]]] = {method: [] for method in methods}
            off: list[tuple[float, float, float]] = []
            for _ in range(repetitions):
                drawn = [
                    simulate(quality(rng, side, top=top), number, noise, rng)
                    for _ in range(2 if quantity == "difference" else 1)
                ]
                truth = _truth(quantity, [means.mean(axis=-1) for _, means in drawn], threshold)
                for method in methods:
                    estimate = _estimate(
                        quantity, [runs for runs, _ in drawn], threshold, method, resamples, rng
                    )
                    interval = estimate.interval()
                    assert interval is not None
                    held[method].append((truth in interval, interval.high - interval.low))
                    if method == methods[-1]:
                        off.append((truth, estimate.value - truth, estimate.corrected - truth))
            truth_mean, bias, corrected = np.mean(off, axis=0)
            for method in methods:
                share, width = np.mean(held[method], axis=0)
                out.append(
                    Coverage(
                        quantity,
                        noise,
                        number,
                        threshold,
                        method,
                        float(share),
                        float(width),
                        float(bias),
                        float(corrected),
                        float(truth_mean),
                        repetitions,
                    )
                )
    return out


def cell_study(
    rng: np.random.Generator,
    *,
    repetitions: int = 5,
    seeds: Sequence[int] = (2, 3, 5, 10),
    noises: Sequence[Noise] = ("gaussian", "skewed", "bimodal", "mixed"),
    environments: int = 4,
) -> list[Coverage]:
    """Measure the coverage of the cells' own intervals, over cells that are neither 0 nor 1."""
    out = []
    for noise in noises:
        for number in seeds:
            rows = []
            for _ in range(repetitions):
                u = quality(rng, environments=environments)
                runs, means = simulate(u, number, noise, rng)
                d = means.mean(axis=-1)
                low, high = cell_intervals(runs, rng=rng, resamples=500)
                between = (d > 0.3) & (d < 0.97)
                rows.append(np.stack([(low <= d) & (d <= high), high - low, d], axis=-1)[between])
            held, width, truth = np.concatenate(rows).mean(axis=0)
            count = sum(len(r) for r in rows)
            out.append(
                Coverage(
                    f"cell, {environments} environment{'s' * (environments > 1)}",
                    noise,
                    number,
                    np.nan,
                    "cell",
                    float(held),
                    float(width),
                    0.0,
                    0.0,
                    float(truth),
                    count,
                )
            )
    return out
