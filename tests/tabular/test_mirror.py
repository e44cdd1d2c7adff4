"""The mirror step against independent solvers, certificates of optimality, and known answers."""

from __future__ import annotations

import dataclasses

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from points import TABLE_1

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers import Drift, drift, potential
from mirrorax.tabular import best_response, mirror_step, objective

POTENTIALS = ["entropy", "tsallis(0.5)", "tsallis(1.000001)", "tsallis(2.5)", "lp(2)", "lp(1.5)"]
OTHERS = [
    *((h, "forward_kl") for h in (*POTENTIALS, "max", "zero")),
    *(("max", f"bregman({g})") for g in POTENTIALS),
    *((h, "bregman(max)") for h in POTENTIALS),
    *((h, "squared_tv") for h in (*POTENTIALS, "zero")),
    ("zero", "kl"),
    ("zero", "bregman(max)"),
    ("lp(1)", "bregman(lp(1))"),
    ("zero", "zero"),
    ("lp(3)", "zero"),
    ("max", "zero"),
]
# Steep powers: p jumps from 0 to 0.1 within one rounding of the multiplier.
STEEP = [
    ("lp(12)", "bregman(lp(12))"),
    ("lp(20)", "zero"),
    ("tsallis(20)", "forward_kl"),
    ("tsallis(20)", "bregman(max)"),
    ("max", "bregman(tsallis(20))"),
]
# Each separable potential once as h and once in D.
CYCLE = [
    (h, f"bregman({g})") for h, g in zip(POTENTIALS, [*POTENTIALS[1:], POTENTIALS[0]], strict=True)
]
STRUCTURES = sorted({*TABLE_1, *OTHERS, *CYCLE})
# One pair for each way to solve: all pairs are certified in test_exactness.py.
CLASSES = [
    ("entropy", "kl"),
    ("lp(2)", "bregman(lp(2))"),
    ("tsallis(0.5)", "bregman(lp(1.5))"),
    ("max", "bregman(max)"),
    ("max", "kl"),
    ("entropy", "bregman(max)"),
    ("tsallis(0.5)", "forward_kl"),
    ("max", "forward_kl"),
    ("zero", "forward_kl"),
    ("lp(2)", "squared_tv"),
    ("zero", "squared_tv"),
    ("zero", "kl"),
    ("zero", "zero"),
    ("lp(1)", "bregman(lp(1))"),
]


def instance(seed, rows=6, n=4, scale=2.0):
    generator = np.random.default_rng(seed)
    q_values = generator.normal(size=(rows, n)) * scale
    return q_values, generator.dirichlet(np.ones(n), rows)


def as_cvxpy(name, p):
    """The potential as a cvxpy expression, written from its definition."""
    h = potential(name)
    if name == "entropy":
        return -cp.sum(cp.entr(p))
    if name == "max":
        return cp.max(p)
    if name == "zero":
        return 0
    if name.startswith("lp"):
        return cp.sum(cp.power(p, h.p)) if h.p > 1 else 1
    return (cp.sum(cp.power(p, h.m)) - 1) / (h.m - 1)


def by_cvxpy(q_values, q, h_name, d_name, alpha, lam):
    """Solve one state with a conic solver; returns its objective in our own arithmetic."""
    p = cp.Variable(len(q))
    goal = -q_values @ p + alpha * as_cvxpy(h_name, p)
    if d_name == "forward_kl":
        goal += lam * (-q @ cp.log(p))
    elif d_name == "squared_tv":
        goal += lam * cp.square(cp.norm1(p - q) / 2)
    elif d_name == "kl":
        goal += lam * cp.sum(cp.rel_entr(p, q))
    elif d_name != "zero":
        inner = d_name[len("bregman(") : -1]
        goal += lam * (as_cvxpy(inner, p) - potential(inner).grad(q) @ p)
    problem = cp.Problem(cp.Minimize(goal), [p >= 0, cp.sum(p) == 1])
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    problem.solve(solver=cp.CLARABEL, **tight)
    solution = np.maximum(p.value, 1e-14)
    return solution / solution.sum()


# A conic solver takes a power like 1.000001 only through a coarse fraction: certified below.
CONIC = [pair for pair in STRUCTURES if not any("1.000001" in name for name in pair)]


