"""What a random policy earns: the lower bound of returns where none is known beforehand."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mirrorax.envs.adapter import Environment, integer

#: Episodes of the estimate, and the seed of their random numbers: the same on every machine.
EPISODES, _SEED = 100, 0


@lru_cache(maxsize=64)
def random_return(env: Environment, episodes: int = EPISODES) -> float:
    """Return the mean return of the policy that chooses every action alike."""
    return float(jnp.mean(_returns(env, episodes)))


@partial(jax.jit, static_argnames=("env", "episodes"))
def _returns(env: Environment, episodes: int) -> Float[Array, " episodes"]:
    key = jax.random.key(_SEED)

    def words(t: Any, number: int) -> Array:
        return jax.random.bits(jax.random.fold_in(key, t), (episodes, number))

    def going(carry: tuple[Any, Array, Array, Array]) -> Array:
        _, running, _, t = carry
        return jnp.any(running) & (t <= env.max_steps)

    def body(carry: tuple[Any, Array, Array, Array]) -> tuple[Any, Array, Array, Array]:
        state, running, total, t = carry
        drawn = words(t, 1 + env.step_words)
        after = jax.vmap(env.step)(state, integer(drawn[:, 0], env.num_actions), drawn[:, 1:])
        total = total + jnp.where(running, after.reward, 0.0)
        return after.state, running & ~(after.terminated | after.truncated), total, t + 1

    start = jax.vmap(env.reset)(words(0, env.reset_words))
    carry = (start, jnp.ones(episodes, bool), jnp.zeros(episodes), jnp.int32(1))
    total: Array = jax.lax.while_loop(going, body, carry)[2]
    return total
