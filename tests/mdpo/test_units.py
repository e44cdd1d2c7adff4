"""Units of temperatures, as functions of what batches show."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.mdpo.units import DECAY, FLOOR, make_unit


def observe(unit, batches):
    state = unit.init()
    for reward, q in batches:
        state = unit.observe(state, jnp.asarray(reward), jnp.asarray(q))
    return state


def make_batches(count, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        (
            np.float32(scale) * rng.standard_normal(32).astype(np.float32),
            rng.standard_normal((3, 32)).astype(np.float32),
        )
        for _ in range(count)
    ]


def test_the_reward_is_its_own_unit():
    unit = make_unit("reward", None)
    assert unit.init() == ()
    assert unit.size((), jnp.float32(3)) == 1
    assert unit.divisor(()) == 1


def test_the_range_of_returns_follows_the_reward_scale():
    unit = make_unit("return_range", (-1.0, 3.0))
    assert unit.size((), jnp.float32(0.5)) == 2
    with pytest.raises(UserError, match="needs an environment whose bounds"):
        make_unit("return_range", None)
    with pytest.raises(UserError, match="return_range"):
        make_unit("ranges", None)


def test_a_constant_spread_is_its_own_average_from_the_first_batch_on():
    """The average is corrected for its start."""
    unit = make_unit("q_spread", None)
    q = np.array([[1.0, -2.0], [4.0, 5.0]], np.float32)  # spreads 3 and 7
    for count in (1, 2, 50):
        state = observe(unit, [(np.ones(2, np.float32), q)] * count)
        np.testing.assert_allclose(unit.size(state, jnp.float32(1)), 5.0, rtol=1e-5)


def test_the_spread_is_an_exponential_average():
    unit, batches = make_unit("q_spread", None), make_batches(30)
    spreads = [float((q.max(axis=0) - q.min(axis=0)).mean()) for _, q in batches]
    weights = DECAY ** np.arange(len(spreads))[::-1]
    expected = np.average(spreads, weights=weights)
    np.testing.assert_allclose(
        unit.size(observe(unit, batches), jnp.float32(1)), expected, rtol=1e-4
    )


def test_the_divisor_is_the_root_mean_square_of_all_rewards():
    unit, batches = make_unit("q_spread", None), make_batches(30, scale=7)
    rewards = np.concatenate([reward for reward, _ in batches])
    state = observe(unit, batches)
    np.testing.assert_allclose(unit.divisor(state), np.sqrt((rewards**2).mean()), rtol=1e-5)


def test_a_floor_and_rewards_of_zero():
    unit = make_unit("q_spread", None)
    state = observe(unit, [(np.zeros(4, np.float32), np.zeros((2, 4), np.float32))] * 3)
    assert unit.size(state, jnp.float32(1)) == np.float32(FLOOR)
    assert unit.divisor(state) == 1
    assert np.isfinite(float(unit.size(unit.init(), jnp.float32(1))))


@pytest.mark.parametrize("factor", [2.0**-7, 0.5, 2.0, 2.0**10])
def test_divided_rewards_do_not_change_with_their_scale(factor):
    unit = make_unit("q_spread", None)
    plain, scaled = make_batches(20), make_batches(20, scale=factor)
    a, b = observe(unit, plain), observe(unit, scaled)
    first = plain[0][0] / np.asarray(unit.divisor(a))
    second = scaled[0][0] / np.asarray(unit.divisor(b))
    np.testing.assert_array_equal(first, second)