@pytest.mark.parametrize(("h", "d"), CONIC)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.filterwarnings("ignore:invalid value encountered in power")  # cvxpy at p = -1e-12
def test_matches_a_conic_solver(h, d):
    q_values, q = instance(hash_of(h, d), rows=2)
    alpha, lam = 0.3, 0.7
    ours = mirror_step(q_values, q, h, d, alpha, lam)
    for i in range(len(q)):
        theirs = by_cvxpy(q_values[i], q[i], h, d, alpha, lam)
        best = objective(theirs, q_values[i], q[i], h, d, alpha, lam)
        got = objective(ours[i], q_values[i], q[i], h, d, alpha, lam)
        assert got <= best + 1e-8 * (1 + abs(best))
        # And it is no better than the solver's by more than that solver's own error.
        assert got >= best - 1e-6 * (1 + abs(best))


def hash_of(*names):
    return sum(ord(c) * (i + 1) for i, c in enumerate("|".join(names)))


def duality_gap(p, q_values, q, h, d, alpha, lam):
    """The certificate of convex optimisation: f(p) - min f <= <grad f(p), p> - min grad f(p)."""
    gradient = -q_values + alpha[:, None] * h.grad(p)
    if str(d) == "forward_kl":
        gradient = gradient - lam[:, None] * q / p
    else:
        gradient = gradient + lam[:, None] * (d.potential.grad(p) - d.potential.grad(q))
    return (gradient * p).sum(-1) - gradient.min(-1)


OWN = [(h, f"bregman({h})") for h in POTENTIALS]
SMOOTH_PAIRS = [*CYCLE, *OWN, *((h, "forward_kl") for h in (*POTENTIALS, "zero"))]


@pytest.mark.parametrize(("h", "d"), SMOOTH_PAIRS)
def test_certified_optimal_over_ten_decades_of_temperatures(h, d):
    generator = np.random.default_rng(hash_of(h, d))
    n, rows = 7, 400
    q_values = generator.normal(size=(rows, n)) * 10.0 ** generator.uniform(-2, 2, (rows, 1))
    q = generator.dirichlet(np.ones(n), rows)
    alpha, lam = 10.0 ** generator.uniform(-5, 4.7, (2, rows))
    p = mirror_step(q_values, q, h, d, alpha, lam)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-13)
    assert (p >= 0).all()
    value = objective(p, q_values, q, h, d, alpha, lam)
    # Where p has underflowed, the slope at what it should be is not the slope at 0.
    exponents = [e for g in (h, d[8:-1]) if g in POTENTIALS for _, e in potential(g).powers]
    safe = (p.min(-1) > 1e-290) | (min(exponents, default=1) > 0.1)
    gap = duality_gap(p, q_values, q, potential(h), drift(d), alpha, lam)
    assert (gap[safe] <= 1e-8 * (1 + np.abs(value[safe]))).all()
    assert safe.mean() > 0.5


@pytest.mark.parametrize(("h", "d"), [*CLASSES, *STEEP])
@given(data=st.data())
@settings(max_examples=15)
def test_no_other_point_is_better(h, d, data):
    seed = data.draw(st.integers(0, 10_000))
    n = data.draw(st.integers(2, 8))
    alpha = data.draw(st.sampled_from([0.0, 1e-4, 0.1, 1.0, 30.0]))
    lam = data.draw(st.sampled_from([0.0, 5e-5, 0.1, 5.0, 5e4]))
    generator = np.random.default_rng(seed)
    q_values, q = instance(seed, rows=3, n=n)
    if data.draw(st.booleans()):  # policies become sparse after a step of lp or max
        q = np.where(q < np.median(q, axis=-1, keepdims=True), 0, q)
        q /= q.sum(-1, keepdims=True)
    p = mirror_step(q_values, q, h, d, alpha, lam)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    at_p = objective(p, q_values, q, h, d, alpha, lam)
    assert np.isfinite(at_p).all()
    for step in (1.0, 1e-2, 1e-4, 1e-6):
        for target in (
            q,
            np.eye(n)[generator.integers(n, size=3)],
            generator.dirichlet(np.ones(n), 3),
        ):
            other = objective((1 - step) * p + step * target, q_values, q, h, d, alpha, lam)
            assert (at_p <= other + 1e-8 * (1 + np.abs(at_p))).all()


