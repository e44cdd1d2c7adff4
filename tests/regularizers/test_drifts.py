"""Drifts: the identities of Bregman divergences, known ones, safety, and the checker."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from points import DRIFTS, POTENTIALS, dirichlet, simplex

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers import drift, potential
from mirrorax.regularizers.functions import FunctionDrift

INTERIOR = simplex(5, smallest=0.05)


@pytest.mark.parametrize("name", DRIFTS)
@given(p=simplex(5), q=INTERIOR)
def test_non_negative_and_zero_at_equality(name, p, q):
    d = drift(name)
    assert d.value(p, q) >= -1e-13
    assert abs(d.value(q, q)) <= 1e-14


@pytest.mark.parametrize("name", POTENTIALS)
@given(x=INTERIOR, y=INTERIOR, z=INTERIOR)
def test_three_point_identity(name, x, y, z):
    """B(x, z) = B(x, y) + B(y, z) + <grad h(y) - grad h(z), x - y>."""
    h, b = potential(name), drift(f"bregman({name})")
    right = b.value(x, y) + b.value(y, z) + ((h.grad(y) - h.grad(z)) * (x - y)).sum()
    assert b.value(x, z) == pytest.approx(right, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("name", POTENTIALS)
@given(p=simplex(5), q=INTERIOR)
def test_closed_form_is_the_definition(name, p, q):
    h, b = potential(name), drift(f"bregman({name})")
    definition = h.value(p) - h.value(q) - (h.grad(q) * (p - q)).sum()
    assert b.value(p, q) == pytest.approx(definition, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("name", POTENTIALS)
def test_gradient_in_both_arguments_is_that_of_the_definition(name, x64):
    h, b = potential(name), drift(f"bregman({name})")
    p, q = (jnp.asarray(dirichlet(s, 6, 4, 3.0)) for s in (1, 2))

    def definition(p, q):
        return h.value(p) - h.value(q) - (h.grad(q) * (p - q)).sum(-1)

    for argument in (0, 1):
        ours = jax.vmap(jax.grad(b.value, argument))(p, q)
        theirs = jax.vmap(jax.grad(definition, argument))(p, q)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_kl_is_scipys_in_both_directions():
    p, q = dirichlet(3, 50, 6), dirichlet(4, 50, 6)
    np.testing.assert_allclose(drift("kl").value(p, q), scipy.special.rel_entr(p, q).sum(-1))
    np.testing.assert_allclose(
        drift("forward_kl").value(p, q), scipy.special.rel_entr(q, p).sum(-1)
    )
    np.testing.assert_array_equal(drift("kl").value(p, q), drift("bregman(entropy)").value(p, q))


@pytest.mark.parametrize("m", [1 - 1e-6, 1 - 1e-12, 1, 1 + 1e-12, 1 + 1e-6])
def test_tsallis_divergence_reaches_kl(m):
    p, q = dirichlet(5, 30, 4), dirichlet(6, 30, 4)
    b = drift(f"bregman(tsallis({m!r}))")
    np.testing.assert_allclose(
        b.value(p, q), drift("kl").value(p, q), rtol=100 * abs(m - 1) + 1e-12
    )


@pytest.mark.parametrize("m", [0.3, 0.5, 1.5, 3.0])
def test_tsallis_divergence_is_the_papers_formula(m):
    p, q = dirichlet(7, 30, 4), dirichlet(8, 30, 4)
    formula = (p**m - m * p * q ** (m - 1) - (1 - m) * q**m).sum(-1) / (m - 1)
    np.testing.assert_allclose(drift(f"bregman(tsallis({m}))").value(p, q), formula, rtol=1e-9)


SMALL = [0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]


def small_power_cases(m):
    """Policies at and near the boundary, with the paper's formula in float64 and its gradient."""
    ends = [[0, 1], [1, 0], [0.5, 0.5], [1e-6, 1 - 1e-6], [1e-20, 1]]
    for p in np.array(ends, np.float32):
        for q in np.array(ends[2:], np.float32):
            x, y = p.astype(float), q.astype(float)
            power = np.where(x > 0, np.where(x > 0, x, 1) ** m, 0)
            entries = (power - m * x * y ** (m - 1) - (1 - m) * y**m) / (m - 1)
            yield p, q, entries.sum()


@pytest.mark.parametrize("m", SMALL)
def test_tsallis_divergence_of_small_powers_at_the_boundary(m):
    b = drift(f"bregman(tsallis({m}))")
    for p, q, exact in small_power_cases(m):
        close = {"rtol": 2e-5, "atol": 2e-5}
        np.testing.assert_allclose(b.value(p, q), exact, **close)
        np.testing.assert_allclose(b.value(jnp.asarray(p), jnp.asarray(q)), exact, **close)
        np.testing.assert_allclose(
            b.value(p.astype(float), q.astype(float)), exact, rtol=1e-11, atol=1e-13
        )


