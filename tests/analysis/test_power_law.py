from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError
from mirrorax.paper.axes import MAX_RETURNS
from mirrorax.paper.claims_on_temperatures import exponents_without_one

RETURNS = np.array(sorted(MAX_RETURNS))


def on_grid(truth, grid) -> list[Minimal]:
    """What a grid shows of temperatures that are known."""
    positive = np.array([value for value in grid if value > 0])
    out = []
    for x, y in zip(RETURNS, truth, strict=True):
        k = int(np.searchsorted(positive, y))
        low = float(positive[k - 1]) if k else 0.0
        high = float(positive[k]) if k < len(positive) else np.inf
        out.append(Minimal("e", float(x), min(high, positive[-1]), k == len(positive), (low, high)))
    return out


def narrow(x, y, width=1e-3) -> list[Minimal]:
    return [
        Minimal("e", float(a), float(b), False, (b * (1 - width), b * (1 + width)))
        for a, b in zip(x, y, strict=True)
    ]


def test_narrow_brackets_give_the_usual_line_with_its_usual_intervals(rng):
    y = 3e-4 * RETURNS**0.8 * 10 ** rng.normal(0, 0.3, len(RETURNS))
    law = power_law(narrow(RETURNS, y))
    u, v = np.log10(RETURNS), np.log10(y)
    oracle = stats.linregress(u, v)
    half = stats.t.ppf(0.975, len(u) - 2) * oracle.stderr
    assert law.exponent == pytest.approx(oracle.slope, abs=1e-3)
    assert law.intercept == pytest.approx(oracle.intercept, abs=2e-3)
    assert (law.low, law.high) == pytest.approx(
        (oracle.slope - half, oracle.slope + half), abs=2e-3
    )
    # The band from the covariance matrix of the coefficients.
    design = np.stack([np.ones_like(u), u], axis=1)
    rest = v - design @ np.array([oracle.intercept, oracle.slope])
    cov = np.linalg.inv(design.T @ design) * (rest @ rest) / (len(u) - 2)
    at = np.array([20.0, 400.0])
    row = np.stack([np.ones(2), np.log10(at)], axis=1)
    width = stats.t.ppf(0.975, len(u) - 2) * np.sqrt(np.einsum("ij,jk,ik->i", row, cov, row))
    np.testing.assert_allclose(
        np.log10(law.line(at)), row @ [oracle.intercept, oracle.slope], atol=2e-3
    )
    low, high = law.band(at)
    np.testing.assert_allclose(np.log10(law.line(at) / low), width, atol=4e-3)
    np.testing.assert_allclose(np.log10(high / law.line(at)), width, atol=4e-3)


def test_each_environment_is_left_out_in_turn(rng):
    y = 3e-4 * RETURNS**0.8 * 10 ** rng.normal(0, 0.3, len(RETURNS))
    points = narrow(RETURNS, y)
    points.insert(3, Minimal("none", 7.0, 1.0, True, (0.0, np.inf)))
    u, v = np.log10(RETURNS), np.log10(y)
    slopes = [stats.linregress(np.delete(u, k), np.delete(v, k)).slope for k in range(len(RETURNS))]
    np.testing.assert_allclose(exponents_without_one(points), slopes, atol=2e-3)
    with pytest.raises(UserError, match="at least 3"):
        exponents_without_one(points[:3])


def test_it_is_the_maximum_of_the_likelihood(synthetic, rng):
    """As another optimiser finds it, with open brackets at both ends."""
    truth = 2e-3 * RETURNS * 10 ** rng.normal(0, 0.15, len(RETURNS))
    points = on_grid(truth, synthetic.ALPHAS)
    assert points[-1].between[1] == np.inf
    points[0] = Minimal("e", 5.0, points[0].value, False, (0.0, points[0].value))
    law = power_law(points)
    with np.errstate(divide="ignore"):
        low, high = np.log10(np.array([p.between for p in points])).T
    u = np.log10(RETURNS)

    def profile(slope):
        def cost(free):
            where = {"loc": free[0] + slope * u, "scale": np.exp(free[1])}
            return -np.log(stats.norm.cdf(high, **where) - stats.norm.cdf(low, **where)).sum()

        start = [np.mean(np.log10(truth) - slope * u), np.log(0.3)]
        return -optimize.minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-6}).fun

    assert profile(law.exponent) == pytest.approx(law.likelihood, abs=1e-4)
    for other in (law.exponent - 0.03, law.exponent + 0.03):
        assert profile(other) < law.likelihood
    n = len(u)
    allowed = n / 2 * np.log(1 + stats.t.ppf(0.975, n - 2) ** 2 / (n - 2))
    for end in (law.low, law.high):
        assert law.likelihood - profile(end) == pytest.approx(allowed, abs=5e-3)


