"""Playing episodes of an environment that jax steps: the one loop, and a random policy in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from mirrorax.envs.adapter import Environment, State, Step, integer

#: Episodes of the estimate of a random policy's return, and the seed of their random numbers: the
#: same on every machine.
EPISODES, _SEED = 100, 0

#: what is kept of every step: (kept so far, the step, which episodes were running, t) -> kept
Observer = Callable[[Any, Step, Array, Array], Any]


class Played(NamedTuple):
    """Episodes that were played side by side."""

    total: Float[Array, "*episodes"]
    #: episodes that had not ended after `max_steps`
    running: Bool[Array, "*episodes"]
    kept: Any


def play(
    max_steps: int,
    start: State,
    step: Callable[[State, Int[Array, ""]], Step],
    shape: tuple[int, ...],
    observer: Observer | None = None,
    kept: Any = (),
) -> Played:
    """Play episodes of this shape side by side until all have ended, or for `max_steps`.

    Args:
        max_steps: no episode is longer.
        start: the first states.
        step: takes step t, counted from 1, in every episode, ended ones included.
        shape: the axes of the episodes, such as (lanes, episodes).
        observer: what is kept of each step; the rewards of running episodes are always added up.
        kept: what is kept before the first step.
    """

    def going(carry: tuple[State, Played, Array]) -> Array:
        _, played, t = carry
        return jnp.any(played.running) & (t <= max_steps)

    def body(carry: tuple[State, Played, Array]) -> tuple[State, Played, Array]:
        state, (total, running, kept), t = carry
        after = step(state, t)
        total = total + jnp.where(running, after.reward, 0.0)
        if observer is not None:
            kept = observer(kept, after, running, t)
        running = running & ~(after.terminated | after.truncated)
        return after.state, Played(total, running, kept), t + 1

    first = Played(jnp.zeros(shape), jnp.ones(shape, bool), kept)
    played: Played = jax.lax.while_loop(going, body, (start, first, jnp.int32(1)))[1]
    return played


def random_start(env: Environment, key: Array, episodes: int) -> State:
    """Draw the first states of some episodes."""
    return jax.vmap(env.reset)(_words(key, 0, (episodes, env.reset_words)))


def play_random(
    env: Environment,
    key: Array,
    start: State,
    episodes: int,
    observer: Observer | None = None,
    kept: Any = (),
) -> Played:
    """Play episodes with a policy that chooses every action with equal probability."""

    def step(state: State, t: Array) -> Step:
        words = _words(key, t, (episodes, 1 + env.step_words))
        actions = integer(words[:, 0], env.num_actions)
        return jax.vmap(env.step)(state, actions, words[:, 1:])

    return play(env.max_steps, start, step, (episodes,), observer, kept)


def _words(key: Array, t: Any, shape: tuple[int, ...]) -> Array:
    return jax.random.bits(jax.random.fold_in(key, t), shape)


@lru_cache(maxsize=64)
def random_return(env: Environment, episodes: int = EPISODES) -> float:
    """Return the mean return of a random policy: the lower bound of returns where none is known."""
    return float(jnp.mean(_random_returns(env, episodes)))


@partial(jax.jit, static_argnames=("env", "episodes"))
def _random_returns(env: Environment, episodes: int) -> Float[Array, " episodes"]:
    key = jax.random.key(_SEED)
    return play_random(env, key, random_start(env, key, episodes), episodes).total
