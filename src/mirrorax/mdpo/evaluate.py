"""Evaluation: episodes under the stochastic policy and as many under the greedy one."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt32

from mirrorax.envs.adapter import uniform
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


def _act(program: Program, layers: Any, env: Any, words: Array, greedy: Array) -> Any:
    """Take one step in each episode of a lane."""
    environment = program.environment
    logits = actor_logits(program, layers, jax.vmap(environment.remember)(env))
    best = jnp.argmax(logits, axis=0).astype(jnp.int32)
    action = jnp.where(greedy, best, sample_actions(logits, uniform(words[0])))
    cut = 1 + environment.step_words
    return jax.vmap(environment.step, in_axes=(0, 0, -1))(env, action, words[1:cut])


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

    def going(carry: tuple[Any, Array, Array, Array]) -> Array:
        _, running, _, t = carry
        return jnp.any(running) & (t <= env.max_steps)

    def body(carry: tuple[Any, Array, Array, Array]) -> tuple[Any, Array, Array, Array]:
        state, running, total, t = carry
        drawn = words(t, 1 + env.step_words)
        after = jax.vmap(partial(_act, program), in_axes=(0, 0, 0, None))(
            layers, state, drawn, greedy
        )
        total = total + jnp.where(running, after.reward, 0.0)
        running = running & ~(after.terminated | after.truncated)
        return after.state, running, total, t + 1

    start = jax.vmap(jax.vmap(env.reset, in_axes=-1))(words(jnp.int32(0), env.reset_words))
    carry = (start, jnp.ones((lanes, count), bool), jnp.zeros((lanes, count)), jnp.int32(1))
    _, _, total, _ = jax.lax.while_loop(going, body, carry)
    total = total * reward_scale[:, None]
    return total[:, :episodes], total[:, episodes:]