@pytest.mark.parametrize("m", SMALL[::2])
def test_slopes_of_small_powers_from_logits_agree_with_float64(m):
    b = drift(f"bregman(tsallis({m}))")
    z = np.array([[-far, 0.0, 0.5] for far in (3.0, 30.0, 200.0)])
    y = np.broadcast_to([0.2, 0.0, -0.4], z.shape)

    def slopes(function, *at):
        return jax.grad(lambda *at: function(*at).sum(), (0, 1))(*at)

    single = slopes(b.value_from_logits, *map(jnp.float32, (z, y)))
    with jax.enable_x64(True):
        z, y = jnp.asarray(z), jnp.asarray(y)
        p, q = jax.nn.softmax(z), jax.nn.softmax(y)
        double, at_p = slopes(b.value_from_logits, z, y), np.asarray(slopes(b.value, p, q)[0])
    for one, two in zip(single, double, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    p = np.asarray(p)
    through = p * (at_p - (p * at_p).sum(-1, keepdims=True))  # the chain rule of softmax
    np.testing.assert_allclose(double[0], through, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["kl", "forward_kl", "bregman(tsallis(0.5))"])
def test_a_subnormal_probability_is_not_zero(name, dtype, compiled):
    tiny, floor = np.finfo(dtype).tiny, np.finfo(dtype).smallest_subnormal
    with jax.enable_x64(dtype == np.float64):
        value = jax.jit(drift(name).value) if compiled else drift(name).value
        for small in (tiny / 4, floor):
            p, q = np.array([0.5, 0.5], dtype), np.array([small, 1], dtype)
            for new, old in ((p, q), (q, p)):
                ours = value(jnp.asarray(new), jnp.asarray(old))
                # It counts as the smallest normal number, or as the floor above it.
                assert np.isfinite(ours)
                exact = drift(name).value(np.asarray(new, float), np.asarray(old, float))
                assert ours <= exact * (1 + 1e-5)
            assert np.isinf(value(jnp.asarray(p), jnp.zeros(2, dtype))) == (name != "forward_kl")


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0])
def test_norm_divergence_is_the_papers_formula(power):
    p, q = dirichlet(9, 30, 4), dirichlet(10, 30, 4)
    formula = (p**power - q**power - power * p * q ** (power - 1) + power * q**power).sum(-1)
    np.testing.assert_allclose(drift(f"bregman(lp({power}))").value(p, q), formula, rtol=1e-9)


def test_other_known_values():
    p, q = np.array([0.1, 0.6, 0.3]), np.array([0.5, 0.3, 0.2])
    assert drift("bregman(lp(2))").value(p, q) == pytest.approx(0.16 + 0.09 + 0.01)
    assert drift("squared_tv").value(p, q) == pytest.approx(0.4**2)
    assert drift("bregman(max)").value(p, q) == pytest.approx(0.6 - 0.1)
    assert drift("bregman(max)").value(q, q) == 0
    assert drift("zero").value(p, q) == 0
    assert drift("bregman(lp(1))").value(p, q) == 0


@pytest.mark.parametrize("name", DRIFTS)
def test_zero_gradient_at_equality_from_logits(name):
    logits = jnp.asarray(np.random.default_rng(0).normal(size=(8, 5)) * 3, jnp.float32)
    gradient = jax.vmap(jax.grad(drift(name).value_from_logits))(logits, logits)
    np.testing.assert_allclose(gradient, 0, atol=2e-6)


