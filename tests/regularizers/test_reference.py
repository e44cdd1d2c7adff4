"""A reference policy as a potential: h(p) = d(p, mu)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from points import dirichlet, simplex

from mirrorax.errors import UserError
from mirrorax.regularizers import check_drift, check_potential, drift, potential
from mirrorax.regularizers.drifts import ChiSquare
from mirrorax.regularizers.reference import UNIFORM, FrozenPolicy, Table, To, at_observations

DRIFTS = ["kl", "forward_kl", "bregman(lp(2))", "bregman(tsallis(0.5))", "squared_tv"]


@given(p=simplex(5))
def test_to_the_uniform_policy_by_kl_is_entropy_plus_a_constant(p):
    h, entropy = To(UNIFORM, drift("kl")), potential("entropy")
    assert h.value(p) == pytest.approx(entropy.value(p) + math.log(5), abs=1e-12)


def test_so_are_its_slopes_and_its_divergence(x64):
    h, entropy = To(UNIFORM, drift("kl")), potential("entropy")
    p, q = dirichlet(1, 20, 4), dirichlet(2, 20, 4)

    def along_the_simplex(gradient):
        return gradient - gradient.mean(-1, keepdims=True)

    np.testing.assert_allclose(
        along_the_simplex(h.grad(p)), along_the_simplex(entropy.grad(p)), atol=1e-12
    )
    np.testing.assert_allclose(
        drift("kl").value(p, q), h._bregman(p, q, np.log(p), np.log(q)), atol=1e-12
    )
    logits = jnp.log(jnp.asarray(p)) + 3
    slopes = [jax.grad(lambda x, h=h: h.value_from_logits(x).sum())(logits) for h in (h, entropy)]
    np.testing.assert_allclose(*slopes, atol=1e-12)


@pytest.mark.parametrize("name", DRIFTS)
def test_it_is_the_distance_from_the_table(name):
    p, mu = dirichlet(3, 6, 4), dirichlet(4, 6, 4)
    h = To(Table(mu), drift(name))
    np.testing.assert_array_equal(h.value(p), drift(name).value(p, mu))
    np.testing.assert_allclose(h.value(mu), 0, atol=1e-15)
    np.testing.assert_allclose(h.value_from_logits(np.log(p)), h.value(p), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*DRIFTS, "kl"])
def test_it_is_a_potential(name):
    check = check_potential(To(Table(dirichlet(5, 1, 4, 3.0)[0]), drift(name)))
    assert check, str(check)


@pytest.mark.parametrize("name", ["kl", "bregman(lp(2))", "squared_tv"])
def test_its_range_is_from_zero_to_the_farthest_vertex(name):
    mu = dirichlet(6, 3, 4, 2.0)
    low, high = To(Table(mu), drift(name)).range(4)
    assert low == 0
    vertices = [drift(name).value(np.eye(4)[i], row) for row in mu for i in range(4)]
    assert high == pytest.approx(max(vertices))
    assert To(UNIFORM, drift("kl")).range(4)[1] == pytest.approx(math.log(4))
    assert To(UNIFORM, drift("forward_kl")).range(4)[1] == math.inf


def test_a_frozen_policy_is_a_table_of_its_logits_at_the_observations():
    def network(parameters, x):
        return parameters.reshape(3, 2) @ x

    parameters = (np.arange(6) / 7).astype(np.float32).tobytes()
    frozen, again = (FrozenPolicy(network, parameters, "7") for _ in range(2))
    assert (frozen, hash(frozen)) == (again, hash(again))
    assert frozen != FrozenPolicy(network, parameters, "8")
    rng = np.random.default_rng(0)
    x, logits = jnp.asarray(rng.normal(size=(2, 5)), jnp.float32), rng.normal(size=(5, 3))
    h = To(frozen, drift("kl"))

    @jax.jit
    def value(x, logits):
        return at_observations(h, x).value_from_logits(logits)

    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    mu = np.exp(np.asarray(network(np.arange(6) / 7, np.asarray(x)), float)).T
    expected = drift("kl").value(p, mu / mu.sum(-1, keepdims=True))
    np.testing.assert_allclose(value(x, jnp.asarray(logits, jnp.float32)), expected, rtol=1e-4)
    entropy = potential("entropy")
    assert at_observations(entropy, x) is entropy
    with pytest.raises(UserError, match="its reference is a network"):
        h.value(p)


@pytest.mark.parametrize("bad", [[0.5, 0.6], [-0.5, 1.5], 1.0])
def test_a_table_holds_probabilities(bad):
    with pytest.raises(UserError, match="rows that sum to one"):
        Table(bad)


def test_a_table_fits_the_policy():
    with pytest.raises(UserError, match="the reference has 3 actions, the policy 4"):
        To(Table(np.full(3, 1 / 3)), drift("kl")).value(np.full(4, 0.25))


@given(p=simplex(5), q=simplex(5, smallest=0.05))
def test_chi_square_is_its_definition(p, q):
    expected = ((p - q) ** 2 / q).sum()
    assert ChiSquare().value(p, q) == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_chi_square_is_a_drift_and_safe_at_the_boundary(x64):
    assert check_drift(ChiSquare())
    assert ChiSquare().value(np.array([0.5, 0.5]), np.array([1.0, 0.0])) == math.inf
    assert ChiSquare().value(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0
    p, q = (jnp.asarray(dirichlet(s, 6, 4, 3.0)) for s in (1, 2))
    for argument in (0, 1):
        ours = jax.grad(lambda *x: ChiSquare().value(*x).sum(), argument)(p, q)
        theirs = jax.grad(lambda p, q: jnp.sum((p - q) ** 2 / q), argument)(p, q)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
    far = jnp.asarray([[300.0, 0.0], [0.0, 300.0]], jnp.float32)
    value, slope = jax.value_and_grad(lambda x: ChiSquare().value_from_logits(x, -x).sum())(far)
    assert jnp.isfinite(value)
    assert jnp.isfinite(slope).all()
