"""Transitions as rows, and the replay buffer: a ring of rows, from which batches are sampled.

A row holds what cannot be derived: the memories of the two states, the reward, and one number for
the action, whether the episode ended and whether the value of the next state counts. Rows are
float32 or bytes, as the environment's memories are. One row is one place in memory, so a sampled
transition costs one miss.

The buffer is the trainer's data source, which is three functions: `empty` makes it, `write` adds
one step of all lanes, `batches` gives each lane the rows of its next update. On-policy it keeps the
last rollout alone, and `on_policy.last_rollout` takes the place of `batches`.

The write position is shared by all lanes, so that writing is a slice and not a scatter; it is taken
modulo the length at every step, so that the ring wraps whatever the length.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import Step, Task, memories_at, observations, place_of
from mirrorax.mdpo.program import Program
from mirrorax.runs.settings import Settings

_REWARD_BYTES = 4


class Batch(NamedTuple):
    """Transitions, the batch on the last axis of observations."""

    observation: Float[Array, "obs batch"]
    action: Int[Array, " batch"]
    reward: Float[Array, " batch"]
    next_observation: Float[Array, "obs batch"]
    #: 1 where the next state's value counts, 0 where the episode ended for good
    follows: Float[Array, " batch"]
    #: whether the episode ended, for good or because time ran out
    ended: Bool[Array, " batch"]


class Asked(NamedTuple):
    """The states at which an update asks its networks, and the state of each transition.

    Where an environment has fewer states than a batch has transitions, a network is asked once at
    every state, and its outputs are spread over the batch. Backwards, the gradients of equal states
    are added up before they go through the network: the same gradient for less work.
    """

    observations: Float[Array, "obs states"]
    #: the state of each transition; None: the states are those of the batch, in its order
    state: Int[Array, " batch"] | None = None

    def ask(
        self, network: Callable[[Array, Array], Array], parameters: Float[Array, " p"]
    ) -> Float[Array, "out batch"]:
        """Return the outputs of a network for every transition."""
        if self.state is None:
            return network(parameters, self.observations)
        # A state that is never reached may have no finite observation: 0 in its place, or its
        # gradient, 0 times infinity, would spoil those of all others.
        finite = jnp.isfinite(self.observations).all(axis=0)
        outputs = network(parameters, jnp.where(finite, self.observations, 0.0))
        return jnp.where(finite, outputs, jnp.nan)[:, self.state]


def asked(program: Program, rows: Num[Array, "batch row"], batch: Batch) -> tuple[Asked, Asked]:
    """Return where networks are asked for a batch: at its states, and at its next states."""
    env, size = program.env, program.env.memory_size
    if program.num_memories is None:
        return Asked(batch.observation), Asked(batch.next_observation)
    every = observations(env, memories_at(env, jnp.arange(program.num_memories)))
    memories = rows[:, :size], rows[:, size : 2 * size]
    now, then = (Asked(every, place_of(env, each)) for each in memories)
    return now, then


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
    ended: Bool[Array, ""],
) -> Num[Array, " row"]:
    """Write one transition as a row; `stops` where the value of the next state does not count."""
    code = 4 * action + 2 * ended + stops
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
        action=code >> 2,
        reward=reward,
        next_observation=observations(env, rows[:, size : 2 * size]),
        follows=1.0 - (code & 1).astype(jnp.float32),
        ended=(code & 2) > 0,
    )


class Stepped(NamedTuple):
    """The last step of every environment of a lane. Where it ended an episode, none is begun yet.

    A rollout carries this from step to step and not the next states: XLA then computes the physics
    once, and not again for each entry of a replay row.
    """

    before: Any
    action: Int[Array, "*lanes envs"]
    after: Step


def first_step(state: Any, shape: tuple[int, ...]) -> Stepped:
    """Return what stands for the step before the first one, which led to these states."""
    nothing = jnp.zeros(shape)
    step = Step(state, nothing, nothing.astype(bool), nothing.astype(bool))
    return Stepped(state, nothing.astype(jnp.int32), step)


def as_rows(program: Program, step: Stepped) -> Num[Array, "envs row"]:
    """Return a step of a lane as rows of transitions."""
    env, after = program.env, step.after
    stops = after.terminated if program.settings.bootstrap_truncation else after.ended
    before, then = (jax.vmap(env.remember)(state) for state in (step.before, after.state))
    return jax.vmap(partial(pack, env))(before, then, step.action, after.reward, stops, after.ended)


def empty(settings: Settings, env: Task, lanes: int) -> Num[Array, "slots lanes envs row"]:
    """Return the buffer before the first step."""
    shape = (settings.replay_slots, lanes, settings.num_envs, width(env))
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
