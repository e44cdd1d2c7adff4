"""A policy in its environments: rollouts, as rows of transitions, and evaluation.

A policy is evaluated in some episodes with drawn actions and in as many with the best ones.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import Step, observations, play, uniform
from mirrorax.mdpo import replay
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
    ended = after.terminated | after.truncated
    stops = after.terminated if program.settings.bootstrap_truncation else ended
    before, then = (jax.vmap(env.remember)(state) for state in (step.before, after.state))
    return jax.vmap(partial(replay.pack, env))(
        before, then, step.action, after.reward, stops, ended
    )


#: Folded into a run's key, so that evaluation never shares a key with an update, which folds its
#: number. Only a run of more updates than this has one of that number: 32,343.
EVALUATION = 0x7E57
#: What such a long run folds instead: updates are counted in int32, so none has this number.
_BEYOND_UPDATES = 2**31


def purpose(updates: int) -> int:
    """Return what the key of a run of so many updates is folded with: the number of none."""
    return EVALUATION if updates <= EVALUATION else _BEYOND_UPDATES


@jax.jit
def _fold(keys: Array, word: UInt32[Array, ""]) -> Array:
    return jax.vmap(lambda key: jax.random.fold_in(key, word))(keys)


def evaluation_keys(keys: Array, updates: int) -> Array:
    """Return the keys that runs of so many updates are evaluated with, from their own."""
    return _fold(keys, jnp.uint32(purpose(updates)))


def choose_actions(
    program: Program,
    parameters: Any,
    memory: Num[Array, "episodes memory"],
    words: UInt32[Array, " episodes"],
    greedy: Bool[Array, " episodes"],
) -> Int[Array, " episodes"]:
    """Choose an action in each episode of a lane: the best one, or one drawn from the policy."""
    logits = actor_logits(program, parameters, memory)
    best = jnp.argmax(logits, axis=0).astype(jnp.int32)
    return jnp.where(greedy, best, sample_actions(logits, uniform(words)))


@partial(jax.jit, static_argnames=("program", "episodes"))
def evaluate(
    program: Program,
    episodes: int,
    actors: Float[Array, "lanes p"],
    keys: Array,
    reward_scale: Float[Array, " lanes"],
) -> tuple[Float[Array, "lanes episodes"], Float[Array, "lanes episodes"]]:
    """Return the returns of M stochastic and of M greedy episodes of every lane.

    `keys` are those of `evaluation_keys`. Returns are sums of scaled rewards, without discount. All
    lanes step together until the last episode of any of them has ended; a lane's episodes depend on
    its own key alone.
    """
    env = program.environment
    lanes, count = actors.shape[0], 2 * episodes
    greedy = jnp.arange(count) >= episodes
    layers = jax.vmap(program.actor.unflatten)(actors)

    def words(t: Array, number: int) -> Array:
        draw = partial(jax.random.bits, shape=(number, count))
        return jax.vmap(lambda key: draw(jax.random.fold_in(key, t)))(keys)

    def lane(parameters: Any, state: Any, drawn: Array) -> Step:
        memory = jax.vmap(env.remember)(state)
        action = choose_actions(program, parameters, memory, drawn[0], greedy)
        return jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, drawn[1:])

    def step(state: Any, t: Array) -> Step:
        return jax.vmap(lane)(layers, state, words(t, 1 + env.step_words))

    start = jax.vmap(jax.vmap(env.reset, in_axes=-1))(words(jnp.int32(0), env.reset_words))
    total = play(env.max_steps, start, step, (lanes, count)).total * reward_scale[:, None]
    return total[:, :episodes], total[:, episodes:]
