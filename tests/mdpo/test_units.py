"""Units of temperatures, as functions of what batches show."""

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.units import DECAY, FLOOR, make_unit, spread_of_advantages, spread_of_q
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

KEYS = np.array([[1, 2], [3, 4]], np.uint32)


def train(units, scale=1.0, alpha=(0.05, 0.01), lam=(0.5, 2.0), **settings):
    """Train two short runs of Catch, with keys that do not depend on their values."""
    given = {"environment": "Catch", "steps": 4096, "eval_every": 4, "temperature_units": units}
    columns = {"alpha": alpha, "lam": lam, "reward_scale": [scale] * 2}
    if settings.get("lam_schedule") == "learned":
        columns |= {"lam": [None] * 2, "v": [0.05, 0.5]}
    chunk = make_chunk(make_settings(**given, **settings), columns, 2, KEYS)
    session = Session(chunk)
    session.run()
    return session


def observe(unit, batches):
    state = unit.init()
    for reward, q in batches:
        state = unit.observe_rewards(state, jnp.asarray(reward))
        state = unit.observe_spread(state, spread_of_q(jnp.asarray(q)))
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


def test_the_range_of_returns_follows_the_reward_scale():
    unit = make_unit("return_range", (-1.0, 3.0))
    assert unit.size((), jnp.float32(0.5)) == 2
    with pytest.raises(UserError, match="needs an environment whose bounds"):
        make_unit("return_range", None)


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


@pytest.mark.optimised
@pytest.mark.parametrize("lam_schedule", ["constant", "learned"])
def test_a_run_without_units_does_not_see_the_size_of_rewards(lam_schedule):
    """Bit for bit, with clipping and Adam's epsilon as they are."""
    plain, scaled = (train("q_spread", c, lam_schedule=lam_schedule) for c in (1.0, 2.0**5))
    for a, b in zip(plain.policies, scaled.policies, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(32 * plain.evaluate()[0], scaled.evaluate()[0])
    # What it did is recorded in rewards.
    for name in ("alpha", "lam", "unit", "mean_q"):
        a, b = (np.asarray(session.curves[name]) for session in (plain, scaled))
        np.testing.assert_array_equal(32 * a, b)
    for name in ("h", "drift", "entropy", "actor_loss"):
        np.testing.assert_array_equal(plain.curves[name], scaled.curves[name])


@pytest.mark.parametrize("fields", [{}, {"normalize_advantages": False}], ids=str)
def test_a_run_on_policy_without_units_does_not_see_the_size_of_rewards(fields):
    """Nor with rewards of the regularised MDP, in which alpha is in rewards."""
    fields |= {"algorithm": "on_policy", "actor_q": "regularized", "hidden": (16, 16)}
    plain, scaled = (train("q_spread", c, **fields) for c in (1.0, 2.0**5))
    np.testing.assert_array_equal(plain.policies, scaled.policies)
    with_unit = {"unit", "mean_q"} | ({"alpha", "lam"} if len(fields) == 4 else set())
    for name, curve in plain.curves.items():
        factor = 32 if name in with_unit or "return" in name else 1
        np.testing.assert_array_equal(factor * np.asarray(curve), scaled.curves[name], name)
    unit = np.asarray(plain.curves["unit"])
    assert unit.min() > 0
    assert (np.diff(unit, axis=0) != 0).all()


def test_the_spread_of_a_rollout_is_that_of_its_advantages():
    advantage = jnp.asarray([3.0, -4.0, 0.0, 0.0])
    assert spread_of_advantages(advantage) == 2.5


def test_in_units_of_reward_the_size_of_rewards_shows():
    plain, scaled = train("reward"), train("reward", 32.0)
    assert any((a != b).any() for a, b in zip(plain.policies, scaled.policies, strict=True))
    assert "unit" not in plain.curves


ON_POLICY = {"algorithm": "on_policy", "normalize_advantages": False, "hidden": (16, 16)}


@pytest.mark.parametrize("fields", [{}, ON_POLICY], ids=["off_policy", "on_policy"])
def test_temperatures_in_units_of_the_range_are_those_times_the_range(fields):
    """Catch has returns from -1 to 1."""
    unit = train("return_range", 4.0, **fields)
    plain = train("reward", 4.0, alpha=(8 * 0.05, 8 * 0.01), lam=(8 * 0.5, 8 * 2.0), **fields)
    for a, b in zip(unit.policies, plain.policies, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(unit.curves["unit"], np.full_like(unit.curves["unit"], 8))


def test_a_learned_lambda_falls_below_its_target():
    session = train("reward", lam_schedule="learned")
    lam, drift = np.asarray(session.curves["lam"]), np.asarray(session.curves["drift"])
    assert drift.max() < 0.05 * 0.23  # the smallest target, of kl with three actions
    assert (np.diff(lam, axis=0) < 0).all()


def test_what_a_unit_has_seen_is_kept_in_a_checkpoint(tmp_path):
    whole = train("q_spread")
    part = Session(whole.chunk)
    part.advance(5)
    part.save(tmp_path / "half.npz")
    rest = Session.restore(tmp_path / "half.npz")
    rest.run()
    np.testing.assert_array_equal(whole.policies, rest.policies)
