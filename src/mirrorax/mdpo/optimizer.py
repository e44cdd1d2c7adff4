"""Adam and clipping by the global norm, on one flat vector of parameters.

Adam (Kingma and Ba, 2015), with eps outside the square root of the corrected second moment:

    m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
    p <- p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

BETA_1, BETA_2 = 0.9, 0.999


class Moments(NamedTuple):
    """Adam's running averages of the gradient and of its square."""

    first: Float[Array, "*shape"]
    second: Float[Array, "*shape"]


def zeros_like(parameters: Float[Array, "*shape"]) -> Moments:
    """Return the moments before the first step."""
    return Moments(jnp.zeros_like(parameters), jnp.zeros_like(parameters))


def adam(
    parameters: Float[Array, "*shape"],
    gradient: Float[Array, "*shape"],
    moments: Moments,
    learning_rate: Float[Array, ""],
    step: Float[Array, ""],
    eps: float,
) -> tuple[Float[Array, "*shape"], Moments]:
    """Take Adam's step number `step` (counted from 1)."""
    first = BETA_1 * moments.first + (1 - BETA_1) * gradient
    second = BETA_2 * moments.second + (1 - BETA_2) * gradient * gradient
    # One multiplication each in place of a division per parameter.
    rate = learning_rate / (1 - BETA_1**step)
    scale = 1 / (1 - BETA_2**step)
    moved = parameters - rate * first / (jnp.sqrt(scale * second) + eps)
    return moved, Moments(first, second)


def clip_factor(squared_norm: Float[Array, "*shape"], limit: float) -> Float[Array, "*shape"]:
    """Return what a gradient is multiplied by so that its norm is at most `limit`."""
    return limit / jnp.maximum(jnp.sqrt(squared_norm), limit)
