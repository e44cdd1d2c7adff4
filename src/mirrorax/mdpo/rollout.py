"""Rollouts: steps of all environments of a lane under its policy, as rows of transitions."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Num, UInt32

from mirrorax.envs.adapter import Step, observations, uniform
from mirrorax.mdpo import transitions
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.update import where

#: what a rollout asks for its actions: the actor's parameters, cut into layers once and not at
#: every step, or a table of its logits at every memory
Policy = Any


def sample_actions(
    logits: Float[Array, "actions batch"], uniform: Float[Array, " batch"]
) -> Int[Array, " batch"]:
    """Draw actions from softmax(logits) by inverting the cumulative distribution.

    One uniform number in [0, 1) per action: the action is the number of partial sums of the
    unnormalised probabilities that `uniform` times their total reaches.
    """
    weights = jnp.exp(logits - jnp.max(logits, axis=0, keepdims=True))
    sums = [weights[0]]
    for weight in weights[1:]:
        sums.append(sums[-1] + weight)
    point = uniform * sums[-1]
    action = jnp.zeros(point.shape, jnp.int32)
    for partial_sum in sums[:-1]:
        action = action + (point >= partial_sum)
    return action


def actor_logits(
    program: Program, parameters: Any, memory: Num[Array, "envs memory"]
) -> Float[Array, "actions envs"]:
    """Return the logits of an actor, its parameters cut into layers, at some memories."""
    return program.actor.apply(parameters, observations(program.env, memory))


def rollout_policies(program: Program, actors: Float[Array, "lanes p"]) -> Policy:
    """Return what the rollouts of all lanes ask for their actions while the actors stand still."""
    layers = jax.vmap(program.actor.unflatten)(actors)
    rounds, bounds = program.table_rounds, program.env.memory_bounds
    if rounds is None or bounds is None:
        return layers
    wide = program.settings.num_envs
    # As many memories at a time as a step of a rollout has, and for each lane its own, so that the
    # same products give the same bits: the barrier hides that all lanes ask for the same.
    first = jax.lax.optimization_barrier(jnp.zeros(actors.shape[0], jnp.int32))  # type: ignore[no-untyped-call]

    def ask(layers: Any, first: Int[Array, ""]) -> Float[Array, "envs actions"]:
        places = jnp.unravel_index(first + jnp.arange(wide), bounds)
        memory = jnp.stack(places, axis=-1).astype(program.env.memory_dtype)
        return actor_logits(program, layers, memory).T

    def body(i: Array, table: Array) -> Array:
        logits = jax.vmap(ask)(layers, first + i * wide)
        return jax.lax.dynamic_update_slice_in_dim(table, logits, i * wide, axis=1)

    shape = (actors.shape[0], rounds * wide, program.env.num_actions)
    return jax.lax.fori_loop(0, rounds, body, jnp.zeros(shape))


def policy_logits(
    program: Program, policy: Policy, memory: Num[Array, "envs memory"]
) -> Float[Array, "actions envs"]:
    """Return the logits of one lane's policy at some memories."""
    if program.table_rounds is None:
        return actor_logits(program, policy, memory)
    entries = tuple(memory.astype(jnp.int32).T)
    place = jnp.ravel_multi_index(entries, program.env.memory_bounds or (), mode="clip")
    return policy[place].T


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


def step_lane(
    program: Program, policy: Policy, last: Stepped, words: UInt32[Array, "words envs"]
) -> Stepped:
    """Begin new episodes where the last step ended one; take one step in each environment."""
    env = program.environment
    cut = 1 + env.step_words
    done = last.after.terminated | last.after.truncated
    state = where(done, jax.vmap(env.reset, in_axes=-1)(words[cut:]), last.after.state)
    logits = policy_logits(program, policy, jax.vmap(env.remember)(state))
    action = sample_actions(logits, uniform(words[0]))
    after = jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, words[1:cut])
    # Weak types, as of `jnp.where(won, 1.0, 0.0)`, would compile the segment a second time.
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), Stepped(state, action, after))


def as_rows(program: Program, step: Stepped) -> Num[Array, "envs row"]:
    """Return a step of a lane as rows of transitions."""
    env, after = program.environment, step.after
    bootstrap = program.settings.bootstrap_truncation
    stops = after.terminated if bootstrap else after.terminated | after.truncated
    before, then = (jax.vmap(env.remember)(state) for state in (step.before, after.state))
    return jax.vmap(partial(transitions.pack, env))(before, then, step.action, after.reward, stops)
