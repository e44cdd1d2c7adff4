"""One episode of a trained policy, as pictures."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32

from mirrorax.envs.adapter import Step, play
from mirrorax.envs.render import draw
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.rollout import choose_actions


def record(program: Program, policy: Any, key: UInt32[np.ndarray, "2"], greedy: bool) -> list[Any]:
    """Play one episode and return its frames, the first state's and the last one's included."""
    env = program.environment
    rng = np.random.default_rng([int(word) for word in key])
    first = jnp.asarray(rng.integers(0, 2**32, (1, env.reset_words), dtype=np.uint32))
    words = rng.integers(0, 2**32, (env.max_steps, 1 + env.step_words), dtype=np.uint32)

    @jax.jit
    def episode(policy: Array, words: Array) -> tuple[Array, Array, Array]:
        """Return the memories of all states, the rewards, and the number of steps."""
        parameters = program.actor.unflatten(policy)

        def step(state: Any, t: Array) -> Step:
            drawn = words[t - 1][:, None]
            memory = jax.vmap(env.remember)(state)
            action = choose_actions(program, parameters, memory, drawn[0], jnp.array([greedy]))
            return jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, drawn[1:])

        def observer(kept: Any, after: Step, running: Array, t: Array) -> Any:
            memories, rewards, _ = kept
            memory = jax.vmap(env.remember)(after.state)[0]
            return memories.at[t].set(memory), rewards.at[t].set(after.reward[0]), t

        start = jax.vmap(env.reset)(first)
        memories = jnp.zeros((env.max_steps + 1, env.memory_size), env.memory_dtype)
        memories = memories.at[0].set(jax.vmap(env.remember)(start)[0])
        kept = memories, jnp.zeros(env.max_steps + 1), jnp.int32(0)
        played = play(env.max_steps, start, step, (1,), observer, kept)
        return played.kept

    memories, rewards, steps = map(np.asarray, episode(jnp.asarray(policy), jnp.asarray(words)))
    return [draw(env, memories[t], float(rewards[t])) for t in range(int(steps) + 1)]
