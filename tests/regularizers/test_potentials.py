"""Potentials: values against independent formulas, gradients, ranges, and safety at the edges."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from points import POTENTIALS, SMOOTH, dirichlet, simplex

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers import NegativeTsallis, potential
from mirrorax.regularizers import names as names_module
from mirrorax.regularizers.functions import FunctionPotential


def tsallis_oracle(m, p):
    """The paper's formula in extended precision."""
    p = np.asarray(p, np.longdouble)
    return float((np.where(p > 0, p**m, 0) - p).sum() / (m - 1))


def test_entropy_is_scipys():
    p = dirichlet(0, 50, 6)
    np.testing.assert_allclose(potential("entropy").value(p), -scipy.stats.entropy(p, axis=-1))


@pytest.mark.parametrize("m", [0.1, 0.5, 0.9, 0.9999, 1.0001, 1.5, 2.0, 3.7, 20.0])
def test_tsallis_is_the_papers_formula(m):
    for p in dirichlet(1, 20, 5):
        expected = tsallis_oracle(m, p)
        np.testing.assert_allclose(NegativeTsallis(m).value(p), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("distance", [1e-3, 1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tsallis_reaches_entropy_continuously(distance, dtype):
    p = dirichlet(2, 20, 4).astype(dtype)
    entropy = potential("entropy")
    for m in (1 - distance, 1 + distance):
        h = NegativeTsallis(m)
        # d h_m / dm at m = 1 is sum p (log p)^2 / 2 <= 0.28 n.
        room = 2 * distance + 4 * np.finfo(dtype).eps
        np.testing.assert_allclose(h.value(p), entropy.value(p), atol=room * 4)
        np.testing.assert_allclose(h.grad(p), entropy.grad(p), rtol=100 * room, atol=100 * room)


def test_other_known_values():
    p = np.array([0.2, 0.3, 0.5])
    assert potential("lp(2)").value(p) == pytest.approx(0.38)
    assert potential("lp(3)").value(p) == pytest.approx(0.008 + 0.027 + 0.125)
    assert potential("max").value(p) == 0.5
    assert potential("zero").value(p) == 0
    assert potential("tsallis(2)").value(p) == pytest.approx(0.38 - 1)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_is_that_of_the_value(name):
    h = potential(name)
    for p in dirichlet(3, 5, 4, 3.0):
        numeric = scipy.optimize.approx_fprime(p, h.value, 1e-7)
        np.testing.assert_allclose(h.grad(p), numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", POTENTIALS)
def test_jax_differentiates_value_to_grad(name, x64):
    h = potential(name)
    p = jnp.asarray(dirichlet(4, 7, 5))
    gradient = jax.jit(jax.vmap(jax.grad(h.value)))(p)
    np.testing.assert_allclose(gradient, h.grad(p), rtol=1e-12)
    np.testing.assert_allclose(h.grad(p), h.grad(np.asarray(p)), rtol=1e-12)
    np.testing.assert_allclose(h.value(p), h.value(np.asarray(p)), rtol=1e-12)


@pytest.mark.parametrize("name", POTENTIALS)
@given(p=simplex(5), q=simplex(5))
def test_subgradient_inequality(name, p, q):
    h = potential(name)
    below = h.value(q) + (h.grad(q) * (p - q)).sum()
    assert h.value(p) >= below - 1e-9 * (1 + abs(below))


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("n", [2, 3, 18])
def test_range_is_smallest_at_uniform_and_largest_at_a_vertex(name, n):
    h = potential(name)
    low, high = h.range(n)
    assert low == pytest.approx(float(h.value(np.full(n, 1 / n))), abs=1e-12)
    assert high == pytest.approx(float(h.value(np.eye(n)[0])), abs=1e-12)
    drawn = np.concatenate([h.value(dirichlet(5, 500, n, c)) for c in (0.1, 1, 10)])
    assert drawn.min() >= low - 1e-12
    assert drawn.max() <= high + 1e-12


@pytest.mark.parametrize("name", POTENTIALS)
def test_bound_holds(name):
    h = potential(name)
    assert np.abs(h.value(dirichlet(6, 500, 7, 0.5))).max() <= h.bound(7) + 1e-12
    assert max(map(abs, h.range(7))) <= h.bound(7) + 1e-12


def test_bounds_are_the_appendixs():
    assert potential("entropy").bound(5) == pytest.approx(np.log(5))
    assert potential("tsallis(1.5)").bound(5) == 2
    # n / (1 - m) max |y - y^m|: for m = 1/2 the maximum is 1/4 at y = 1/4, so n / 2.
    assert potential("tsallis(0.5)").bound(6) == pytest.approx(3)
    y = np.linspace(0, 1, 1_000_001)
    brute = 6 / 0.7 * np.abs(y - y**0.3).max()
    assert potential("tsallis(0.3)").bound(6) == pytest.approx(brute, rel=1e-9)


@pytest.mark.parametrize("name", POTENTIALS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_finite_at_zero_entries_and_huge_logits(name, dtype):
    h = potential(name)
    with jax.enable_x64(dtype == np.float64):
        for p in np.array([[0, 0, 1], [0.5, 0.5, 0], [0, 1, 0]], dtype):
            for array in (p, jnp.asarray(p)):
                assert h.value(array).dtype == dtype
                assert np.isfinite(h.value(array))
                assert np.isfinite(h.grad(array)).all()
        for logits in np.array([[1e4, -1e4, 0], [-1e4, -1e4, -1e4], [1e4, 1e4, -1e4]], dtype):
            value, gradient = jax.value_and_grad(h.value_from_logits)(jnp.asarray(logits))
            assert value.dtype == dtype
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()
            low, high = h.range(3)
            assert low - 1e-5 <= value <= high + 1e-5


@pytest.mark.parametrize("name", POTENTIALS)
def test_from_logits_agrees_with_from_probabilities(name, x64, debug_nans):
    h = potential(name)
    logits = jnp.asarray(np.random.default_rng(7).normal(size=(9, 4)) * 5)
    p = jax.nn.softmax(logits)
    np.testing.assert_allclose(h.value_from_logits(logits), h.value(p), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        h.value_from_logits(np.asarray(logits)), h.value(p), rtol=1e-11, atol=1e-13
    )
    through = jax.grad(lambda z: h.value(jax.nn.softmax(z)).sum())(logits)
    direct = jax.grad(lambda z: h.value_from_logits(z).sum())(logits)
    np.testing.assert_allclose(direct, through, rtol=1e-9, atol=1e-12)


def test_tsallis_from_logits_stays_exact_where_probabilities_underflow():
    # p = exp(-2000) is 0 in float64, but p^0.01 = exp(-20) is not.
    h = NegativeTsallis(0.01)
    expected = (np.exp(-20.0) + 1 - 1) / (0.01 - 1)
    assert h.value_from_logits(np.array([0.0, -2000.0])) == pytest.approx(expected, rel=1e-10)


def test_max_takes_the_first_of_tied_entries(x64):
    h = potential("max")
    p = jnp.array([[0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    first = [[0, 1, 0], [1, 0, 0]]
    np.testing.assert_array_equal(h.grad(p), first)
    np.testing.assert_array_equal(jax.vmap(jax.grad(h.value))(p), first)
    logits = jnp.zeros(3)
    # d p_0 / d logits at uniform
    np.testing.assert_allclose(jax.grad(h.value_from_logits)(logits), [2 / 9, -1 / 9, -1 / 9])


def test_numpy_float64_is_computed_in_float64_without_x64():
    p = np.array([1 / 3, 2 / 3 - 1e-12, 1e-12])
    for name in POTENTIALS:
        assert potential(name).value(p).dtype == np.float64
        assert not isinstance(potential(name).value(p), jax.Array)
    quartic = mirrorax.register_potential("quartic64", lambda p: jnp.sum(p**4))
    assert quartic.value(p) == pytest.approx((p**4).sum(), rel=1e-15)
    assert quartic.grad(p).dtype == np.float64


class TestUserPotential:
    """A potential that is not in the list: the Burg entropy, and an asymmetric quadratic."""

    def test_value_gradient_and_name(self):
        h = mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
        assert mirrorax.potential("burg") is h
        assert str(h) == "burg"
        p = dirichlet(8, 4, 3, 5.0)
        np.testing.assert_allclose(h.value(p), -np.log(p).sum(-1), rtol=1e-12)
        np.testing.assert_allclose(h.grad(p), -1 / p, rtol=1e-12)
        # Its Bregman divergence is that of Itakura and Saito.
        q = dirichlet(9, 4, 3, 5.0)
        expected = (p / q - np.log(p / q) - 1).sum(-1)
        drift = mirrorax.drift("bregman(burg)")
        np.testing.assert_allclose(drift.value(p, q), expected, rtol=1e-10)
        assert str(drift) == "bregman(burg)"

    def test_works_as_a_decorator_under_jit_vmap_and_grad(self):
        @mirrorax.register_potential("cubic_mean")
        def cubic(p):
            return jnp.mean(p**3)

        h = mirrorax.potential("cubic_mean")
        logits = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)), jnp.float32)
        expected = jax.vmap(jax.grad(lambda z: cubic(jax.nn.softmax(z))))(logits)
        got = jax.jit(jax.vmap(jax.grad(h.value_from_logits)))(logits)
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)

    def test_range_is_searched_where_h_is_not_symmetric(self):
        h = mirrorax.register_potential(
            "slanted", lambda p: jnp.sum(p**2 * jnp.array([1.0, 2.0, 4.0]))
        )
        # min of sum w p^2 on the simplex is 1 / sum(1 / w)
        assert h.range(3) == pytest.approx((1 / (1 + 1 / 2 + 1 / 4), 4.0), rel=1e-9)
        assert h.bound(3) == pytest.approx(4.0)

    def test_range_whose_minimum_is_on_the_boundary(self):
        h = mirrorax.register_potential(
            "leaning", lambda p: jnp.sum(p**2) + jnp.sum(p * jnp.array([0.0, 3.0, 5.0]))
        )
        assert h.range(3) == pytest.approx((1.0, 6.0), rel=1e-9)

    def test_check_potential_tells_convex_from_not(self):
        assert all(mirrorax.check_potential(name) for name in POTENTIALS)
        concave = mirrorax.register_potential("concave", lambda p: -jnp.sum(p**2))
        outcome = mirrorax.check_potential(concave)
        assert not outcome
        assert "convexity" in str(outcome)
        assert "p = [" in str(outcome)

    @pytest.mark.parametrize(
        ("function", "said"),
        [
            (lambda p: p**2, "returns float64[4], expected one float for one vector; sum over"),
            (lambda p: p.argmax(), "expected one float"),
            (lambda p: None, "returns NoneType, expected a number"),
            (lambda p, q: (p * q).sum(), "missing 1 required positional argument"),
            (lambda p: p.smu(), "has no attribute smu"),
            (lambda p: np.asarray(p).sum(), "gives an array to numpy; use jax.numpy"),
            (lambda p: p[0] if p[0] > 0.5 else p[1], "use jnp.where"),
        ],
    )
    def test_a_mistake_in_the_function_is_one_line_that_names_it(self, function, said):
        h = FunctionPotential("mistaken", function)
        for use in (
            mirrorax.check_potential,
            lambda h: h.range(4),
            lambda h: h.grad(np.ones((2, 4))),
        ):
            with pytest.raises(UserError) as caught:
                use(h)
            assert str(caught.value).startswith("potential: 'mistaken'")
            assert "\n" not in str(caught.value)
        with pytest.raises(UserError) as caught:
            mirrorax.check_potential(h)
        assert said in str(caught.value)

    def test_the_guard_around_a_function_leaves_its_program_alone(self):
        def square(p):
            return jnp.sum(p**2)

        guarded = jax.make_jaxpr(FunctionPotential("square_program", square)._function)
        assert str(guarded(jnp.ones(3))) == str(jax.make_jaxpr(square)(jnp.ones(3)))

    def test_a_name_means_one_thing(self):
        for _ in range(2):  # a cell that is run again
            mirrorax.register_potential("mine_once", lambda p: jnp.sum(p**2))
        with pytest.raises(UserError, match=r"'mine_once' is taken by .*lambda"):
            mirrorax.register_potential("mine_once", lambda p: jnp.sum(p**5))

        def other(p):
            return jnp.sum(p**3)

        with pytest.raises(UserError, match="'mine_once' is taken by"):
            mirrorax.register_potential("mine_once", other)
        with pytest.raises(UserError, match="'entropy' is taken by mirrorax itself"):
            mirrorax.register_potential("entropy", other)
        with pytest.raises(UserError, match="lower-case letters"):
            mirrorax.register_potential("Not A Name", other)
        assert "mine_once" in names_module.names("potential")