@pytest.mark.parametrize("name", DRIFTS)
def test_from_logits_agrees_with_from_probabilities(name, x64, debug_nans):
    d = drift(name)
    z, y = (jnp.asarray(np.random.default_rng(s).normal(size=(9, 4)) * 3) for s in (1, 2))
    p, q = jax.nn.softmax(z), jax.nn.softmax(y)
    expected = d.value(p, q)
    np.testing.assert_allclose(d.value_from_logits(z, y), expected, rtol=1e-9, atol=1e-12)
    through = jax.grad(lambda z: d.value(jax.nn.softmax(z), q).sum())(z)
    direct = jax.grad(lambda z: d.value_from_logits(z, y).sum())(z)
    np.testing.assert_allclose(direct, through, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_at_huge_logits(name, dtype):
    d = drift(name)
    cases = np.array([[1e4, -1e4, 0], [-1e4, 1e4, 0], [0, 0, 0], [1e4, 1e4, -1e4]], dtype)
    z, y = (np.repeat(cases, 4, axis=0), np.tile(cases, (4, 1)))  # each with each
    with jax.enable_x64(dtype == np.float64):
        compute = jax.vmap(jax.value_and_grad(d.value_from_logits, (0, 1)))
        value, gradients = compute(jnp.asarray(z), jnp.asarray(y))
    assert value.dtype == dtype
    assert (np.asarray(value) >= -1e-6).all()
    for array in (value, *gradients):
        assert np.isfinite(np.asarray(array)).all()


@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_entries(name, dtype):
    """0 where both are 0; +inf only where the new policy leaves the support and D forbids it."""
    d = drift(name)
    inside = np.array([0.5, 0.5, 0], dtype), np.array([0.25, 0.75, 0], dtype)
    vertex = np.array([1, 0, 0], dtype)
    for cast in (np.asarray, jnp.asarray):
        with jax.enable_x64(dtype == np.float64):
            p, q, e = cast(inside[0]), cast(inside[1]), cast(vertex)
            assert np.isfinite(d.value(p, q))
            assert d.value(e, e) == 0
            steep = name in ("kl", "chi_square", "bregman(entropy)") or (
                name.startswith("bregman(tsallis(") and float(name[16:-2]) <= 1
            )
            assert np.isinf(d.value(p, e)) == steep
            assert np.isinf(d.value(e, p)) == (name == "forward_kl")
    with jax.enable_x64(dtype == np.float64):
        for gradient in jax.jit(jax.grad(d.value, (0, 1)))(*map(jnp.asarray, inside)):
            assert np.isfinite(gradient).all()


def test_broadcasts_one_old_policy_over_many_new_ones():
    p, q = dirichlet(11, 6, 4), dirichlet(12, 1, 4)[0]
    for name in DRIFTS:
        d = drift(name)
        np.testing.assert_array_equal(d.value(p, q), d.value(p, np.tile(q, (6, 1))))
        assert d.value(jnp.asarray(p), jnp.asarray(q)).shape == (6,)


class TestChecker:
    @pytest.mark.parametrize("name", DRIFTS)
    def test_every_drift_passes(self, name):
        outcome = mirrorax.check_drift(name, num_actions=2 if name == "kl" else 6)
        assert outcome, str(outcome)

    @pytest.mark.parametrize(
        ("name", "function", "property_"),
        [
            ("negative", lambda p, q: -jnp.sum((p - q) ** 2), r"D\(p, q\) >= 0"),
            ("lifted", lambda p, q: jnp.sum((p - q) ** 2) + 1, r"D\(q, q\) = 0"),
            ("kinked", lambda p, q: jnp.sum(jnp.abs(p - q)), "zero gradient at p = q"),
            ("one_sided", lambda p, q: jnp.maximum(0, p[0] - q[0]), "zero gradient at p = q"),
            (
                "hidden_slope",
                lambda p, q: jnp.sum((p - q) ** 2 / q) + 0.3 * jnp.abs(p[0] - q[0]),
                "zero gradient at p = q",
            ),
            ("undefined", lambda p, q: jnp.sqrt(jnp.sum(p - q) - 1), "being a number"),
        ],
    )
    def test_says_what_fails_and_where(self, name, function, property_):
        outcome = mirrorax.check_drift(mirrorax.register_drift(name, function))
        assert not outcome
        assert str(outcome).startswith(f"{name}: fails ")
        with pytest.raises(AssertionError, match=property_):
            assert outcome.ok, str(outcome)
        assert "q = [" in outcome.where

    @pytest.mark.parametrize("power", [1.1, 1.2, 1.5])
    def test_a_weak_but_vanishing_slope_is_no_kink(self, power):
        d = mirrorax.register_drift(
            f"power_{int(10 * power)}", lambda p, q: jnp.sum(jnp.abs(p - q) ** power)
        )
        outcome = mirrorax.check_drift(d)
        assert outcome, str(outcome)

    def test_a_users_drift_passes_and_is_known_by_name(self):
        hellinger = mirrorax.register_drift(
            "hellinger", lambda p, q: jnp.sum((jnp.sqrt(p) - jnp.sqrt(q)) ** 2)
        )
        assert mirrorax.check_drift("hellinger")
        assert mirrorax.drift("hellinger") is hellinger
        p, q = dirichlet(13, 5, 3), dirichlet(14, 5, 3)
        expected = ((np.sqrt(p) - np.sqrt(q)) ** 2).sum(-1)
        np.testing.assert_allclose(hellinger.value(p, q), expected, rtol=1e-12)
        z = jnp.zeros((2, 3))
        assert jax.jit(jax.vmap(jax.grad(hellinger.value_from_logits)))(z, z).shape == (2, 3)


@pytest.mark.parametrize(
    "name", ["kl", "forward_kl", "bregman(tsallis(0.5))", "bregman(tsallis(1.5))"]
)
def test_close_policies_keep_their_digits_in_float32(name):
    generator = np.random.default_rng(0)
    z = generator.normal(size=(500, 4)).astype(np.float32)
    y = z + 1e-3 * generator.normal(size=(500, 4)).astype(np.float32)
    ours = np.asarray(drift(name).value_from_logits(jnp.asarray(z), jnp.asarray(y)))
    exact = drift(name).value_from_logits(z.astype(float), y.astype(float))
    assert (ours >= 0).all()
    assert np.median(np.abs(ours / exact - 1)) < 1e-3


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda p, q: (p - q) ** 2, "expected one float for two vectors; sum over the actions"),
        (lambda p: p.sum(), "takes 1 positional argument but 2 were given"),
    ],
)
def test_a_mistake_in_a_users_drift_is_one_line_that_names_it(function, said):
    with pytest.raises(UserError) as caught:
        mirrorax.check_drift(FunctionDrift("mistaken", function))
    assert str(caught.value).startswith("drift: 'mistaken'")
    assert said in str(caught.value)
