"""A small Gaussian process over the cells of a search: numpy, fitted on a fixed set of scales.

Scores y of runs at places x (in decades, or what `propose` makes of an axis) in arms c (static
choices) are modelled as

    y = m + f(x, c) + noise,
    cov(f(x, c), f(x', c')) = s2 k(|x - x'| / l) (1 if c = c' else r)

with a Matern kernel k of smoothness 5/2, one length l per axis, a correlation r between arms and
independent noise. m is the generalised least squares mean, s2 is profiled out; the other parameters
maximise the posterior over fixed values, one after the other, twice. So a fit is a
deterministic function of the runs. All arms share the parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist

#: The values that each parameter is chosen from. All are given a weak preference for the middle.
LENGTHS = (0.5, 0.9, 1.6, 2.8)
NOISES = (0.1, 0.3, 1.0)  # of the variance of f
CORRELATIONS = (0.2, 0.6, 0.9)
_JITTER = 1e-6


@dataclass(frozen=True)
class Scales:
    """The parameters of the covariance, apart from its size."""

    lengths: tuple[float, ...]
    noise: float = 0.3
    correlation: float = 0.6


@dataclass(frozen=True, eq=False)
class Surrogate:
    """A fitted process."""

    x: Float[np.ndarray, "cells axes"]
    arm: Int[np.ndarray, " cells"]
    scales: Scales
    mean: float
    #: the size of the covariance
    variance: float
    cholesky: Float[np.ndarray, "cells cells"]
    weights: Float[np.ndarray, " cells"]

    def predict(
        self, x: Float[np.ndarray, "places axes"], arm: Int[np.ndarray, " places"]
    ) -> tuple[Float[np.ndarray, " places"], Float[np.ndarray, "places places"]]:
        """Return the mean and the covariance of f at some places, given the runs."""
        cross = _kernel(x, arm, self.x, self.arm, self.scales)
        mean = self.mean + cross @ self.weights
        half = solve_triangular(self.cholesky, cross.T, lower=True)
        covariance = _kernel(x, arm, x, arm, self.scales) - half.T @ half
        return mean, self.variance * covariance

    @property
    def noise(self) -> float:
        """The variance of one run around f."""
        return self.variance * self.scales.noise


def fit(
    x: Float[np.ndarray, "runs axes"],
    arm: Int[np.ndarray, " runs"],
    y: Float[np.ndarray, " runs"],
) -> Surrogate:
    """Fit the process to runs. Runs at one place count as one with less noise."""
    x, arm, y, count = _pooled(x, arm, y)
    scales = Scales((0.9,) * x.shape[1])
    best, result = -np.inf, None
    for _ in range(2):
        for candidate in _variations(scales, several=len(np.unique(arm)) > 1):
            likelihood, fitted = _fitted(x, arm, y, count, candidate)
            if likelihood > best + 1e-9:
                best, result, scales = likelihood, fitted, candidate
    assert result is not None
    return result


def _variations(scales: Scales, *, several: bool) -> list[Scales]:
    now, axes = scales.lengths, len(scales.lengths)
    lengths = [(*now[:k], each, *now[k + 1 :]) for k in range(axes) for each in LENGTHS]
    lengths += [(each,) * axes for each in LENGTHS]
    out = [scales, *(replace(scales, lengths=each) for each in lengths)]
    out += [replace(scales, noise=noise) for noise in NOISES]
    if several:
        out += [replace(scales, correlation=value) for value in CORRELATIONS]
    return out


def _fitted(
    x: np.ndarray, arm: np.ndarray, y: np.ndarray, count: np.ndarray, scales: Scales
) -> tuple[float, Surrogate]:
    """Return the profile log likelihood and the process with these scales."""
    n = len(y)
    k = _kernel(x, arm, x, arm, scales)
    k[np.diag_indices_from(k)] += scales.noise / count + _JITTER
    cholesky = np.linalg.cholesky(k)
    ones = cho_solve((cholesky, True), np.ones(n))
    mean = float(ones @ y / ones.sum())
    weights = cho_solve((cholesky, True), y - mean)
    # A weak prior keeps a handful of equal scores from looking certain.
    variance = float((y - mean) @ weights + 0.05) / (n + 1)
    logdet = 2 * float(np.log(np.diag(cholesky)).sum())
    prior = sum(np.log(length / 1.2) ** 2 for length in scales.lengths) / len(scales.lengths)
    prior += np.log(scales.noise / 0.3) ** 2 / 2
    likelihood = -0.5 * (logdet + (n + 1) * np.log(variance) + prior)
    return float(likelihood), Surrogate(x, arm, scales, mean, variance, cholesky, weights)


def _pooled(
    x: np.ndarray, arm: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = np.column_stack([arm, x])
    _, first, index, count = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    total = np.bincount(index.reshape(-1), weights=y)
    return x[first], arm[first], total / count, count.astype(float)


def _kernel(
    a: np.ndarray, arm_a: np.ndarray, b: np.ndarray, arm_b: np.ndarray, scales: Scales
) -> np.ndarray:
    lengths = np.array(scales.lengths)
    r = np.sqrt(5) * cdist(a / lengths, b / lengths)
    same = np.where(arm_a[:, None] == arm_b[None, :], 1.0, scales.correlation)
    return np.asarray(same * (1 + r + r**2 / 3) * np.exp(-r))
