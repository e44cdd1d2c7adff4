"""Exact values against brute force: sums over time, closed forms, and other optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from mirrorax.errors import UserError
from mirrorax.tabular import (
    catch,
    deepsea,
    evaluate,
    garnet,
    optimum,
    to_paper,
    to_sac,
    uniform_policy,
)

POTENTIALS = ["entropy", "tsallis(0.5)", "lp(2)", "max", "zero"]


def random_policy(mdp, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(mdp.num_actions), mdp.rewards.shape[:-1])


def by_summing(mdp, policy, h_values, alpha, horizon=3000):
    """Propagate the state distribution from each state and add up what it earns."""
    alive = ~mdp.terminal
    reward = ((policy * mdp.rewards).sum(-1) - alpha * h_values) * alive
    moves = np.einsum("sa,sat->st", policy, mdp.transitions) * alive[:, None] * alive[None, :]
    total, where = np.zeros(mdp.num_states), np.eye(mdp.num_states)
    for t in range(horizon):
        total += mdp.gamma**t * where @ reward
        where = where @ moves
    return total


def entropy(p):
    return (p * np.log(p)).sum(-1)


@pytest.mark.parametrize(
    "mdp", [garnet(12, 3, seed=2), deepsea(4), catch(4, 3)], ids=lambda m: m.name
)
def test_value_is_the_discounted_sum(mdp):
    pi = random_policy(mdp)
    expected = by_summing(mdp, pi, entropy(pi), 0.3)
    np.testing.assert_allclose(evaluate(mdp, pi, "entropy", 0.3).v, expected, atol=1e-9)


@pytest.mark.parametrize("potential", POTENTIALS)
def test_both_definitions_and_their_conversion(potential):
    mdp, alpha = garnet(10, 4, seed=3), 0.7
    pi = random_policy(mdp, 1)
    values = evaluate(mdp, pi, potential, alpha)
    # V = <pi, Q> in the paper's definition, <pi, Q> - alpha h in Soft Actor-Critic's.
    from mirrorax.regularizers import potential as build

    h = build(potential).value(pi)
    np.testing.assert_allclose((pi * values.q).sum(-1), values.v, atol=1e-10)
    np.testing.assert_allclose((pi * values.q_sac).sum(-1) - alpha * h, values.v, atol=1e-10)
    np.testing.assert_allclose(to_sac(values.q, pi, potential, alpha), values.q_sac, atol=1e-12)
    np.testing.assert_allclose(to_paper(values.q_sac, pi, potential, alpha), values.q, atol=1e-12)
    bellman = mdp.rewards + mdp.gamma * mdp.transitions @ values.v
    np.testing.assert_allclose(values.q_sac, bellman, atol=1e-10)


def test_a_grid_of_policies_and_temperatures_is_solved_at_once():
    mdp = garnet(8, 3, seed=4)
    policies = np.stack([random_policy(mdp, s) for s in range(5)])
    alphas = np.array([0, 0.1, 1, 10, 3.0])
    together = evaluate(mdp, policies, "tsallis(0.5)", alphas)
    for i in range(5):
        alone = evaluate(mdp, policies[i], "tsallis(0.5)", alphas[i])
        np.testing.assert_allclose(together.q[i], alone.q, rtol=1e-12)


def test_optimum_with_entropy_is_the_log_sum_exp_fixed_point():
    mdp, alpha = garnet(15, 4, seed=5, gamma=0.9), 0.5
    v = np.zeros(15)
    for _ in range(2000):
        q = mdp.rewards + mdp.gamma * mdp.transitions @ v
        v = alpha * logsumexp(q / alpha, axis=-1)
    best = optimum(mdp, "entropy", alpha)
    np.testing.assert_allclose(best.v, v, atol=1e-10)
    np.testing.assert_allclose(best.policy, np.exp((q - v[:, None]) / alpha), atol=1e-9)


def test_optimum_without_regulariser_is_the_best_of_all_deterministic_policies():
    mdp = garnet(5, 2, branching=2, seed=6)
    every = [
        evaluate(mdp, np.eye(2)[[int(bit) for bit in np.binary_repr(code, 5)]]).v
        for code in range(32)
    ]
    np.testing.assert_allclose(optimum(mdp).v, np.max(every, axis=0), atol=1e-10)


@pytest.mark.parametrize("potential", POTENTIALS)
def test_no_policy_beats_the_optimum(potential):
    mdp = garnet(10, 3, seed=7, gamma=0.9)
    best = optimum(mdp, potential, 0.4)
    np.testing.assert_allclose(evaluate(mdp, best.policy, potential, 0.4).v, best.v, atol=1e-9)
    for seed in range(200):
        pi = random_policy(mdp, seed)
        near = 0.99 * best.policy + 0.01 * pi
        for policy in (pi, near):
            assert (evaluate(mdp, policy, potential, 0.4).v <= best.v + 1e-9).all()


def test_deepsea_and_catch_have_the_known_best_returns():
    mdp = deepsea(8, gamma=0.999999)
    assert float((optimum(mdp).v * mdp.initial).sum()) == pytest.approx(0.99, abs=1e-4)
    mdp = catch(gamma=0.5)
    assert float((optimum(mdp).v * mdp.initial).sum()) == pytest.approx(0.5**8)


def test_a_policy_of_the_wrong_shape_is_refused():
    mdp = garnet(4, 3)
    with pytest.raises(UserError, match=r"policy: shape \(3, 4\)"):
        evaluate(mdp, np.full((3, 4), 0.25))
    with pytest.raises(UserError, match="policy: row"):
        evaluate(mdp, np.ones((4, 3)))
    with pytest.raises(UserError, match=r"alpha: -1\.0 is not allowed"):
        evaluate(mdp, uniform_policy(mdp), "entropy", -1)
