"""Advantages by generalised advantage estimation (Schulman et al., 2016), for one environment.

Termination and truncation are kept apart. After a terminated step nothing follows. A truncated step
(time ran out) is followed by the value of the state it led to, not by that of the next episode's
first state. Either ends the sum over later steps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def estimate_advantages(
    reward: Float[Array, " time"],
    value: Float[Array, " time"],
    next_value: Float[Array, " time"],
    follows: Float[Array, " time"],
    ended: Bool[Array, " time"],
    gamma: Float[Array, ""] | float,
    gae_lambda: float,
) -> Float[Array, " time"]:
    """Return the advantages of the steps of one environment. A + V are their lambda-returns.

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
    return jax.lax.scan(back, start, (delta, carried), reverse=True, unroll=8)[1]


def normalized(advantage: Float[Array, " batch"]) -> Float[Array, " batch"]:
    """Return advantages of mean 0 and standard deviation 1 over the batch."""
    centred = advantage - jnp.mean(advantage)
    return centred / (jnp.std(advantage) + 1e-8)
