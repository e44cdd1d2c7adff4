"""The replay buffer: a ring of rows for each environment, from which batches are sampled.

It is the trainer's data source, which is three functions: `empty` makes it, `write` adds one step
of all lanes, `batches` gives each lane the rows of its next update. Another source, such as the
last rollout alone, is a module with these three functions.

The write position is shared by all lanes, so that writing is a slice and not a scatter; it is taken
modulo the length at every step, so that the ring wraps whatever the length.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Num, UInt32

from mirrorax.envs.adapter import Task
from mirrorax.mdpo import transitions
from mirrorax.runs.settings import Settings


def empty(settings: Settings, env: Task, lanes: int) -> Num[Array, "slots lanes envs row"]:
    """Return the buffer before the first step."""
    shape = (settings.replay_slots, lanes, settings.num_envs, transitions.width(env))
    return jnp.zeros(shape, env.memory_dtype)


def write(
    buffer: Num[Array, "slots lanes envs row"],
    rows: Num[Array, "lanes envs row"],
    position: Int[Array, ""],
) -> Num[Array, "slots lanes envs row"]:
    """Write one step of all lanes at a position counted from the start of training."""
    slot = position % buffer.shape[0]
    return jax.lax.dynamic_update_index_in_dim(buffer, rows, slot, axis=0)


def sample(
    buffer: Num[Array, "slots lanes envs row"],
    words: UInt32[Array, "lanes batch"],
    written: Int[Array, ""],
) -> Num[Array, "lanes batch row"]:
    """Draw rows for every lane from its own transitions, uniformly, with replacement."""
    slots, lanes, envs, row = buffer.shape
    filled = (jnp.minimum(written, slots) * envs).astype(jnp.uint32)
    # The bias of the remainder is filled / 2^32 < 3e-5 at 10^5 transitions.
    index = (words % filled).astype(jnp.int32)
    lane = jnp.arange(lanes)[:, None]
    place = (index // envs * lanes + lane) * envs + index % envs
    return buffer.reshape(-1, row).at[place].get(mode="promise_in_bounds")


def batches(
    settings: Settings,
    buffer: Num[Array, "slots lanes envs row"],
    words: UInt32[Array, "lanes words"],
    k: Int[Array, ""],
) -> Num[Array, "lanes batches batch row"]:
    """Draw the batches of update k of every lane, from one random word for each transition."""
    rows = sample(buffer, words, (k + 1) * settings.rollout_length)
    shape = (rows.shape[0], settings.batches_per_update, settings.batch_size, rows.shape[-1])
    return rows.reshape(shape)