class TestKnownAnswers:
    def test_entropy_and_kl_mix_the_log_policies(self):
        q_values, q = instance(1)
        logits = (q_values + 0.7 * np.log(q)) / (0.3 + 0.7)
        expected = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        np.testing.assert_allclose(
            mirror_step(q_values, q, "entropy", "kl", 0.3, 0.7), expected, rtol=1e-12
        )

    def test_squared_norm_projects(self):
        q_values, q = instance(2, rows=1)
        target = (q_values + 2 * 0.7 * q) / (2 * (0.3 + 0.7))
        best = scipy.optimize.minimize(
            lambda x: ((x - target[0]) ** 2).sum(),
            np.full(4, 0.25),
            method="SLSQP",
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            options={"ftol": 1e-14},
        )
        ours = mirror_step(q_values, q, "lp(2)", "bregman(lp(2))", 0.3, 0.7)
        np.testing.assert_allclose(ours[0], best.x, atol=1e-6)

    def test_no_temperature_is_greedy_with_the_first_of_ties(self):
        q_values = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
        q = np.full((2, 3), 1 / 3)
        greedy = [[0, 1, 0], [1, 0, 0]]
        for h, d in [("entropy", "kl"), ("max", "bregman(max)"), ("zero", "squared_tv")]:
            np.testing.assert_array_equal(mirror_step(q_values, q, h, d, 0, 0), greedy)

    @pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1e-5, 123.456])
    @pytest.mark.parametrize("n", [3, 5, 7])
    def test_ties_are_settled_before_rounding(self, value, n):
        uniform, first = np.full(n, 1 / n), np.eye(n)[0]
        q_values = np.full(n, value)
        np.testing.assert_array_equal(mirror_step(q_values, uniform, "zero", "zero", 0, 0), first)

    def test_max_with_forward_kl_where_the_old_policy_has_zeros(self):
        # Action 3 keeps lam q / (mu - Q) = 1 / 4.9, and 0.1 is not worth spreading the rest for.
        p = mirror_step([5, 4.9, 0, 0], [0, 0, 0, 1], "max", "forward_kl", 0.1, 1.0)
        np.testing.assert_allclose(p[3], 1 / 4.9, rtol=1e-9)
        stay = mirror_step([-1.6, 0.32, 1.69, -0.05], [0, 0, 1, 0], "max", "forward_kl", 0.016, 2.0)
        np.testing.assert_allclose(stay, [0, 0, 1, 0], atol=1e-6)

    def test_max_twice_is_uniform_on_the_documented_top(self):
        # c = Q + lam e_0 = [1.5, 1, 0.9, -5]; (sum of top k - 1) / k = 0.5, 0.75, 0.8, -0.65
        q_values, q = np.array([1.0, 1.0, 0.9, -5.0]), np.array([0.4, 0.2, 0.2, 0.2])
        p = mirror_step(q_values, q, "max", "bregman(max)", 0.5, 0.5)
        np.testing.assert_allclose(p, [1 / 3, 1 / 3, 1 / 3, 0])
        # On a tie, the fewest actions: top 1 and top 2 both give 0.5.
        p = mirror_step(np.array([1.0, 0.5]), np.array([0.5, 0.5]), "max", "zero", 0.5, 0)
        np.testing.assert_array_equal(p, [1, 0])

    def test_forward_kl_alone_is_a_weighted_power(self):
        q_values, q = instance(3, rows=1)
        p = mirror_step(q_values, q, "zero", "forward_kl", 0.0, 0.7)
        mu = (0.7 * q / p + q_values)[0]  # p = lam q / (mu - Q): mu is the same for all actions
        np.testing.assert_allclose(mu, mu[0], rtol=1e-10)

    def test_forward_kl_gives_what_is_left_to_a_better_action_outside_the_support(self):
        # The action with q = 0 costs nothing to raise: it takes the mass the others do not earn.
        p = mirror_step([5.0, 0.0, 0.0], [0.0, 0.5, 0.5], "zero", "forward_kl", 0.0, 1.0)
        np.testing.assert_allclose(p, [0.8, 0.1, 0.1])  # lam q / (5 - 0) = 0.1 each

    def test_squared_tv_moves_mass_while_it_pays(self):
        # moving t from action 1 to action 0 gains t - t^2 / 2 * 2 lam: t = 1 / (2 lam) = 0.25
        p = mirror_step([1.0, 0.0], [0.5, 0.5], "zero", "squared_tv", 0.0, 2.0)
        np.testing.assert_allclose(p, [0.75, 0.25])

    def test_without_drift_it_is_the_best_response(self):
        q_values, q = instance(4)
        for h in (*POTENTIALS, "max", "zero"):
            np.testing.assert_array_equal(
                mirror_step(q_values, q, h, "kl", 0.4, 0), best_response(q_values, h, 0.4)
            )

    @pytest.mark.parametrize(("h", "d"), STRUCTURES)
    def test_a_constant_added_to_q_changes_nothing(self, h, d):
        q_values, q = instance(5)
        one = mirror_step(q_values, q, h, d, 0.3, 0.7)
        two = mirror_step(q_values + 100.0, q, h, d, 0.3, 0.7)
        np.testing.assert_allclose(two, one, atol=1e-9)

    def test_a_large_lambda_stays_put(self):
        q_values, q = instance(6)
        for d in ("kl", "forward_kl", "bregman(tsallis(0.5))", "bregman(lp(2))", "squared_tv"):
            moved = mirror_step(q_values, q, "entropy", d, 0.01, 1e12)
            np.testing.assert_allclose(moved, q, atol=1e-5)

    def test_an_action_the_old_policy_excludes_stays_excluded_by_kl(self):
        for d in ("kl", "bregman(tsallis(0.5))"):
            p = mirror_step([9.0, 0.0, 1.0], [0.0, 0.5, 0.5], "entropy", d, 0.1, 0.1)
            assert p[0] == 0
            assert (p[1:] > 0).all()


