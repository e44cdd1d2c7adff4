"""Advantages by generalised advantage estimation (Schulman et al., 2016), for one environment.

Termination and truncation are kept apart. After a terminated step nothing follows. A truncated step
(time ran out) is followed by the value of the state it led to, not by that of the next episode's
first state. Either ends the sum over later steps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Estimates(NamedTuple):
    """The advantage of each step, and what the value network regresses on."""

    advantage: Float[Array, " time"]
    target: Float[Array, " time"]


def estimate_advantages(
    reward: Float[Array, " time"],
    value: Float[Array, " time"],
    next_value: Float[Array, " time"],
    follows: Float[Array, " time"],
    ended: Bool[Array, " time"],
    gamma: Float[Array, ""] | float,
    gae_lambda: float,
) -> Estimates:
    """Return the advantages of the steps of one environment, and their lambda-returns A + V.

        delta_t = r_t + gamma follows_t V(s'_t) - V(s_t)
        A_t     = delta_t + gamma gae_lambda (1 - ended_t) A_{t+1}

    `next_value` is V(s'_t) at the state that step t led to: where an episode ended, its last state.
    `follows` is 0 where that state was terminal and 1 elsewhere, after a truncated step too.
    """
    delta = reward + gamma * follows * next_value - value
    carried = gamma * gae_lambda * (1 - ended.astype(delta.dtype))

    def back(later: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, carried = step
        advantage = delta + carried * later
        return advantage, advantage

    start = jnp.zeros_like(delta[0])
    _, advantage = jax.lax.scan(back, start, (delta, carried), reverse=True, unroll=8)
    return Estimates(advantage, advantage + value)


def regularized_reward(
    reward: Float[Array, "*batch"], h: Float[Array, "*batch"], alpha: Float[Array, ""] | float
) -> Float[Array, "*batch"]:
    """Return r - alpha h(pi(s)): the reward of the regularised MDP."""
    return reward - alpha * h


def normalized(advantage: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """Return advantages of mean 0 and standard deviation 1 over the batch."""
    centred = advantage - jnp.mean(advantage)
    return centred / (jnp.std(advantage) + 1e-8)
