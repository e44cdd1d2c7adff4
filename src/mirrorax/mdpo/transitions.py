"""Transitions: as rows of a few bytes, which are kept, and as a `Batch`, which an update reads.

A row holds what cannot be derived: the memories of the two states, the reward, and one number for
the action and whether the value of the next state counts. Rows are float32 or bytes, as the
environment's memories are. One row is one place in memory, so a sampled transition costs one miss.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num

from mirrorax.envs.adapter import Task, observations

_REWARD_BYTES = 4


class Batch(NamedTuple):
    """Transitions, the batch on the last axis of observations."""

    observation: Float[Array, "obs batch"]
    action: Int[Array, " batch"]
    reward: Float[Array, " batch"]
    next_observation: Float[Array, "obs batch"]
    #: 1 where the next state's value counts, 0 where the episode ended for good
    follows: Float[Array, " batch"]


def width(env: Task) -> int:
    """Return the number of entries in a row."""
    extra = 1 + _REWARD_BYTES if env.memory_dtype == "uint8" else 2
    return 2 * env.memory_size + extra


def pack(
    env: Task,
    memory: Num[Array, " memory"],
    next_memory: Num[Array, " memory"],
    action: Int[Array, ""],
    reward: Float[Array, ""],
    stops: Bool[Array, ""],
) -> Num[Array, " row"]:
    """Write one transition as a row."""
    code = 2 * action + stops
    if env.memory_dtype == "uint8":
        tail = [code.astype(jnp.uint8)[None], jax.lax.bitcast_convert_type(reward, jnp.uint8)]
        return jnp.concatenate([memory, next_memory, *tail])
    return jnp.concatenate([memory, next_memory, jnp.stack([code.astype(jnp.float32), reward])])


def unpack(env: Task, rows: Num[Array, "batch row"]) -> Batch:
    """Read rows back, and compute the observations from the memories."""
    size = env.memory_size
    if env.memory_dtype == "uint8":
        reward = jax.lax.bitcast_convert_type(rows[:, 2 * size + 1 :], jnp.float32)
    else:
        reward = rows[:, 2 * size + 1]
    code = rows[:, 2 * size].astype(jnp.int32)
    return Batch(
        observation=observations(env, rows[:, :size]),
        action=code >> 1,
        reward=reward,
        next_observation=observations(env, rows[:, size : 2 * size]),
        follows=1.0 - (code & 1).astype(jnp.float32),
    )
