"""Every built-in pair at extreme temperatures and policies, to 1e-9, judged in 50 digits."""

from __future__ import annotations

import os

import numpy as np
import pytest
from certificate import error_of, error_with_kinks
from families import built_in

from mirrorax.tabular import mirror_step

LONG = os.environ.get("MIRRORAX_FAULTS") == "long"
ROWS = 12 if LONG else 3
POTENTIALS = [
    "entropy",
    "tsallis(0.1)",
    "tsallis(0.5)",
    "tsallis(1.000001)",
    "tsallis(2.5)",
    "tsallis(20)",
    "lp(1.1)",
    "lp(2)",
    "lp(12)",
]
# Each potential with itself and with the next one; in a long run with all.
FIRST = {(h, g) for k, h in enumerate(POTENTIALS) for g in (h, POTENTIALS[k - 1])}
SMOOTH = [
    *((h, d) for h in (*POTENTIALS, "zero") for d in ("kl", "forward_kl")),
    *((h, "zero") for h in POTENTIALS),
    *(
        (h, f"bregman({g})")
        for h in (*POTENTIALS, "zero")
        for g in POTENTIALS
        if LONG or (h, g) in FIRST or (h, g) == ("zero", "tsallis(0.5)")
    ),
]
KINKED = [
    *((h, "squared_tv") for h in (*POTENTIALS, "zero")),
    *((h, "bregman(max)") for h in (*POTENTIALS, "max", "zero")),
    *(("max", d) for d in ("kl", "zero", *(f"bregman({g})" for g in POTENTIALS))),
]


def instances(h, d):
    """Draw problems of 2 to 18 actions; every third policy is close to the boundary."""
    generator = np.random.default_rng(sum(map(ord, h + d)))
    for row in range(ROWS):
        n = int(generator.integers(2, 19))
        q_values = generator.normal(size=n) * 10 ** generator.uniform(-3, 3)
        q = generator.dirichlet(np.ones(n))
        if row % 3 == 1:
            q = np.where(generator.random(n) < 0.3, 1e-12, q)
        alpha, lam = 10 ** generator.uniform(-6, np.log10(5e4), 2)
        yield q_values, q / q.sum(), alpha * (h != "zero"), lam * (d != "zero")


@pytest.mark.parametrize(("h", "d"), SMOOTH)
def test_smooth_pairs(h, d):
    for given in instances(h, d):
        p = mirror_step(given[0], given[1], h, d, *given[2:])
        assert error_of(p, *given, built_in(h), built_in(d)) <= 1e-9


@pytest.mark.parametrize(("h", "d"), KINKED)
def test_pairs_with_a_kink(h, d):
    for q_values, q, alpha, lam in instances(h, d):
        q = 0.99 * q + 0.01 / len(q)
        p = mirror_step(q_values, q, h, d, alpha, lam)
        # One rounding of p moves slopes by this: no gap at a float64 is smaller.
        rounding = 64 * np.finfo(float).eps * (alpha + lam)
        assert error_with_kinks(p, q_values, q, h, d, alpha, lam) <= 1e-9 + rounding


def tiny_policy(generator, n):
    """Draw a policy with entries of any size down to 1e-20, and zeros."""
    q = generator.dirichlet(np.ones(n))
    q = np.where(generator.random(n) < 0.3, 10 ** generator.uniform(-20, -1, n), q)
    q = np.where(generator.random(n) < 0.1, 0, q)
    q[0] += 1e-9
    return q / q.sum()


def test_max_with_forward_kl_where_a_probability_is_tiny():
    q = np.array([1e-16, 0.3, 0.7])
    p = mirror_step(np.zeros(3), q / q.sum(), "max", "forward_kl", 10, 1e-6)
    np.testing.assert_allclose(p, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_max_with_forward_kl_over_its_whole_range(seed):
    generator = np.random.default_rng(seed)
    for _ in range(25):
        n = int(generator.integers(2, 19))
        q_values = generator.normal(size=n) * 10 ** generator.uniform(-3, 3)
        q = tiny_policy(generator, n)
        alpha, lam = 10 ** generator.uniform(-6, np.log10(5e4), 2)
        p = mirror_step(q_values, q, "max", "forward_kl", alpha, lam)
        assert error_with_kinks(p, q_values, q, "max", "forward_kl", alpha, lam) <= 1e-9


@pytest.mark.parametrize(
    ("q_values", "first", "alpha", "lam"),
    [
        ([-14.048, -13.542], 0.05, 0.0023, 87.0),
        ([1.328, 12.103], 0.288, 29.0, 0.06),
        ([-4.693, 1.468], 0.102, 0.098, 1.5),
    ],
)
def test_powers_so_steep_that_one_rounding_of_the_slope_moves_a_probability(
    q_values, first, alpha, lam
):
    h, d, q = "tsallis(20)", "bregman(lp(12))", [first, 1 - first]
    p = mirror_step(q_values, q, h, d, alpha, lam)
    assert error_of(p, q_values, q, alpha, lam, built_in(h), built_in(d)) <= 1e-12