class TestShapes:
    def test_leading_axes_and_temperatures_broadcast(self):
        generator = np.random.default_rng(0)
        q_values, q = generator.normal(size=(2, 5, 3)), generator.dirichlet(np.ones(3), (5,))
        alpha, lam = np.array([[0.0], [0.3]]), np.array([0, 0.1, 0.2, 0, 1.0])
        together = mirror_step(q_values, q, "entropy", "bregman(tsallis(0.5))", alpha, lam)
        assert together.shape == (2, 5, 3)
        for i, j in np.ndindex(2, 5):
            alone = mirror_step(
                q_values[i, j], q[j], "entropy", "bregman(tsallis(0.5))", alpha[i, 0], lam[j]
            )
            np.testing.assert_allclose(together[i, j], alone, rtol=1e-9, atol=1e-14)

    def test_one_action(self):
        for h, d in STRUCTURES:
            np.testing.assert_allclose(mirror_step([[3.0]], [[1.0]], h, d, 0.1, 0.2), [[1.0]])

    def test_jax_input_and_objects(self):
        q_values, q = instance(8)
        ours = mirror_step(
            jnp.asarray(q_values), jnp.asarray(q), potential("lp(2)"), drift("kl"), 0.1, 0.2
        )
        assert ours.dtype == np.float64
        np.testing.assert_allclose(
            ours, mirror_step(q_values, q, "lp(2)", "kl", 0.1, 0.2), rtol=1e-5
        )

    def test_float32_policies_are_normalised_enough(self):
        q = np.float32([[0.1, 0.2, 0.7]])
        assert mirror_step([[1.0, 2.0, 3.0]], q, "entropy", "kl", 0.1, 0.1).shape == (1, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -0.1}, r"alpha: -0\.1 is not allowed"),
        ({"lam": np.inf}, "lam: inf is not allowed"),
        ({"lam": np.ones(7)}, "do not broadcast"),
        ({"q_values": [[1.0, np.nan]]}, r"q_values: entry \(0, 1\) is nan"),
        ({"policy": [[0.5, 0.6]]}, r"policy: row \(0,\) is \[0\.5 0\.6\]"),
        ({"policy": [[-0.5, 1.5]]}, "policy: row"),
        ({"policy": [[1.0]]}, "same number of actions"),
        ({"q_values": [["a", "b"]]}, "q_values: .* numbers"),
        ({"alpha": "high"}, "alpha: 'high' is not allowed"),
        ({"potential": "entrpy"}, "did you mean 'entropy'"),
        (
            {"drift": "squared_tv", "potential": "max"},
            "no exact mirror step with the potential 'max'",
        ),
    ],
)
def test_bad_input(change, message):
    given_ = {
        "q_values": [[1.0, 2.0], [3.0, 4.0]],
        "policy": [[0.5, 0.5]],
        "potential": "entropy",
        "drift": "kl",
        "alpha": 0.1,
        "lam": 0.1,
    }
    with pytest.raises(UserError, match=message):
        mirror_step(**{**given_, **change})