def test_brackets_that_a_line_runs_through_have_the_least_spread(synthetic, rng):
    """The likelihood rises with ever less noise; where that is held, the rest is a maximum."""
    points = on_grid(2e-4 * RETURNS, synthetic.ALPHAS)
    law = power_law(points)
    assert law.spread == pytest.approx(0.05)
    with np.errstate(divide="ignore"):
        low, high = np.log10(np.array([p.between for p in points])).T
    u = np.log10(RETURNS)

    def likelihood(middle, slope):
        at = {"loc": middle + slope * (u - u.mean()), "scale": 0.05}
        return np.log(stats.norm.cdf(high, **at) - stats.norm.cdf(low, **at)).sum()

    middle = law.intercept + law.exponent * u.mean()
    best = likelihood(middle, law.exponent)
    assert best == pytest.approx(law.likelihood, abs=1e-9)
    for size in (1e-3, 1e-2, 0.05):
        for _ in range(20):
            a, b = rng.normal(0, size, 2)
            assert likelihood(middle + a, law.exponent + b) < best


def test_the_ends_of_the_grid_do_not_bend_the_law(synthetic):
    """The lowest alpha works at the lowest return; the true one is a fifth of it."""
    points = on_grid(4e-5 * RETURNS, synthetic.ALPHAS)
    assert points[0].between == (0.0, 0.001)
    law = power_law(points)
    assert law.exponent == pytest.approx(1.0, abs=0.05)
    assert law.low <= 1 <= law.high
    as_exact = stats.linregress(np.log10(RETURNS), np.log10([p.value for p in points]))
    assert as_exact.slope < 0.8


@pytest.mark.parametrize(("grid", "centre"), [("ALPHAS", 0.06), ("LAMS", 10.0)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(grid, centre, synthetic, rng):
    held = 0
    for _ in range(60):
        scale = centre / 500 * np.exp(rng.uniform(-1, 1))
        truth = scale * RETURNS * np.exp(rng.normal(0, 0.2, len(RETURNS)))
        law = power_law(on_grid(truth, getattr(synthetic, grid)))
        held += law.low <= 1 <= law.high
    assert held >= 52  # of a fair 95% interval, once in a thousand it would be fewer


def test_an_environment_where_nothing_works_says_nothing(synthetic):
    points = on_grid(1e-4 * RETURNS, synthetic.ALPHAS)
    with_one_more = [Minimal("c", 2.0, 1.0, True, (0.0, np.inf)), *points]
    plain, more = power_law(points), power_law(with_one_more)
    assert (plain.exponent, plain.low, plain.high) == (more.exponent, more.low, more.high)
    assert len(more.x) == len(points)


def test_another_exponent_is_told_from_linear_growth(synthetic):
    root = power_law(on_grid(2e-3 * np.sqrt(RETURNS), synthetic.ALPHAS))
    assert root.low <= 0.5 <= root.high < 1


def test_brackets_that_say_nothing_have_no_end():
    points = narrow([10, 20, 40], [0.01, 1.0, 0.02])
    law = power_law(points)
    assert law.low < -2
    assert law.high > 2


def test_what_cannot_be_fitted_is_refused():
    few = [*narrow([5, 50], [1e-3, 1e-2]), *[Minimal("c", 9.0, 1.0, True, (0.0, np.inf))] * 3]
    with pytest.raises(UserError, match="2 of 5 environments"):
        power_law(few)
    with pytest.raises(UserError, match="same maximum return"):
        power_law(narrow([5, 5, 5], [1, 2, 3]))
    with pytest.raises(UserError, match="not positive"):
        power_law(narrow([-75, 5, 500], [1, 2, 3]))
