"""Evaluation: episodes under the stochastic policy and as many under the greedy one."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import Step, uniform
from mirrorax.envs.episodes import play
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.rollout import actor_logits, sample_actions

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