class TestUserFunctions:
    def test_a_known_regulariser_written_by_hand_gives_the_same_step(self):
        mirrorax.register_potential("own_entropy", lambda p: jnp.sum(p * jnp.log(p)))
        mirrorax.register_drift("own_kl", lambda p, q: jnp.sum(p * jnp.log(p / q)))
        q_values, q = instance(9)
        expected = mirror_step(q_values, q, "entropy", "kl", 0.3, 0.7)
        for h, d in [
            ("own_entropy", "kl"),
            ("entropy", "own_kl"),
            ("own_entropy", "own_kl"),
            ("own_entropy", "bregman(own_entropy)"),
        ]:
            p = mirror_step(q_values, q, h, d, 0.3, 0.7)
            gap = objective(p, q_values, q, "entropy", "kl", 0.3, 0.7) - objective(
                expected, q_values, q, "entropy", "kl", 0.3, 0.7
            )
            assert (np.abs(gap) <= 1e-8).all()
            np.testing.assert_allclose(p, expected, atol=1e-6)

    def test_one_that_is_not_built_in_against_scipy(self):
        mirrorax.register_drift(
            "hellinger_step", lambda p, q: jnp.sum((jnp.sqrt(p) - jnp.sqrt(q)) ** 2)
        )
        q_values, q = instance(10, rows=2)
        p = mirror_step(q_values, q, "lp(2)", "hellinger_step", 0.3, 0.7)
        for i in range(2):

            def goal(x, i=i):
                drifted = ((np.sqrt(x) - np.sqrt(q[i])) ** 2).sum()
                return -q_values[i] @ x + 0.3 * (x**2).sum() + 0.7 * drifted

            best = scipy.optimize.minimize(
                goal,
                np.full(4, 0.25),
                method="SLSQP",
                bounds=[(1e-12, 1)] * 4,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
                options={"ftol": 1e-15, "maxiter": 1000},
            )
            assert goal(p[i]) <= best.fun + 1e-8 * (1 + abs(best.fun))

    @pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-10])
    def test_a_drift_that_is_huge_in_the_middle_of_the_simplex_against_its_closed_form(
        self, smallest
    ):
        """With (p - q)^2 / q alone the step is p = q (1 + (Q - nu) / 2 lam)_+, nu by bisection."""
        mirrorax.register_drift("chi_squared", lambda p, q: jnp.sum((p - q) ** 2 / q))
        q_values = np.array([2.0, 1.0, 0.0, 1.5])
        q = np.array([smallest, 0.5, 0.4, smallest])
        q = q / q.sum()
        low, high = -100.0, 100.0
        for _ in range(200):
            nu = (low + high) / 2
            expected = q * np.maximum(1 + (q_values - nu) / (2 * 0.3), 0)
            low, high = (nu, high) if expected.sum() > 1 else (low, nu)
        p = mirror_step(q_values, q, "zero", "chi_squared", 0.0, 0.3)
        gap = objective(p, q_values, q, "zero", "chi_squared", 0.0, 0.3) - objective(
            expected, q_values, q, "zero", "chi_squared", 0.0, 0.3
        )
        assert abs(gap) <= 1e-9
        np.testing.assert_allclose(p, expected, rtol=1e-3, atol=1e-10)

    def test_kinks_and_concavity_are_refused(self):
        mirrorax.register_potential("own_square", lambda p: jnp.sum(p**2))
        mirrorax.register_potential("own_bump", lambda p: -jnp.sum(p**2))
        q_values, q = instance(11)
        with pytest.raises(UserError, match="'max' has kinks"):
            mirror_step(q_values, q, "own_square", "bregman(max)", 0.1, 0.1)
        for n in (2, 3, 4, 5, 8):
            for scale in (0, 1):
                given_ = scale * np.arange(n) / n, np.full(n, 1 / n)
                with pytest.raises(UserError, match="smooth and convex"):
                    mirror_step(*given_, "own_bump", "zero", 1.0, 0.0)
        with pytest.raises(UserError, match="zero entries"):
            mirror_step([1.0, 2.0], [0.0, 1.0], "own_square", "kl", 0.1, 0.1)

    def test_a_drift_class_of_ones_own_is_not_passed_over(self):
        @dataclasses.dataclass(frozen=True)
        class Squares(Drift):
            name, infinite = "squares", None

            def _value(self, p, q, logp, logq):
                return ((p - q) ** 2).sum(-1)

            def _slopes(self, p, q):
                return 2 * (p - q), 2 * (q - p)

        q_values, q = instance(12)
        expected = mirror_step(q_values, q, "lp(2)", "bregman(lp(2))", 0.1, 2.0)
        p = mirror_step(q_values, q, "lp(2)", Squares(), 0.1, 2.0)
        np.testing.assert_allclose(p, expected, atol=1e-5)
