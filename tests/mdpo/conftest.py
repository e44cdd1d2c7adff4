"""Small programs, compiled once for all the tests that can share them."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.mdpo.replay import pack
from mirrorax.runs.settings import make_settings

#: few and small: every width and length is odd enough to find a mistake in wrapping and padding
SMALL = {
    "environment": "Catch(4x3)",
    "steps": 16 * 40,
    "num_envs": 4,
    "env_steps_per_update": 16,
    "batch_size": 24,
    "buffer_size": 4 * 37,
    "hidden": (16, 16),
    "eval_episodes": 4,
}


@pytest.fixture(scope="session")
def small():
    """Make small settings; fields given win."""
    return lambda **fields: make_settings(**{**SMALL, **fields})


@pytest.fixture(scope="session")
def some_keys():
    """Make distinct keys."""
    return lambda count: np.random.default_rng(7).integers(0, 2**32, (count, 2), dtype=np.uint32)


@pytest.fixture(scope="session")
def make_rows():
    """Make replay rows of a small Catch: random states, random actions."""

    def make(env, count, rng):
        rows = []
        for _ in range(count):
            ball_x, ball_y, paddle, action = (int(rng.integers(n)) for n in (3, 3, 3, 3))
            state = env.reset(jnp.zeros(1, jnp.uint32))
            state = state._replace(
                ball_x=jnp.int32(ball_x), ball_y=jnp.int32(ball_y), paddle_x=jnp.int32(paddle)
            )
            after = env.step(state, jnp.int32(action), jnp.zeros(0, jnp.uint32))
            remembered = env.remember(state), env.remember(after.state)
            ends = after.terminated, after.terminated | after.truncated
            rows.append(pack(env, *remembered, jnp.int32(action), after.reward, *ends))
        return jnp.stack(rows)

    return make
