"""What theory promises of exact Policy Mirror Descent, and nothing more."""

from __future__ import annotations

import numpy as np
import pytest
from points import TABLE_1

from mirrorax.errors import UserError
from mirrorax.regularizers import potential
from mirrorax.tabular import (
    catch,
    chain,
    deepsea,
    evaluate,
    garnet,
    mirror_step,
    optimum,
    promised_rate,
    solve,
    uniform_policy,
)

PAIRS = [
    *TABLE_1,
    ("entropy", "forward_kl"),
    ("lp(2)", "squared_tv"),
    ("zero", "kl"),
]
OWN = ["entropy", "tsallis(0.5)", "tsallis(1.5)", "lp(2)", "lp(3)"]
MDPS = [garnet(15, 4, seed=1, gamma=0.9), chain(6, gamma=0.95), deepsea(4), catch(4, 3)]


# Every pair on a random MDP, two of different kinds on the others.
CASES = [(mdp, h, d) for mdp in MDPS for h, d in (PAIRS if mdp is MDPS[0] else PAIRS[1:3])]


@pytest.mark.parametrize(("mdp", "h", "d"), CASES)
def test_every_step_improves_in_every_state(mdp, h, d):
    """Monotone improvement, for any D >= 0 with D(q, q) = 0."""
    trace = solve(mdp, h, d, 0.1, 0.5, 15)
    room = 1e-10 * (1 + np.abs(trace.values).max())
    assert (np.diff(trace.values, axis=0) >= -room).all()
    assert (trace.gap >= -room).all()


@pytest.mark.parametrize("h", OWN)
@pytest.mark.parametrize(("alpha", "lam"), [(0.5, 0.1), (0.1, 1.0), (1.0, 5.0), (0.3, 0.0)])
def test_linear_convergence_at_the_promised_rate(h, alpha, lam):
    """With D = Bregman(h): ||Q* - Q_{k+1}|| <= gamma rate^k C (Zhan et al. 2023, Theorem 1).

    C = ||Q* - Q_0|| + 2 ||Q* - alpha grad h(pi_0)||, in the definition of Soft Actor-Critic and
    with the best constants per state, which grad h is free up to.
    """
    mdp = garnet(12, 3, seed=2, gamma=0.8)
    trace = solve(mdp, h, f"bregman({h})", alpha, lam, 60)
    rate = float(promised_rate(mdp.gamma, h, f"bregman({h})", alpha, lam))
    assert rate == pytest.approx((lam + 0.8 * alpha) / (lam + alpha))
    best = evaluate(mdp, trace.optimum.policy, h, alpha).q_sac
    errors = [np.abs(best - evaluate(mdp, pi, h, alpha).q_sac).max() for pi in trace.policies]
    dual = best - alpha * potential(h).grad(trace.policies[0])
    centre = (dual.max(-1) + dual.min(-1)) / 2
    constant = errors[0] + 2 * np.abs(dual - centre[:, None]).max()
    floor = 1e-9
    for k, error in enumerate(errors[1:]):
        assert error <= 0.8 * rate**k * constant + floor
    assert float(trace.measured_rate) <= rate + 1e-9
    assert float(trace.promised_rate) == pytest.approx(rate)
    assert trace.gap[-1] <= trace.gap[0] * rate**30


def test_nothing_is_promised_elsewhere():
    for h, d, alpha in [
        ("max", "bregman(max)", 0.1),
        ("entropy", "bregman(lp(2))", 0.1),
        ("entropy", "forward_kl", 0.1),
        ("entropy", "kl", 0.0),
        ("lp(1)", "bregman(lp(1))", 0.1),
        ("zero", "bregman(zero)", 0.1),
    ]:
        assert promised_rate(0.9, h, d, alpha, 1.0) is None
    assert promised_rate(0.9, "tsallis(1)", "kl", 0.1, 1.0) is not None
    mdp = garnet(5, 2)
    assert solve(mdp, "entropy", "kl", lambda k: 0.1, 1.0, 2).promised_rate is None
    assert solve(mdp, "entropy", "kl", 0.1, 1.0, 2, noise=0.1).promised_rate is None


