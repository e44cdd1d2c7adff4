from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from mirrorax.analysis.estimates import frequency_band
from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.region import region
from mirrorax.analysis.scores import cell_scores, environment_scores, frequency, rbst, top
from mirrorax.analysis.temperature import smallest
from mirrorax.errors import UserError

scores = hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-0.5, 1.3))


def test_the_score_is_equation_nine_summed_by_hand(small):
    for item in landscapes(small):
        d = cell_scores(item.runs())
        for i in range(len(item.alphas)):
            for j in range(len(item.lams)):
                total, number = 0.0, 0
                for e in range(len(item.environments)):
                    for n in range(item.expected):
                        for m in range(item.stochastic.shape[-1]):
                            total += item.stochastic[i, j, e, n, m]
                            number += 1
                assert d[i, j] == pytest.approx(total / number, rel=1e-12)


def test_returns_are_not_clipped():
    assert cell_scores(np.array([[[1.2, 1.4]]]))[0] == pytest.approx(1.3)
    assert cell_scores(np.array([[[-0.2, -0.4]]]))[0] == pytest.approx(-0.3)


@pytest.mark.parametrize("seeds", [1, 2, 3, 5, 10])
def test_median_and_interquartile_mean_agree_with_scipy(seeds, rng):
    runs = rng.normal(size=(4, 3, 2, seeds))
    pooled = runs.reshape(4, 3, -1)
    np.testing.assert_allclose(
        cell_scores(runs, "iqm"), stats.trim_mean(pooled, 0.25, axis=-1), rtol=1e-12
    )
    np.testing.assert_allclose(cell_scores(runs, "median"), np.median(pooled, axis=-1), rtol=1e-12)


def test_missing_runs_are_left_out_of_their_environment_only(rng):
    runs = rng.normal(size=(2, 3, 5))
    runs[0, 1, 2:] = np.nan
    by_hand = np.mean([runs[0, 0].mean(), runs[0, 1, :2].mean(), runs[0, 2].mean()])
    assert cell_scores(runs)[0] == pytest.approx(by_hand)
    left = runs[0][np.isfinite(runs[0])]
    assert cell_scores(runs, "iqm")[0] == pytest.approx(stats.trim_mean(left, 0.25))
    assert cell_scores(runs, "median")[0] == pytest.approx(np.median(left))


@pytest.mark.parametrize("statistic", ["mean", "median", "iqm"])
def test_a_cell_without_an_environment_has_no_score(statistic, rng):
    runs = rng.normal(size=(2, 3, 5))
    runs[1, 2] = np.nan
    d = cell_scores(runs, statistic)
    assert np.isfinite(d[0])
    assert np.isnan(d[1])
    assert np.isnan(environment_scores(runs)[1, 2])


def test_an_unknown_statistic_is_refused(rng):
    with pytest.raises(UserError, match="mean, median, iqm"):
        cell_scores(rng.normal(size=(1, 1, 2)), "mode")


@given(scores, st.floats(0, 0.99))
def test_rbst_is_the_area_under_the_frequency_curve(d, threshold):
    # Between two neighbouring levels the curve is constant: integrate it there, piece by piece.
    levels = np.unique(np.concatenate([[threshold, 1.0], d[(d > threshold) & (d < 1.0)]]))
    middle = (levels[1:] + levels[:-1]) / 2
    share = np.array([np.mean([x >= tau for x in d]) for tau in middle])
    area = float(np.sum(share * np.diff(levels))) / (1 - threshold)
    assert rbst(d, threshold) == pytest.approx(area, abs=1e-12)


def test_rbst_agrees_with_numerical_integration(rng):
    d = rng.beta(2, 1, size=300)
    area, _ = integrate.quad(lambda tau: np.mean(d >= tau), 0.6, 1, limit=2000, points=[0.8])
    assert rbst(d, 0.6) == pytest.approx(area / 0.4, abs=1e-4)


@given(scores)
def test_frequency_counts_cells_at_or_above(d):
    levels = np.concatenate([d, [-1.0, 0.5, 2.0]])
    # The documented tolerance against the rounding of means: 1e-9.
    expected = [sum(x >= tau - 1e-9 for x in d) / len(d) for tau in levels]
    np.testing.assert_allclose(frequency(d, levels), expected, atol=1e-12)


@given(scores, st.floats(0, 0.9), st.floats(0, 0.09))
def test_rbst_falls_with_the_threshold_never_below_zero_or_above_the_frequency(d, t, more):
    assert 0 <= rbst(d, t + more) <= rbst(d, t) + 1e-12
    assert rbst(d, t) <= frequency(d, np.array([t]))[0] + 1e-12


def test_cells_without_a_score_leave_numerator_and_denominator():
    assert rbst(np.array([1.0, np.nan, 0.0, np.nan]), 0.9) == 0.5
    assert frequency(np.array([1.0, np.nan]), np.array([0.9]))[0] == 1.0


@pytest.mark.parametrize("threshold", [1.0, 1.5, -0.1, float("nan")])
def test_a_threshold_outside_its_range_is_refused(threshold):
    with pytest.raises(UserError, match=r"not in \[0, 1\)"):
        rbst(np.ones(3), threshold)


def test_no_scores_at_all_is_an_error_not_a_nan():
    with pytest.raises(UserError, match="there is no score"):
        rbst(np.full(4, np.nan), 0.9)


@pytest.mark.parametrize(("share", "n", "count"), [(0.01, 784, 8), (0.1, 784, 79), (0.1, 30, 3)])
def test_the_best_share_rounds_up(share, n, count, rng):
    d = rng.normal(size=n)
    best = sorted(d.tolist(), reverse=True)[:count]
    got = top(d, share)
    assert got.count == count
    assert got.mean == pytest.approx(sum(best) / count)
    assert got.std == pytest.approx(np.sqrt(sum((x - got.mean) ** 2 for x in best) / count))
    with pytest.raises(UserError, match="share"):
        top(d, 0.0)


def test_a_mean_at_the_threshold_has_reached_it_whatever_its_rounding(rng):
    runs = np.full((2, 2, 1, 3), 0.9 - 1e-15)
    runs[0, 0] = 0.9 - 1e-6
    d = cell_scores(runs)
    assert d.max() < 0.9
    assert frequency(d, np.array([0.9]))[0] == 0.75
    (band,) = frequency_band(runs, [0.9])
    assert band.value == 0.75
    values = np.array([0.1, 1.0])
    assert region(d, values, values, 0.9).good.tolist() == [[False, True], [True, True]]
    assert smallest(d[1], values, 0.9) == (0.1, False, (0.0, 0.1))
