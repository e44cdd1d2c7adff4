"""Every gymnax environment with discrete actions, by its name."""

import gymnax.registration
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.registration import registered_envs

from mirrorax.envs import adapter, suite
from mirrorax.envs.adapter import Environment, Step, random_return
from mirrorax.errors import UserError
from mirrorax.mdpo.contract import check_contract

#: it downloads its images when it is made, which a test must not
DOWNLOADS = "MNISTBandit-bsuite"
OURS = sorted(set(suite.ALIASES) | set(suite._GYMNAX))


def test_every_registered_environment_is_known_or_refused_with_a_reason():
    assert sorted(registered_envs) == sorted([*OURS, *suite._CONTINUOUS])
    for name in suite._CONTINUOUS:
        env, params = gymnax.registration.make(name)
        assert not hasattr(env.action_space(params), "n")
        with pytest.raises(UserError, match="continuous actions"):
            suite.environment(name)


@pytest.mark.parametrize("name", [name for name in suite._GYMNAX if name != DOWNLOADS])
def test_each_keeps_to_the_contract_and_is_what_the_table_says(name):
    """Shapes and dtypes only: nothing is compiled."""
    env, spec = adapter.make(name), suite.environment(name)
    check_contract(env)
    theirs, params = gymnax.registration.make(name)
    assert env.num_actions == theirs.action_space(params).n
    assert env.memory_dtype == ("uint8" if spec.binary else "float32")
    assert env.return_bounds == spec.bounds


# A vector, a board and a number are observed; the first is stepped to its time limit.
@pytest.mark.parametrize(
    ("name", "steps"),
    [("MountainCar-v0", 200), ("Breakout-MinAtar", 60), ("FrozenLake-misc", 60)],
)
def test_the_adapter_steps_as_gymnax_does(name, steps):
    env = adapter.make(name)
    theirs, params = gymnax.registration.make(name)
    step, other_step = jax.jit(env.step), jax.jit(theirs.step_env)
    rng = np.random.default_rng(0)
    words = jnp.asarray(rng.integers(0, 2**32, 2, dtype=np.uint32))
    state = env.reset(words)
    seen, other = theirs.reset_env(adapter.key(words), params)
    truncated = 0
    for _ in range(steps):
        # To rounding: the two are compiled into different programs.
        np.testing.assert_allclose(
            env.observe(env.remember(state)).ravel(),
            np.asarray(seen, np.float32).ravel(),
            atol=1e-6,
        )
        words = jnp.asarray(rng.integers(0, 2**32, 2, dtype=np.uint32))
        action = jnp.int32(rng.integers(env.num_actions))
        after = step(state, action, words)
        seen, other, reward, terminated, _ = other_step(adapter.key(words), other, action, params)
        assert float(after.reward) == pytest.approx(float(reward), rel=1e-6)
        assert bool(after.terminated) == bool(terminated)
        assert bool(after.truncated) == bool(theirs.is_truncated(other, params))
        truncated += bool(after.truncated)
        state = after.state
        if terminated or after.truncated:
            state = env.reset(words)
            seen, other = theirs.reset_env(adapter.key(words), params)
    assert truncated == (name == "MountainCar-v0")


@pytest.mark.parametrize("name", [name for name, known in suite._GYMNAX.items() if known.binary])
def test_a_board_called_binary_holds_zeros_and_ones_alone(name):
    """Random play of many episodes: what one byte cannot hold would be lost silently."""
    env, params = gymnax.registration.make(name)
    keys = jax.random.split(jax.random.key(1), 16)

    def step(carry, key):
        state, fine = carry
        for_action, for_step = jax.random.split(key)
        action = jax.random.randint(for_action, (), 0, env.action_space(params).n)
        seen, state, *_ = env.step(for_step, state, action, params)
        return (state, fine & jnp.all((seen == 0) | (seen == 1))), None

    def play(key):
        seen, state = env.reset(key, params)
        start = (jax.tree.map(jnp.asarray, state), jnp.all((seen == 0) | (seen == 1)))
        return jax.lax.scan(step, start, jax.random.split(key, 200))[0][1]

    # It runs once: to compile is most of the work.
    quickly = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    lowered = jax.jit(lambda keys: jax.lax.map(play, keys)).lower(keys)
    assert bool(jnp.all(lowered.compile(compiler_options=quickly)(keys)))


def test_an_environment_that_gymnax_cannot_make_is_one_line(monkeypatch):
    def fails(*_, **__):
        raise OSError("no\nnetwork")

    monkeypatch.setattr("gymnax.make", fails)
    with pytest.raises(UserError, match="gymnax cannot make 'MNISTBandit-bsuite': OSError: no net"):
        adapter.make(DOWNLOADS)


class Coin(Environment):
    """Ten steps; action 1 pays 1, action 0 pays nothing: a random policy earns 5 on average."""

    name = "Coin"
    num_actions, return_bounds, max_steps = 2, None, 10

    def reset(self, noise):
        return jnp.zeros(1)

    def step(self, state, action, noise):
        time = state + 1
        return Step(time, action.astype(jnp.float32), time[0] >= 10, jnp.bool_(False))

    def remember(self, state):
        return state

    def observe(self, memory):
        return memory


def test_a_random_policys_return_is_estimated_from_fixed_random_numbers():
    env = Coin()
    found = random_return(env, 400)
    # A binomial mean: 5, with a standard error of sqrt(2.5 / 400).
    assert abs(found - 5) < 4 * (2.5 / 400) ** 0.5
    random_return.cache_clear()
    assert random_return(env, 400) == found


def test_bounds_that_nobody_knows_are_said_to_be_unknown():
    spec = suite.environment("Breakout-MinAtar")
    assert spec.bounds is None
    assert suite.estimated_bounds(2.0, 7.0) == (2.0, 7.0)
    assert suite.estimated_bounds(2.0, 1.0) == (2.0, 3.0)
    assert "1 the best mean return of a run here (7)" in suite.estimated_in_words(2.0, 7.0)
    assert "no run here was better than random" in suite.estimated_in_words(2.0, 3.0)
