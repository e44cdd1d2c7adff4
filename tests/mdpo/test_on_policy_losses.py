"""The on-policy actor objective: known algorithms are points of it, gradient for gradient.

Each oracle is written from its paper's formula, batch first, without the library's functions.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.mdpo.on_policy import actor_loss
from mirrorax.regularizers import drift, potential
from mirrorax.regularizers.functionals import DPO, PPOClip

CLOSE = {"rtol": 2e-5, "atol": 2e-6}


@pytest.fixture(scope="module")
def batch():
    """Logits far enough from the old ones that many ratios leave the clip range."""
    rng = np.random.default_rng(5)
    logits, old = (jnp.asarray(rng.normal(size=(4, 64)), jnp.float32) for _ in range(2))
    action = jnp.asarray(rng.integers(0, 4, 64), jnp.int32)
    advantage = jnp.asarray(rng.normal(size=64) * 2, jnp.float32)
    return logits, old, action, advantage


def gradient(batch, h, d, alpha, lam):
    logits, old, action, advantage = batch

    def loss(logits):
        return actor_loss(logits, old, action, advantage, alpha, lam, potential(h), d)[0]

    return jax.jit(jax.grad(loss))(logits)


def log_prob(logits, action):
    """log pi(a | s) of [actions, batch] logits, by gathering."""
    logp = logits.T - jax.scipy.special.logsumexp(logits.T, axis=1, keepdims=True)
    return jnp.take_along_axis(logp, action[:, None], axis=1)[:, 0]


def ppo(batch, eps, entropy_coefficient):
    """PPO's clipped surrogate with an entropy bonus (Schulman et al., 2017, equations 7 and 9)."""
    logits, old, action, advantage = batch

    def loss(logits):
        ratio = jnp.exp(log_prob(logits, action) - log_prob(old, action))
        clipped = jnp.where(ratio > 1 + eps, 1 + eps, jnp.where(ratio < 1 - eps, 1 - eps, ratio))
        surrogate = jnp.where(
            ratio * advantage < clipped * advantage, ratio * advantage, clipped * advantage
        )
        p = jax.nn.softmax(logits.T)
        entropy = -jnp.sum(p * jnp.log(p), axis=1)
        return -jnp.mean(surrogate) - entropy_coefficient * jnp.mean(entropy)

    return jax.grad(loss)(logits)


@pytest.mark.parametrize("eps", [0.1, 0.2, 0.5])
def test_without_h_and_with_clipping_it_is_ppo(batch, eps):
    ratio = jnp.exp(log_prob(batch[0], batch[2]) - log_prob(batch[1], batch[2]))
    assert 0.2 < float(jnp.mean(jnp.abs(ratio - 1) > eps)) < 0.98  # both sides of the clip
    found = gradient(batch, "zero", PPOClip(eps), 0.0, 1.0)
    np.testing.assert_allclose(found, ppo(batch, eps, 0.0), **CLOSE)


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_with_entropy_and_clipping_it_is_ppo_with_its_bonus(batch, alpha):
    found = gradient(batch, "entropy", PPOClip(0.2), alpha, 1.0)
    np.testing.assert_allclose(found, ppo(batch, 0.2, alpha), **CLOSE)
    assert np.abs(found - ppo(batch, 0.2, 0.0)).max() > 1e-4


def test_at_the_policy_of_the_rollout_it_is_a2c(batch):
    """Mnih et al., 2016: -A grad log pi(a | s), and the entropy bonus."""
    _, old, action, advantage = batch
    here = (old, old, action, advantage)

    def a2c(logits, bonus):
        p = jax.nn.softmax(logits.T)
        entropy = -jnp.sum(p * jnp.log(p), axis=1)
        return jnp.mean(-advantage * log_prob(logits, action) - bonus * entropy)

    found = gradient(here, "zero", drift("zero"), 0.0, 0.0)
    np.testing.assert_allclose(found, jax.grad(a2c)(old, 0.0), **CLOSE)
    found = gradient(here, "entropy", drift("zero"), 0.05, 0.0)
    np.testing.assert_allclose(found, jax.grad(a2c)(old, 0.05), **CLOSE)
    # No drift pulls at the policy it is measured from: one epoch in one batch is A2C with any.
    for d in (drift("kl"), drift("bregman(lp(2))"), PPOClip(0.2), DPO()):
        np.testing.assert_allclose(
            gradient(here, "zero", d, 0.0, 5.0), jax.grad(a2c)(old, 0.0), **CLOSE
        )


@pytest.mark.parametrize(
    ("name", "divergence"),
    [
        # MDPO's and mirror descent's direction: the new policy first.
        ("kl", lambda p, q: jnp.sum(p * jnp.log(p / q), axis=1)),
        # TRPO's and PPO's penalty: the old policy first (Schulman et al., 2015, 2017).
        ("forward_kl", lambda p, q: jnp.sum(q * jnp.log(q / p), axis=1)),
    ],
)
def test_with_kl_it_is_the_penalised_surrogate(batch, name, divergence):
    logits, old, action, advantage = batch

    def loss(logits):
        p, q = jax.nn.softmax(logits.T), jax.nn.softmax(old.T)
        ratio = jnp.exp(log_prob(logits, action) - log_prob(old, action))
        return jnp.mean(-ratio * advantage + 0.7 * divergence(p, q))

    found = gradient(batch, "zero", drift(name), 0.0, 0.7)
    np.testing.assert_allclose(found, jax.grad(loss)(logits), **CLOSE)


def test_dpo_is_the_discovered_objective(batch):
    """Lu et al., 2022, with their a = 2 and b = 0.6."""
    logits, old, action, advantage = batch

    def loss(logits):
        change = log_prob(logits, action) - log_prob(old, action)
        ratio = jnp.exp(change)
        up, down = (ratio - 1) * advantage, change * advantage
        first = jnp.maximum(up - 2 * jnp.tanh(up / 2), 0)
        second = jnp.maximum(down - 0.6 * jnp.tanh(down / 0.6), 0)
        return -jnp.mean(ratio * advantage - jnp.where(advantage >= 0, first, second))

    found = gradient(batch, "zero", DPO(), 0.0, 1.0)
    np.testing.assert_allclose(found, jax.grad(loss)(logits), **CLOSE)


@pytest.mark.parametrize("h", ["tsallis(0.5)", "lp(2)", "max"])
@pytest.mark.parametrize("d", ["kl", "bregman(tsallis(0.5))", "squared_tv"])
def test_any_pair_is_the_sum_of_its_terms(batch, h, d):
    logits, old, action, advantage = batch
    loss, terms = actor_loss(*batch, 0.3, 0.7, potential(h), drift(d))
    p, q = (np.asarray(jax.nn.softmax(x.T), float) for x in (logits, old))
    ratio = p[np.arange(64), action] / q[np.arange(64), action]
    expected = (
        np.mean(ratio * np.asarray(advantage, float)),
        potential(h).value(p).mean(),
        drift(d).value(p, q).mean(),
    )
    np.testing.assert_allclose(terms, expected, rtol=1e-4)
    assert float(loss) == pytest.approx(-expected[0] + 0.3 * expected[1] + 0.7 * expected[2], 1e-4)