@pytest.mark.parametrize("d", ["kl", "bregman(lp(2))", "bregman(tsallis(0.5))"])
def test_without_mdp_regulariser_it_reaches_the_optimum_at_the_known_sublinear_rate(d):
    """V* - V_k <= (lam D_0 / (1 - gamma) + 1 / (1 - gamma)^2) / (k + 1), rewards in [0, 1].

    Xiao (2022), Theorem 8; D_0 is the largest D(pi*, uniform).
    """
    mdp = garnet(12, 3, seed=3, gamma=0.8)
    rewards = (mdp.rewards - mdp.rewards.min()) / np.ptp(mdp.rewards)
    mdp = type(mdp)(mdp.transitions, rewards, mdp.gamma)
    lam = 2.0
    trace = solve(mdp, "zero", d, 0.0, lam, 300)
    from mirrorax.regularizers import drift

    start = drift(d).value(trace.optimum.policy, trace.policies[0]).max()
    bound = lam * start / 0.2 + 1 / 0.2**2
    assert (trace.gap <= bound / (1 + np.arange(301)) + 1e-9).all()
    assert trace.gap[-1] < trace.gap[0] / 100
    np.testing.assert_allclose(trace.optimum.v, optimum(mdp).v)


def test_apmd_goes_to_its_own_fixed_point():
    """With the plain Q the limit solves pi = argmax <p, Q^pi> - alpha h(p): not pi* of V_alpha."""
    mdp, h, alpha = garnet(10, 3, seed=4, gamma=0.8), "entropy", 0.3
    trace = solve(mdp, h, "kl", alpha, 0.5, 400, critic="unregularized")
    pi = trace.policy
    fixed = mirror_step(evaluate(mdp, pi).q, pi, h, "zero", alpha, 0.0)
    np.testing.assert_allclose(pi, fixed, atol=1e-8)
    assert trace.policy_change[-1] < 1e-9
    # It is another policy than the regularised optimum, and worse for V_alpha.
    assert trace.policy_distance[-1] > 1e-3
    assert trace.gap[-1] > 1e-5


@pytest.mark.parametrize("critic", ["regularized", "unregularized"])
def test_homotopic_pmd_reaches_the_unregularised_optimum(critic):
    """alpha_k going to 0 (Li et al. 2023): the gap to the plain V* vanishes."""
    mdp = garnet(12, 3, seed=5, gamma=0.8)
    trace = solve(mdp, "entropy", "kl", lambda k: 0.5 * 0.9**k, 0.5, 150, critic=critic)
    assert float(trace.reference_alpha) == 0
    np.testing.assert_allclose(trace.optimum.v, optimum(mdp).v)
    assert trace.gap[-1] < 1e-6
    # The homotopy picks the policy that is uniform over optimal actions: here the only one.
    assert trace.policy_distance[-1] < 1e-3
    np.testing.assert_allclose(trace.alphas, 0.5 * 0.9 ** np.arange(150))


def test_a_schedule_of_lambda_is_followed():
    mdp = garnet(6, 3, seed=6)
    trace = solve(mdp, "entropy", "kl", 0.1, lambda k: 1 / (k + 1), 4)
    np.testing.assert_allclose(trace.lams, [1, 1 / 2, 1 / 3, 1 / 4])
    pi = uniform_policy(mdp)
    for k in range(4):
        q = evaluate(mdp, pi, "entropy", 0.1).q
        pi = mirror_step(q, pi, "entropy", "kl", 0.1, 1 / (k + 1))
    np.testing.assert_allclose(trace.policy, pi, rtol=1e-12)


def test_inexact_q_is_reproducible_and_stays_near():
    mdp = garnet(10, 3, seed=7, gamma=0.8)
    one = solve(mdp, "entropy", "kl", 0.3, 0.5, 100, noise=0.05, seed=1)
    two = solve(mdp, "entropy", "kl", 0.3, 0.5, 100, noise=0.05, seed=1)
    other = solve(mdp, "entropy", "kl", 0.3, 0.5, 100, noise=0.05, seed=2)
    np.testing.assert_array_equal(one.policies, two.policies)
    assert (one.policies[1] != other.policies[1]).any()
    # An error of Q of size e moves the limit by at most e / (1 - gamma)^2 (Zhan et al., Theorem 2).
    assert one.gap[50:].max() <= 2 * 0.05 * 4 / 0.2**2
    assert one.gap[50:].max() < 0.1 * one.gap[0]


