"""Exact steps with a reference policy, and with the chi-square drift, against a conic solver."""

from __future__ import annotations

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers import drift, potential
from mirrorax.regularizers.drifts import ChiSquare
from mirrorax.regularizers.reference import UNIFORM, Table, To
from mirrorax.tabular import garnet, mirror_step, objective, solve

DISTANCES = {
    "kl": lambda p, q: cp.sum(cp.rel_entr(p, q)),
    "forward_kl": lambda p, q: cp.sum(cp.rel_entr(q, p)),
    "bregman(lp(2))": lambda p, q: cp.sum_squares(p - q),
    "chi_square": lambda p, q: cp.sum(cp.multiply(1 / q, cp.square(p - q))),
    "squared_tv": lambda p, q: cp.square(cp.norm1(p - q) / 2),
    "zero": lambda p, q: 0,
}


def made(name):
    return ChiSquare() if name == "chi_square" else drift(name)


def instance(seed, rows=3, n=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, n)) * 2, *rng.dirichlet(np.ones(n), (2, rows))


def by_cvxpy(q_values, q, mu, d_ref, d, alpha, lam):
    p = cp.Variable(len(q))
    goal = -q_values @ p + alpha * DISTANCES[d_ref](p, mu) + lam * DISTANCES[d](p, q)
    problem = cp.Problem(cp.Minimize(goal), [p >= 0, cp.sum(p) == 1])
    problem.solve(solver=cp.CLARABEL)
    value = np.maximum(p.value, 0)
    return value / value.sum()


PAIRS = [(a, b) for a in DISTANCES for b in DISTANCES if {a, b} != {"squared_tv"} and a != "zero"]


@pytest.mark.parametrize(("d_ref", "d"), PAIRS)
def test_the_step_is_no_worse_than_a_conic_solvers(d_ref, d):
    for seed, (alpha, lam) in enumerate([(0.3, 0.7), (2.0, 0.05), (0.01, 3.0)]):
        q_values, q, mu = instance(seed)
        h = To(Table(mu), made(d_ref))
        step = mirror_step(q_values, q, h, made(d), alpha, lam)
        np.testing.assert_allclose(step.sum(-1), 1, atol=1e-12)
        ours = objective(step, q_values, q, h, made(d), alpha, lam)
        others = np.stack(
            [by_cvxpy(*row, d_ref, d, alpha, lam) for row in zip(q_values, q, mu, strict=True)]
        )
        theirs = objective(others, q_values, q, h, made(d), alpha, lam)
        assert (ours <= theirs + 1e-9 * (1 + np.abs(theirs))).all()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4)


def test_kl_to_a_reference_and_kl_to_the_old_policy_have_a_closed_form():
    """pi = softmax((Q + alpha log mu + lambda log q) / (alpha + lambda))."""
    q_values, q, mu = instance(7)
    logits = (q_values + 0.4 * np.log(mu) + 1.5 * np.log(q)) / 1.9
    expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    step = mirror_step(q_values, q, To(Table(mu), drift("kl")), "kl", 0.4, 1.5)
    np.testing.assert_allclose(step, expected, atol=1e-13)


@pytest.mark.parametrize("d", ["kl", "forward_kl", "bregman(tsallis(0.5))", "bregman(max)", "zero"])
def test_to_the_uniform_policy_by_kl_is_the_step_of_entropy(d):
    q_values, q, _ = instance(8)
    found = mirror_step(q_values, q, To(UNIFORM, drift("kl")), d, 0.3, 0.7)
    np.testing.assert_allclose(found, mirror_step(q_values, q, "entropy", d, 0.3, 0.7), atol=1e-12)


def test_an_action_that_the_reference_never_takes_stays_at_zero():
    q_values, q, mu = instance(9)
    mu[:, 1] = 0
    mu /= mu.sum(-1, keepdims=True)
    for name in ("kl", "chi_square", "bregman(tsallis(0.5))"):
        step = mirror_step(q_values, q, To(Table(mu), made(name)), "bregman(lp(2))", 0.3, 0.7)
        assert (step[:, 1] == 0).all()
        np.testing.assert_allclose(step.sum(-1), 1, atol=1e-12)


def test_a_users_own_distance_from_a_reference():
    d = mirrorax.register_drift("hellinger_to", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())
    q_values, q, mu = instance(10)
    h = To(Table(mu), d)
    step = mirror_step(q_values, q, h, "kl", 0.5, 0.2)
    ours = objective(step, q_values, q, h, "kl", 0.5, 0.2)
    rng = np.random.default_rng(0)
    for _ in range(200):
        near = step * np.exp(rng.normal(size=step.shape) * 0.1)
        near /= near.sum(-1, keepdims=True)
        assert (ours <= objective(near, q_values, q, h, "kl", 0.5, 0.2) + 1e-12).all()


@pytest.mark.parametrize(
    ("h", "d", "message"),
    [
        (To(UNIFORM, drift("squared_tv")), "squared_tv", "no exact mirror step"),
        (To(UNIFORM, drift("bregman(max)")), ChiSquare(), "treats all actions alike"),
    ],
)
def test_what_cannot_be_solved_exactly_is_refused(h, d, message):
    q_values, q, _ = instance(11)
    with pytest.raises(UserError, match=message):
        mirror_step(q_values, q, h, d, 0.3, 0.7)


def test_a_table_has_a_row_for_each_state():
    q_values, q, mu = instance(12)
    with pytest.raises(UserError, match="does not broadcast"):
        mirror_step(q_values, q, To(Table(mu[:2]), drift("kl")), "kl", 0.3, 0.7)


@pytest.mark.parametrize("name", ["kl", "forward_kl", "bregman(lp(2))", "chi_square"])
def test_mirror_descent_reaches_the_optimum_near_the_reference(name):
    """On a grid of temperatures; the stronger alpha, the closer the optimum is to mu."""
    mdp = garnet(6, 3, gamma=0.8, seed=3)
    mu = np.random.default_rng(1).dirichlet(np.full(3, 2.0), 6)
    alphas = np.array([0.05, 0.5, 50.0])
    trace = solve(mdp, To(Table(mu), made(name)), "kl", alphas, 0.5, 400)
    assert (trace.gap[-1] <= 1e-6).all()
    distance = np.abs(trace.policy - mu).max((-1, -2))
    assert (np.diff(distance) < 0).all()
    assert distance[-1] < 0.05


def test_the_whole_solution_to_the_uniform_policy_is_that_of_entropy():
    """Values differ by the constant alpha log n / (1 - gamma), policies not at all."""
    mdp = garnet(5, 3, gamma=0.9, seed=2)
    ours = solve(mdp, To(UNIFORM, drift("kl")), "kl", 0.1, 0.3, 20)
    theirs = solve(mdp, potential("entropy"), "kl", 0.1, 0.3, 20)
    np.testing.assert_allclose(ours.policies, theirs.policies, atol=1e-10)
    shift = 0.1 * np.log(3) / (1 - 0.9)
    np.testing.assert_allclose(ours.values + shift, theirs.values, atol=1e-9)
    np.testing.assert_allclose(ours.gap, theirs.gap, atol=1e-9)


def test_jax_sees_the_same_potential():
    h = To(Table(np.array([0.2, 0.8])), drift("kl"))
    p = np.array([0.5, 0.5])
    assert float(h.value(jnp.asarray(p, jnp.float32))) == pytest.approx(float(h.value(p)), rel=1e-6)
