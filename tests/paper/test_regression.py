from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError
from mirrorax.paper.regression import regression


def points(x, y) -> list[Minimal]:
    return [
        Minimal(f"e{k}", float(a), float(b), False, (0.0, float(b)))
        for k, (a, b) in enumerate(zip(x, y, strict=True))
    ]


def test_the_line_agrees_with_scipy():
    rng = np.random.default_rng(0)
    x = np.array([5, 50, 100, 143, 200, 300, 500, 1000.0])
    y = 2e-5 * x * np.exp(rng.normal(0, 0.2, len(x)))
    fit = regression(points(x, y))
    oracle = stats.linregress(x, y)
    assert fit.value == pytest.approx(oracle.slope)
    assert fit.intercept == pytest.approx(oracle.intercept)
    half = stats.t.ppf(0.975, len(x) - 2) * oracle.stderr
    assert (fit.low, fit.high) == pytest.approx((fit.value - half, fit.value + half))
    # The band from the covariance matrix of the coefficients, an independent way.
    design = np.stack([np.ones_like(x), x], axis=1)
    rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    cov = np.linalg.inv(design.T @ design) * (rest @ rest) / (len(x) - 2)
    at = np.array([20.0, 400.0])
    row = np.stack([np.ones(2), at], axis=1)
    width = stats.t.ppf(0.975, len(x) - 2) * np.sqrt(np.einsum("ij,jk,ik->i", row, cov, row))
    middle = row @ np.array([fit.intercept, fit.value])
    np.testing.assert_allclose(fit.band(at), (middle - width, middle + width))


def test_censored_values_are_left_out():
    censored = Minimal("c", 999, 1.0, True, (0.0, np.inf))
    some = [*points([5, 50, 100, 200], [0.0, 1e-2, 2e-2, 4e-2]), censored]
    assert len(regression(some).x) == 4
    with pytest.raises(UserError, match="2 of 5 environments"):
        regression([*some[:2], *[censored] * 3])
    with pytest.raises(UserError, match="same maximum return"):
        regression(points([5, 5, 5], [1, 2, 3]))
