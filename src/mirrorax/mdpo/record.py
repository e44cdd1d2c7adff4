"""One episode of a trained policy, as pictures."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32
from PIL import Image

from mirrorax.envs.adapter import Step
from mirrorax.envs.host import Gymnasium
from mirrorax.envs.render import cannot_draw, captioned, draw
from mirrorax.errors import UserError, in_one_line
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.train import choose_actions

#: Of a longer episode every second, third, ... picture is kept.
MOST_FRAMES = 600


def record(program: Program, policy: Any, key: UInt32[np.ndarray, "2"], greedy: bool) -> list[Any]:
    """Play one episode and return its frames, the first state's and the last one's included.

    The caption is the number of steps and the return so far, of rewards as the environment pays
    them. A `UserError` where the environment cannot be drawn.
    """
    rng = np.random.default_rng([int(word) for word in key])
    function = _record_host if isinstance(program.env, Gymnasium) else _record_compiled
    images, rewards = function(program, jnp.asarray(policy), rng, greedy)
    returns = np.cumsum(rewards)
    shown = list(range(0, len(images), -(-len(images) // MOST_FRAMES)))
    last = len(images) - 1
    return [
        captioned(images[t], f"step {t}   return {returns[t]:.4g}")
        for t in [*shown, *([last] if shown[-1] != last else [])]
    ]


def _record_compiled(
    program: Program, policy: Array, rng: np.random.Generator, greedy: bool
) -> tuple[list[Any], np.ndarray]:
    """Return the pictures of all states, and the rewards that led to them."""
    env, parameters = program.environment, program.actor.unflatten(policy)
    first = jnp.asarray(rng.integers(0, 2**32, (1, env.reset_words), dtype=np.uint32))
    words = rng.integers(0, 2**32, (env.max_steps, 1 + env.step_words), dtype=np.uint32)
    remember = jax.jit(jax.vmap(env.remember))

    @jax.jit
    def step(state: Any, drawn: Array) -> Step:
        memory = jax.vmap(env.remember)(state)
        action = choose_actions(program, parameters, memory, drawn[:1], jnp.array([greedy]))
        return jax.vmap(env.step, in_axes=(0, 0, None))(state, action, drawn[1:])

    state = jax.vmap(env.reset)(first)
    images, rewards = [draw(env, np.asarray(remember(state))[0])], [0.0]
    for drawn in jnp.asarray(words):
        state, reward, terminated, truncated = step(state, drawn)
        rewards.append(float(reward[0]))
        images.append(draw(env, np.asarray(remember(state))[0], rewards[-1]))
        if terminated[0] or truncated[0]:
            break
    return images, np.array(rewards, np.float32)


def _record_host(
    program: Program, policy: Array, rng: np.random.Generator, greedy: bool
) -> tuple[list[Any], np.ndarray]:
    """Return what Gymnasium renders of all states, and the rewards that led to them."""
    env: Any = program.env
    parameters = program.actor.unflatten(policy)

    @jax.jit
    def act(memory: Array, word: Array) -> Array:
        return choose_actions(program, parameters, memory, word, jnp.array([greedy]))

    try:
        inner = env.make(render_mode="rgb_array")
        seen, _ = inner.reset(seed=int(rng.integers(2**31)))
        images, rewards, done = [Image.fromarray(inner.render())], [0.0], False
        while not done and len(rewards) <= env.max_steps:
            word = jnp.asarray(rng.integers(0, 2**32, (1,), dtype=np.uint32))
            action = int(act(jnp.asarray(env.flat(seen, 1)), word)[0]) + env._first_action
            seen, reward, terminated, truncated, _ = inner.step(action)
            images.append(Image.fromarray(inner.render()))
            rewards.append(float(reward))
            done = bool(terminated or truncated)
        inner.close()
    except UserError as error:
        raise cannot_draw(env, str(error)) from None
    except Exception as error:  # whatever the environment or its renderer raises
        raise cannot_draw(env, in_one_line(error)) from None
    return images, np.array(rewards)
