"""Advantages against a plain loop; ends of episodes of both kinds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.mdpo.advantages import estimate_advantages, normalized


def by_summing(reward, value, next_value, terminated, truncated, gamma, lam):
    """Add up the discounted errors of each step's future, step by step, in float64."""
    advantages = []
    for start in range(len(reward)):
        total, weight = 0.0, 1.0
        for t in range(start, len(reward)):
            future = 0.0 if terminated[t] else gamma * next_value[t]
            total += weight * (reward[t] + future - value[t])
            weight *= gamma * lam
            if terminated[t] or truncated[t]:
                break
        advantages.append(total)
    return np.array(advantages)


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_recursion_is_the_sum(lam, seed, x64):
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.normal(size=(3, 40))
    terminated, truncated = rng.random((2, 40)) < 0.1
    follows, ended = 1.0 - terminated, terminated | truncated
    found = estimate_advantages(
        *map(jnp.asarray, (reward, value, next_value, follows, ended)), 0.9, lam
    )
    expected = by_summing(reward, value, next_value, terminated, truncated, 0.9, lam)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_cut_episode_goes_on_in_its_value_and_an_ended_one_does_not(x64):
    """Steps of reward 1 whose continuation is worth 10; the next episode is worth 1000."""
    one, last = jnp.ones(2), jnp.asarray([True, False])
    values = (jnp.zeros(2), jnp.asarray([10.0, 1000.0]))
    cut = estimate_advantages(one, *values, one, last, 0.5, 1.0)
    ended = estimate_advantages(one, *values, 1.0 - last, last, 0.5, 1.0)
    assert cut[0] == 1 + 0.5 * 10
    assert ended[0] == 1
    for advantage in (cut, ended):
        assert advantage[1] == 1 + 0.5 * 1000


def test_with_exact_values_of_a_markov_chain_every_advantage_is_zero_on_average(x64):
    """In a deterministic cycle, V of the rewards makes every temporal difference vanish."""
    gamma, rewards = 0.8, np.array([1.0, -2.0, 0.5])
    moves = np.roll(np.eye(3), 1, axis=1)
    v = np.linalg.solve(np.eye(3) - gamma * moves, rewards)
    states = np.arange(30) % 3
    found = estimate_advantages(
        jnp.asarray(rewards[states]),
        jnp.asarray(v[states]),
        jnp.asarray(v[(states + 1) % 3]),
        jnp.ones(30),
        jnp.zeros(30, bool),
        gamma,
        0.95,
    )
    np.testing.assert_allclose(found, 0, atol=1e-12)


def test_environments_are_added_outside():
    rng = np.random.default_rng(4)
    arrays = [jnp.asarray(x, jnp.float32) for x in rng.normal(size=(3, 12, 5))]
    ended = jnp.asarray(rng.random((12, 5)) < 0.2)
    flags = (1.0 - ended * jnp.asarray(rng.random((12, 5)) < 0.5), ended)
    batched = jax.vmap(lambda *x: estimate_advantages(*x, 0.99, 0.95), in_axes=1, out_axes=1)(
        *arrays, *flags
    )
    for env in range(5):
        alone = estimate_advantages(*(x[:, env] for x in (*arrays, *flags)), 0.99, 0.95)
        np.testing.assert_allclose(batched[:, env], alone, rtol=1e-6, atol=1e-6)


def test_normalisation():
    x = normalized(jnp.asarray([1.0, 3.0, 5.0, 7.0]))
    assert float(x.mean()) == pytest.approx(0, abs=1e-6)
    assert float(x.std()) == pytest.approx(1, rel=1e-6)
    np.testing.assert_array_equal(normalized(jnp.full(4, 2.0)), np.zeros(4))
