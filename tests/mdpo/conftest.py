"""Small programs, compiled once for all the tests that can share them."""

import numpy as np
import pytest

from mirrorax.mdpo.config import make_settings

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


@pytest.fixture(autouse=True, scope="session")
def _no_cache_at_home():
    """Leave the user's compilation cache alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORAX_COMPILE_CACHE", "off")
        yield


@pytest.fixture(scope="session")
def small():
    """Make small settings; fields given win."""
    return lambda **fields: make_settings(**{**SMALL, **fields})


@pytest.fixture(scope="session")
def some_keys():
    """Make distinct keys."""
    return lambda count: np.random.default_rng(7).integers(0, 2**32, (count, 2), dtype=np.uint32)
