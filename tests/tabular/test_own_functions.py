"""The mirror step of random regularisers of one's own, against a certificate in longer floats."""

from __future__ import annotations

import os
import re

import jax.numpy as jnp
import numpy as np
import pytest
from certificate import error_of
from families import Term, bregman, built_in, random_drift, random_potential

from mirrorax.errors import UserError
from mirrorax.regularizers.drifts import Bregman, Drift, drift
from mirrorax.regularizers.functions import FunctionDrift, FunctionPotential
from mirrorax.regularizers.potentials import Potential, potential
from mirrorax.tabular import garnet, mirror_step, solve

#: In the short form two of each kind of `random_pair`.
SEEDS = range(1000) if os.environ.get("MIRRORAX_FAULTS") == "long" else (1, 9, 5, 10, 6, 11, 13, 14)
STATES = 10


def random_pair(generator, actions) -> tuple[Potential, Drift, Term, Term]:
    """Draw (h, D) of which at least one is of one's own, as regularisers and as terms."""
    own_h, own_d = random_potential(generator, actions), random_drift(generator, actions)
    h = FunctionPotential("own", lambda p: own_h.value(p, p))
    d = FunctionDrift("own", own_d.value)
    kind = generator.integers(4)
    if kind == 0:
        name = str(generator.choice(["entropy", "tsallis(0.5)", "lp(2)", "lp(3)"]))
        return potential(name), d, built_in(name), own_d
    if kind == 1:
        names = ["kl", "forward_kl", "bregman(tsallis(0.5))", "bregman(lp(2))"]
        name = str(generator.choice(names))
        return h, drift(name), own_h, built_in(name)
    if kind == 2:
        return h, Bregman(h), own_h, bregman(own_h)
    return h, d, own_h, own_d


def random_states(generator, actions):
    """Draw Q, old policies and temperatures, each over its whole range."""
    scale = 10 ** generator.uniform(-3, 3, (STATES, 1))
    q_values = generator.normal(size=(STATES, actions)) * scale
    q = generator.dirichlet(np.ones(actions), STATES)
    near = generator.random((STATES, actions)) < 0.2 * (np.arange(STATES)[:, None] % 2)
    q = np.where(near, 1e-12, q)
    alpha, lam = 10 ** generator.uniform(-5, np.log10(5e4), (2, STATES))
    absent = generator.integers(10)  # one regulariser alone, every tenth time each
    alpha, lam = alpha * (absent != 0), lam * (absent != 1)
    return q_values, q / q.sum(-1, keepdims=True), alpha, lam


@pytest.mark.parametrize("seed", SEEDS)
def test_random_smooth_convex_pairs_are_solved(seed):
    generator = np.random.default_rng(seed)
    actions = int(generator.integers(2, 19))
    h, d, h_term, d_term = random_pair(generator, actions)
    states = random_states(generator, actions)
    p = mirror_step(states[0], states[1], h, d, *states[2:])
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    errors = [error_of(p[i], *(a[i] for a in states), h_term, d_term) for i in range(STATES)]
    assert max(errors) <= 1e-8, (h_term.name, d_term.name, actions, errors)


def hellinger(p, q):
    return ((p**0.5 - q**0.5) ** 2).sum()


def burg(p):
    return -jnp.log(p).sum()


class TestTogetherAndAlone:
    @pytest.mark.parametrize(("alpha", "lam"), [(0.01, 100.0), (100.0, 0.01)])
    @pytest.mark.parametrize(
        ("h", "d"),
        [
            (potential("entropy"), FunctionDrift("hellinger", hellinger)),
            (FunctionPotential("burg", burg), drift("kl")),
            (FunctionPotential("burg", burg), Bregman(FunctionPotential("burg", burg))),
        ],
    )
    def test_ten_states_of_an_mdp_are_solved_at_once(self, h, d, alpha, lam):
        trace = solve(garnet(10, 3), h, d, alpha, lam, iterations=20)
        assert (np.diff(trace.gap) <= 1e-8 * (1 + trace.gap[:-1])).all()

    def test_a_state_does_not_depend_on_its_neighbours(self):
        generator = np.random.default_rng(0)
        q_values, q, alpha, lam = random_states(generator, 4)
        h, d = FunctionPotential("burg", burg), FunctionDrift("hellinger", hellinger)
        together = mirror_step(q_values, q, h, d, alpha + 1e-3, lam + 1e-3)
        for i in range(STATES):
            alone = mirror_step(q_values[i], q[i], h, d, alpha[i] + 1e-3, lam[i] + 1e-3)
            np.testing.assert_allclose(together[i], alone, rtol=1e-6)


class TestRange:
    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    @pytest.mark.parametrize("n", [2, 18])
    def test_scaled_entropy(self, scale, n):
        h = FunctionPotential("scaled", lambda p: scale * (p * jnp.log(p)).sum())
        low, high = h.range(n)
        assert low == pytest.approx(-scale * np.log(n), rel=1e-12)
        assert high == pytest.approx(0, abs=1e-12 * scale)

    def test_a_minimum_at_the_boundary_and_a_largest_value_at_a_vertex(self):
        h = FunctionPotential("tilted", lambda p: 3 * p[0] + (p**2).sum())
        low, high = h.range(3)  # p = (0, 1/2, 1/2) and (1, 0, 0)
        assert low == pytest.approx(0.5, rel=1e-9)
        assert high == pytest.approx(4)


class TestRefusals:
    """Only what a test found is held against a function, and the points are named."""

    def refusal(self, h, d="zero", lam=0.0):
        with pytest.raises(UserError) as caught:
            mirror_step([1.0, 2.0, 3.0], [0.2, 0.3, 0.5], h, d, 1.0, lam)
        return str(caught.value)

    def points(self, text):
        return [np.array(as_numbers(found)) for found in re.findall(r"\[([^\]]*)\]", text)]

    def test_a_concave_function_and_the_points_between_which_its_slope_falls(self):
        said = self.refusal(FunctionPotential("bump", lambda p: -jnp.sum(p**2)))
        assert "not convex" in said
        left, right = self.points(said)
        assert (-2 * (right - left) @ (right - left)) < 0
        np.testing.assert_allclose([left.sum(), right.sum()], 1, rtol=1e-6)

    def test_a_second_minimum_elsewhere_and_a_point_that_shows_it(self):
        said = self.refusal(FunctionPotential("wave", lambda p: jnp.cos(9 * p[0]) - 4 * p[0]))
        assert "not convex" in said
        below, at = self.points(said)
        slope = -9 * np.sin(9 * at[0]) - 4
        chord = np.cos(9 * below[0]) - 4 * below[0] - np.cos(9 * at[0]) + 4 * at[0]
        assert chord < slope * (below[0] - at[0])

    def test_a_kink_and_the_points_it_lies_between(self):
        tv = FunctionDrift("tv", lambda p, q: jnp.abs(p - q).sum() / 2)
        said = self.refusal(potential("entropy"), tv, 1.0)
        assert "not smooth" in said
        left, right = self.points(said)
        crossed = (left - [0.2, 0.3, 0.5]) * (right - [0.2, 0.3, 0.5]) <= 0
        assert crossed.any()

    def test_a_function_without_values_is_not_called_concave(self):
        said = self.refusal(FunctionPotential("nowhere", lambda p: jnp.log(p - 1).sum()))
        assert "not finite" in said
        assert "convex" not in said


def as_numbers(text):
    return [float(number) for number in text.split(",")]
