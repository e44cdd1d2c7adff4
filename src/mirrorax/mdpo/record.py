"""One episode of a trained policy, as pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt32
from PIL import Image

from mirrorax.envs.adapter import Environment
from mirrorax.envs.host import Gymnasium, Hosted
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
    parameters = program.actor.unflatten(jnp.asarray(policy))

    @jax.jit
    def act(memory: Array, word: Array) -> Array:
        return choose_actions(program, parameters, memory, word, jnp.array([greedy]))

    states: Any = _hosted_states if isinstance(program.env, Gymnasium) else _compiled_states
    images, rewards = zip(*states(program.env, act, rng), strict=True)
    returns = np.cumsum(rewards)
    last, every = len(images) - 1, -(-len(images) // MOST_FRAMES)
    return [
        captioned(images[t], f"step {t}   return {returns[t]:.4g}")
        for t in [*range(0, last, every), last]
    ]


def _compiled_states(
    env: Environment, act: Callable[[Array, Array], Array], rng: np.random.Generator
) -> Iterator[tuple[Any, float]]:
    """Yield the picture of every state, and the reward that led to it."""
    first = jnp.asarray(rng.integers(0, 2**32, (1, env.reset_words), dtype=np.uint32))
    words = rng.integers(0, 2**32, (env.max_steps, 1 + env.step_words), dtype=np.uint32)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))
    remember = jax.jit(jax.vmap(env.remember))
    state = jax.vmap(env.reset)(first)
    memory, reward = remember(state), 0.0
    yield draw(env, np.asarray(memory)[0]), reward
    for drawn in jnp.asarray(words):
        after = step(state, act(memory, drawn[:1]), drawn[1:])
        state, memory, reward = after.state, remember(after.state), float(after.reward[0])
        yield draw(env, np.asarray(memory)[0], reward), reward
        if after.ended[0]:
            return


def _hosted_states(
    env: Gymnasium, act: Callable[[Array, Array], Array], rng: np.random.Generator
) -> Iterator[tuple[Any, float]]:
    """Yield what Gymnasium renders of every state, and the reward that led to it."""
    try:
        inner = Hosted(env, render_mode="rgb_array")
        memory = inner.reset(int(rng.integers(2**31)))
        yield Image.fromarray(inner.render()), 0.0
        for _ in range(env.max_steps):
            word = jnp.asarray(rng.integers(0, 2**32, (1,), dtype=np.uint32))
            step = inner.step(int(act(jnp.asarray(memory[None]), word)[0]))
            memory = step.state
            yield Image.fromarray(inner.render()), float(step.reward)
            if step.ended:
                break
        inner.close()
    except UserError as error:
        raise cannot_draw(env, str(error)) from None
    except Exception as error:  # whatever the environment or its renderer raises
        raise cannot_draw(env, in_one_line(error)) from None
