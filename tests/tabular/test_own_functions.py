"""The mirror step of random regularisers of one's own, against a certificate in longer floats."""

from __future__ import annotations

import decimal
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from families import BUILT_IN, Term, bregman, decimals, random_drift, random_potential

from mirrorax.regularizers.drifts import Bregman, Drift, drift
from mirrorax.regularizers.functions import FunctionDrift, FunctionPotential
from mirrorax.regularizers.potentials import Potential, potential
from mirrorax.tabular import mirror_step

PAIRS = 1000 if os.environ.get("MIRRORAX_FAULTS") == "long" else 40
STATES = 10

decimal.getcontext().prec = 50


def random_pair(generator, actions) -> tuple[Potential, Drift, Term, Term]:
    """Draw (h, D) of which at least one is of one's own, as regularisers and as terms."""
    own_h, own_d = random_potential(generator, actions), random_drift(generator, actions)
    h = FunctionPotential("own", lambda p: own_h.value(p, p))
    d = FunctionDrift("own", own_d.value)
    kind = generator.integers(4)
    if kind == 0:
        name = str(generator.choice([n for n in BUILT_IN if n in ("entropy", "tsallis(0.5)", "lp(2)", "lp(3)")]))
        return potential(name), d, BUILT_IN[name], own_d
    if kind == 1:
        name = str(generator.choice(["kl", "forward_kl", "bregman(tsallis(0.5))", "bregman(lp(2))"]))
        return h, drift(name), own_h, BUILT_IN[name]
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


def error_of(p, q_values, q, alpha, lam, h: Term, d: Term) -> float:
    """Return f(p) - min f over 1 + abs(f), from above, in decimals of 50 digits.

    The duality gap at p bounds it. Where one rounding of p makes a gap that is larger than the
    error, Newton's method goes on from p, with more digits, to a point whose gap is smaller.
    """
    p, q, q_values, alpha, lam = map(decimals, (np.maximum(p, 1e-300), q, q_values, alpha, lam))

    def value(p):
        f = -(q_values * p).sum()
        f = f + alpha * h.value(p, q) if alpha else f
        return f + lam * d.value(p, q) if lam else f

    def slopes(p):
        g = -q_values
        g = g + alpha * h.grad(p, q) if alpha else g
        return g + lam * d.grad(p, q) if lam else g

    p = summing_to_one(p)
    size, point, error = 1 + abs(value(p)), p, np.inf
    for _ in range(30):
        g = slopes(point)
        lost = value(p) - value(point) if point is not p else 0
        error = min(error, float((lost + (point * (g - g.min())).sum()) / size))
        if error <= 1e-9:
            break
        point = newton(point, slopes, g, size * decimals(1e-14))
    return error


def newton(p, slopes, g, t):
    """Take one step of the barrier method, with a Hessian by differences, in relative steps."""
    step = decimals(1e-15)
    unit = decimals(np.eye(len(p)))
    changes = [slopes(p * (1 + step * e)) - slopes(p * (1 - step * e)) for e in unit]
    slack = p * (g - (p * g).sum())
    hessian = np.array([change * p / (2 * step) for change in changes], float)
    diagonal = np.maximum(np.asarray(slack, float), float(t))
    root = np.sqrt(np.maximum(np.diag(hessian), 0) + diagonal)
    matrix = (hessian + hessian.T) / 2 / root / root[:, None] + np.diag(diagonal / root**2)
    across = np.asarray(p, float) / root
    size = np.abs(across).max()
    system = np.block([[matrix, across[:, None] / size], [across / size, np.zeros((1, 1))]])
    right = np.append(np.asarray(t - slack, float) / root, 0)
    x = np.linalg.lstsq(system, right)[0][:-1] / root
    return summing_to_one(p * (1 + decimals(min(1, 0.99 / max(-x.min(), 1e-300)) * x)))


def summing_to_one(p):
    """Correct the largest entry: a small one may be known to more digits than the sum."""
    p = p.copy()
    p[p.argmax()] += 1 - p.sum()
    return p


@pytest.mark.parametrize("seed", range(PAIRS))
def test_random_smooth_convex_pairs_are_solved(seed):
    generator = np.random.default_rng(seed)
    actions = int(generator.integers(2, 19))
    h, d, h_term, d_term = random_pair(generator, actions)
    states = random_states(generator, actions)
    p = mirror_step(states[0], states[1], h, d, *states[2:])
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-12)
    errors = [error_of(p[i], *(a[i] for a in states), h_term, d_term) for i in range(STATES)]
    assert max(errors) <= 1e-8, (h_term.name, d_term.name, actions, errors)