def test_the_trace_is_what_it_says():
    mdp = garnet(8, 3, seed=8)
    trace = solve(mdp, "tsallis(0.5)", "kl", 0.2, 0.5, 5)
    assert trace.policies.shape == (6, 8, 3)
    np.testing.assert_array_equal(trace.policies[0], uniform_policy(mdp))
    for k, pi in enumerate(trace.policies):
        values = evaluate(mdp, pi, "tsallis(0.5)", 0.2).v
        np.testing.assert_allclose(trace.values[k], values)
        assert trace.gap[k] == pytest.approx((trace.optimum.v - values).max())
        assert trace.returns[k] == pytest.approx((values * mdp.initial).sum())
        far = np.abs(pi - trace.optimum.policy).sum(-1).max() / 2
        assert trace.policy_distance[k] == pytest.approx(far)
    moved = np.abs(np.diff(trace.policies, axis=0)).sum(-1).max(-1) / 2
    np.testing.assert_allclose(trace.policy_change, moved)


def test_many_mdps_and_temperatures_at_once_equal_one_by_one():
    mdp = garnet(6, 3, seed=9, batch=(4,))
    alphas = np.array([0.0, 0.1, 1.0])[:, None]
    for h, d in [("entropy", "kl"), ("tsallis(0.5)", "bregman(lp(2))"), ("max", "bregman(max)")]:
        together = solve(mdp, h, d, alphas, 0.5, 6)
        assert together.gap.shape == (7, 3, 4)
        for i, j in np.ndindex(3, 4):
            one = type(mdp)(mdp.transitions[j], mdp.rewards[j], mdp.gamma)
            alone = solve(one, h, d, float(alphas[i, 0]), 0.5, 6)
            np.testing.assert_allclose(together.values[:, i, j], alone.values, rtol=1e-8)
            np.testing.assert_allclose(together.policies[-1, i, j], alone.policy, atol=1e-7)


def test_a_start_of_ones_own():
    mdp = garnet(6, 3, seed=10)
    start = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    trace = solve(mdp, iterations=1, policy=start)
    np.testing.assert_array_equal(trace.policies[0], start)
    assert solve(mdp, iterations=0).policies.shape[0] == 1
    several = np.random.default_rng(1).dirichlet(np.ones(3), (5, 6))
    together = solve(mdp, iterations=2, policy=several)
    assert together.gap.shape == (3, 5)
    np.testing.assert_allclose(
        together.policies[:, 3], solve(mdp, iterations=2, policy=several[3]).policies, rtol=1e-9
    )


def test_a_grid_with_alpha_zero_keeps_the_other_promises():
    rates = promised_rate(0.9, "entropy", "kl", np.array([0.0, 1.0]), 1.0)
    np.testing.assert_allclose(rates, [np.nan, 0.95])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"iterations": -1}, "iterations: -1"),
        ({"seed": -1}, "seed: -1"),
        ({"alpha": np.ones(3), "lam": np.ones(2)}, r"do not fit: alpha \(3,\), lam \(2,\)"),
        ({"policy": np.ones((4, 2))}, "policy: row"),
        ({"policy": np.full((3, 2), 0.5)}, r"policy: shape \(3, 2\)"),
        ({"alpha": lambda k: np.ones(k + 1)}, r"alpha\(1\): shape \(2,\) after \(1,\)"),
        ({"critic": "regularised"}, "critic: unknown value 'regularised'.*did you mean"),
        ({"noise": -0.1}, r"noise: -0\.1"),
        ({"alpha": -1.0}, r"alpha: -1\.0"),
        ({"lam": lambda k: -k}, r"lam\(1\): -1\.0"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(UserError, match=message):
        solve(garnet(4, 2), **change)
