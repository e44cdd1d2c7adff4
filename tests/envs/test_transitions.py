"""Our own environments against gymnax, transition by transition."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnax.environments.bsuite import catch, deep_sea
from gymnax.environments.classic_control import acrobot, cartpole

from mirrorax.envs import adapter, boards, physics, suite
from mirrorax.errors import UserError

NO_NOISE = jnp.zeros(0, jnp.uint32)


def step_all(env, states, actions):
    after = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))(states, actions, NO_NOISE)
    seen = jax.vmap(lambda state: env.observe(env.remember(state)))(after.state)
    return after, np.asarray(seen)


def gymnax_step_all(env, params, states, actions):
    keys = jax.random.split(jax.random.key(0), len(actions))
    step = jax.jit(jax.vmap(env.step_env, in_axes=(0, 0, 0, None)))
    seen, state, reward, terminated, _ = step(keys, states, actions, params)
    truncated = jax.vmap(env.is_truncated, in_axes=(0, None))(state, params)
    return np.asarray(seen).reshape(len(actions), -1), reward, terminated, truncated


def test_catch_has_gymnax_transitions_everywhere():
    rows, columns = 4, 7
    env, theirs = boards.Catch(rows, columns), catch.Catch(rows, columns)
    points = itertools.product(range(columns), range(rows - 1), range(columns), range(3))
    ball_x, ball_y, paddle, action = jnp.asarray(list(points), jnp.int32).T
    after, seen = step_all(env, boards.CatchState(ball_x, ball_y, paddle), action)
    count = len(action)
    states = catch.EnvState(
        time=ball_y,
        ball_x=ball_x,
        ball_y=ball_y,
        paddle_x=paddle,
        paddle_y=jnp.full(count, rows - 1),
        prev_done=jnp.zeros(count, bool),
    )
    expected = gymnax_step_all(theirs, theirs.default_params, states, action)
    found = (seen, after.reward, after.terminated, after.truncated)
    for ours, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(other))


def test_deepsea_has_gymnax_transitions_everywhere():
    size = 5
    env, theirs = boards.DeepSea(size), deep_sea.DeepSea(size)
    params = theirs.default_params.replace(randomize_actions=False)
    # The reachable states: a column is at most its row.
    points = [p for p in itertools.product(range(size), range(size), range(2)) if p[1] <= p[0]]
    row, column, action = jnp.asarray(points, jnp.int32).T
    after, seen = step_all(env, boards.DeepSeaState(row, column), action)
    start = theirs.reset_env(jax.random.key(0), params)[1]
    many = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * len(row)), start)
    states = many.replace(row=row, column=column, time=row)
    expected = gymnax_step_all(theirs, params, states, action)
    np.testing.assert_array_equal(seen, expected[0])
    np.testing.assert_allclose(after.reward, expected[1], rtol=0, atol=1e-7)
    np.testing.assert_array_equal(after.terminated, expected[2])
    np.testing.assert_array_equal(after.truncated, expected[3])


def test_moving_right_in_deepsea_returns_099():
    env = boards.DeepSea(8)
    state, total = env.reset(NO_NOISE), 0.0
    for _ in range(8):
        after = env.step(state, jnp.int32(1), NO_NOISE)
        state, total = after.state, total + float(after.reward)
    assert bool(after.terminated)
    assert total == pytest.approx(0.99, abs=1e-6)


def trajectories(env, count=64, steps=60):
    """States along random episodes, which are the states that matter."""
    rng = np.random.default_rng(0)

    def words(number):
        return jnp.asarray(rng.integers(0, 2**32, (count, number), dtype=np.uint32))

    state = jax.vmap(env.reset)(words(env.reset_words))
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, None)))
    reset = jax.jit(jax.vmap(env.reset))
    states, actions = [], []
    for _ in range(steps):
        action = jnp.asarray(rng.integers(0, env.num_actions, count), jnp.int32)
        states.append(state)
        actions.append(action)
        after = step(state, action, NO_NOISE)
        done = after.terminated | after.truncated
        fresh = reset(words(env.reset_words))
        state = jax.tree.map(partial(jnp.where, done), fresh, after.state)
    return jax.tree.map(lambda *x: jnp.concatenate(x), *states), jnp.concatenate(actions)


def test_cartpole_has_gymnax_transitions():
    env, theirs = physics.CartPole(), cartpole.CartPole()
    states, actions = trajectories(env)
    # Also near the time limit, and past the edges.
    states = states._replace(time=jnp.where(actions == 1, 499, states.time), x=states.x * 40)
    after, seen = step_all(env, states, actions)
    x, x_dot, theta, theta_dot, time = states
    other = cartpole.EnvState(time=time, x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)
    params = theirs.default_params
    expected = gymnax_step_all(theirs, params, other, actions)
    np.testing.assert_allclose(seen, expected[0], rtol=1e-6, atol=1e-6)
    inside = np.abs(np.asarray(states.x)) <= 2.4  # gymnax pays nothing after a fall; we never are
    np.testing.assert_array_equal(after.reward[inside], expected[1][inside])
    np.testing.assert_array_equal(after.terminated, expected[2])
    np.testing.assert_array_equal(after.truncated, expected[3])
    assert np.asarray(after.terminated).any()
    assert np.asarray(after.truncated).any()


def test_acrobot_has_gymnax_transitions():
    env, theirs = physics.Acrobot(), acrobot.Acrobot()
    states, actions = trajectories(env)
    # Random play stays low: lift a third of the states so that some steps end the episode.
    theta1 = jnp.where(jnp.arange(len(actions)) % 3 == 0, states.theta1 + 2.8, states.theta1)
    theta1 = jnp.mod(theta1 + jnp.pi, 2 * jnp.pi) - jnp.pi
    sine1, cosine1 = physics.sincos(theta1)
    states = states._replace(theta1=theta1, sine1=sine1, cosine1=cosine1)
    after, seen = step_all(env, states, actions)
    other = acrobot.EnvState(
        time=states.time,
        joint_angle1=states.theta1,
        joint_angle2=states.theta2,
        velocity_1=states.speed1,
        velocity_2=states.speed2,
    )
    expected = gymnax_step_all(theirs, theirs.default_params, other, actions)
    np.testing.assert_allclose(seen, expected[0], rtol=2e-5, atol=2e-5)
    np.testing.assert_array_equal(after.reward, expected[1])
    np.testing.assert_array_equal(after.terminated, expected[2])
    assert np.asarray(after.terminated).any()
    last = env.step(
        jax.tree.map(lambda x: x[0], states._replace(time=states.time + 499)),
        jnp.int32(1),
        NO_NOISE,
    )
    assert bool(last.truncated)


def test_sine_and_cosine_are_exact_to_rounding():
    x = np.linspace(-60, 60, 200_001).astype(np.float32)
    sine, cosine = jax.jit(physics.sincos)(x)
    np.testing.assert_allclose(sine, np.sin(x.astype(np.float64)), rtol=0, atol=1.2e-7)
    np.testing.assert_allclose(cosine, np.cos(x.astype(np.float64)), rtol=0, atol=1.2e-7)


@pytest.mark.parametrize(
    ("env", "low", "high"),
    [(physics.CartPole(), -0.05, 0.05), (physics.Acrobot(), -0.1, 0.1)],
)
def test_first_states_are_uniform_in_a_box(env, low, high):
    words = np.random.default_rng(0).integers(0, 2**32, (4096, 2), dtype=np.uint32)
    first = np.stack(jax.vmap(env.reset)(jnp.asarray(words))[:4])
    assert (first >= low).all()
    assert (first <= high).all()
    # Mean and standard deviation of a uniform variable, within five standard errors.
    width = high - low
    np.testing.assert_allclose(first.mean(1), (low + high) / 2, atol=5 * width / np.sqrt(12 * 4096))
    np.testing.assert_allclose(first.std(1), width / np.sqrt(12), rtol=0.05)
    assert np.abs(np.corrcoef(first) - np.eye(4)).max() < 0.08


def test_first_balls_fall_in_every_column_alike():
    words = np.random.default_rng(0).integers(0, 2**32, (5000, 1), dtype=np.uint32)
    first = jax.vmap(boards.Catch(10, 5).reset)(jnp.asarray(words))
    counts = np.bincount(np.asarray(first.ball_x), minlength=5)
    assert (np.abs(counts - 1000) < 150).all()
    assert (np.asarray(first.paddle_x) == 2).all()


def test_an_environment_without_discrete_actions_is_refused():
    with pytest.raises(UserError, match="no discrete actions"):
        adapter.Gymnax("Pendulum-v1", (-1600.0, 0.0))


def test_random_words_become_numbers_in_range():
    words = jnp.asarray([0, 1, 2**31, 2**32 - 1], jnp.uint32)
    u = adapter.uniform(words)
    np.testing.assert_allclose(u, [0, 0, 0.5, 1 - 2.0**-24], rtol=0, atol=0)
    np.testing.assert_array_equal(adapter.integer(words, 5), [0, 0, 2, 4])


@pytest.mark.parametrize("name", suite.SUITE)
def test_the_known_score_of_random_play_is_that_of_random_play(name):
    returns = np.asarray(adapter._random_returns(adapter.make(name), 400), float)
    error = max(returns.std() / np.sqrt(len(returns)), 1e-3)
    low, high = suite.environment(name).bounds
    known = low + suite.random_score(name) * (high - low)
    assert known == pytest.approx(returns.mean(), abs=4 * error)


def test_other_sizes_have_no_known_score_of_random_play():
    assert suite.random_score("Catch(20x10)") is None
    assert suite.random_score("Breakout-MinAtar") is None
