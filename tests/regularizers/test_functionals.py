"""Drift functionals: their formulas, the conditions of mirror learning, a user's own."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorax.errors import UserError
from mirrorax.regularizers import drift
from mirrorax.regularizers.functionals import (
    DPO,
    FunctionFunctional,
    PPOClip,
    check_functional,
    drift_of_samples,
    log_ratio,
)

RATIOS = st.floats(0.05, 20)
ADVANTAGES = st.floats(-10, 10)


@given(r=RATIOS, a=ADVANTAGES, eps=st.floats(0.01, 0.9))
def test_what_clipping_takes_away_is_ppos(r, a, eps):
    """r A - f(r, A) = min(r A, clip(r) A)."""
    with jax.enable_x64(True):
        taken = float(PPOClip(eps).value(jnp.log(r), jnp.asarray(a)))
    clipped = min(r * a, min(max(r, 1 - eps), 1 + eps) * a)
    assert r * a - taken == pytest.approx(clipped, rel=1e-9, abs=1e-9)


@given(r=RATIOS, a=ADVANTAGES)
def test_dpo_is_the_printed_formula(r, a):
    x, scale = ((r - 1) * a, 2.0) if a >= 0 else (math.log(r) * a, 0.6)
    with jax.enable_x64(True):
        found = float(DPO().value(jnp.log(r), jnp.asarray(a)))
    expected = max(x - scale * math.tanh(x / scale), 0.0)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("functional", [PPOClip(0.2), PPOClip(0.05), DPO(), DPO(1.0, 3.0)], ids=str)
def test_the_built_in_ones_are_drifts(functional):
    check = check_functional(functional)
    assert check, str(check)


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (lambda r, a: (r - 1) * a, "f(r, A) >= 0"),
        (lambda r, a: (r - 0.9) ** 2, "f(1, A) = 0"),
        (lambda r, a: jnp.abs(r - 1), "no slope"),
        (lambda r, a: jnp.log(r - 1), "being a number"),
    ],
)
def test_the_check_says_what_is_wrong(function, condition):
    check = check_functional(FunctionFunctional("mine", function))
    assert not check
    assert condition in str(check)


def test_a_users_function_is_called_for_one_sample():
    squared = FunctionFunctional("squared_ratio", lambda r, a: (r - 1) ** 2)
    assert check_functional(squared)
    found = squared.value(jnp.log(jnp.asarray([[1.0, 2.0]])), jnp.zeros((1, 2)))
    np.testing.assert_allclose(found, [[0.0, 1.0]], atol=1e-6)
    wrong = FunctionFunctional("wrong", lambda r, a: jnp.stack([r, a]))
    with pytest.raises(
        UserError, match=r"drift: 'wrong' returns float32\[2\], expected one float for a ratio"
    ):
        wrong.value(jnp.zeros(3), jnp.zeros(3))
    with pytest.raises(UserError, match="drift: 'broken': "):
        FunctionFunctional("broken", lambda r: r).value(jnp.zeros(3), jnp.zeros(3))


@pytest.mark.parametrize("make", [lambda: PPOClip(0), lambda: PPOClip(-1), lambda: DPO(2, 0)])
def test_parameters_are_positive(make):
    with pytest.raises(UserError, match=r"is not allowed: .* > 0, a finite number"):
        make()


def test_both_kinds_stand_in_the_same_place():
    rng = np.random.default_rng(0)
    logits, old = (jnp.asarray(rng.normal(size=(3, 8)), jnp.float32) for _ in range(2))
    action = jnp.asarray(rng.integers(0, 3, 8), jnp.int32)
    advantage = jnp.asarray(rng.normal(size=8), jnp.float32)
    p, q = (np.asarray(jax.nn.softmax(x, axis=0), float) for x in (logits, old))
    exact = drift_of_samples(drift("kl"), logits, old, action, advantage)
    np.testing.assert_allclose(exact, (p * np.log(p / q)).sum(0), rtol=1e-4, atol=1e-6)
    place = (np.asarray(action), np.arange(8))
    ratio = p[place] / q[place]
    np.testing.assert_allclose(jnp.exp(log_ratio(logits, old, action)), ratio, rtol=1e-5)
    sampled = drift_of_samples(PPOClip(0.1), logits, old, action, advantage)
    expected = np.maximum((ratio - np.clip(ratio, 0.9, 1.1)) * np.asarray(advantage, float), 0)
    np.testing.assert_allclose(sampled, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("functional", [PPOClip(0.2), DPO()], ids=str)
def test_the_expectation_over_actions_has_no_slope_at_the_old_policy(functional, x64):
    """The Gateaux derivative of D at pi_k vanishes, along every direction of the logits."""
    rng = np.random.default_rng(1)
    old, advantage = (jnp.asarray(rng.normal(size=(4, 5))) for _ in range(2))
    weights = jax.nn.softmax(old, axis=0)

    def expected(logits):
        change = jax.nn.log_softmax(logits, axis=0) - jax.nn.log_softmax(old, axis=0)
        return jnp.sum(weights * functional.value(change, advantage))

    np.testing.assert_allclose(jax.grad(expected)(old), 0, atol=1e-12)
