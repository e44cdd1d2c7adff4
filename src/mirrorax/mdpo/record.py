"""One episode of a trained policy, as pictures."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt32

from mirrorax.envs.adapter import observations, uniform
from mirrorax.envs.render import draw
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.rollout import sample_actions


def record(program: Program, policy: Any, key: UInt32[np.ndarray, "2"], greedy: bool) -> list[Any]:
    """Play one episode and return its frames, the first state's and the last one's included."""
    env = program.environment
    rng = np.random.default_rng([int(word) for word in key])

    def words(count: int) -> Any:
        return jnp.asarray(rng.integers(0, 2**32, count, dtype=np.uint32))

    @jax.jit
    def act(state: Any, drawn: Any) -> Any:
        logits = program.actor(policy, observations(env, env.remember(state)[None]))
        sampled = sample_actions(logits, uniform(drawn[:1]))
        action = jnp.argmax(logits, axis=0) if greedy else sampled
        return env.step(state, action[0].astype(jnp.int32), drawn[1:])

    state = env.reset(words(env.reset_words))
    frames = [draw(env, np.asarray(env.remember(state)))]
    for _ in range(env.max_steps):
        after = act(state, words(1 + env.step_words))
        state = after.state
        frames.append(draw(env, np.asarray(env.remember(state)), float(after.reward)))
        if bool(after.terminated) or bool(after.truncated):
            break
    return frames
