from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mirrorax.analysis.scores import (
    mean_interval,
    mean_intervals,
    mean_variances,
    seeds_in_words,
)

ANY = (-np.inf, np.inf)


def test_variances_are_unbiased_and_need_two_seeds(rng):
    runs = rng.normal(size=(3, 4, 2, 5))
    np.testing.assert_allclose(mean_variances(runs), runs.var(axis=-1, ddof=1) / 5, rtol=1e-12)
    runs[0, 0, 0, 1:] = np.nan
    assert np.isnan(mean_variances(runs)[0, 0, 0])


@pytest.mark.parametrize("seeds", [3, 5, 20])
def test_one_environments_interval_is_students(seeds, rng):
    values = rng.normal(0.5, 0.3, seeds)
    expected = stats.t.interval(0.95, seeds - 1, values.mean(), stats.sem(values))
    assert mean_interval(values, ANY) == pytest.approx(expected)


def test_two_environments_interval_is_welchs(rng):
    """The mean of x and -y is half their difference, which scipy has an interval for."""
    x, y = rng.normal(0.5, 0.3, 4), rng.normal(-0.2, 0.1, 7)
    runs = np.full((2, 7), np.nan)
    runs[0, :4], runs[1] = x, -y
    expected = stats.ttest_ind(x, y, equal_var=False).confidence_interval(0.95)
    low, high = mean_intervals(runs, bounds=None)
    assert [2 * low, 2 * high] == pytest.approx([expected.low, expected.high])


@pytest.mark.parametrize("seeds", [3, 4, 5, 10, 20])
@pytest.mark.parametrize("environments", [1, 4])
def test_intervals_that_are_shown_hold_where_runs_succeed_or_fail(seeds, environments, suite):
    rng = np.random.default_rng([seeds, environments])
    truth = suite.by_chance(rng.uniform(0.3, 0.95, (2000, 1, environments)))
    low, high = mean_intervals(truth.draw(seeds, rng))
    mean = truth.means.mean(axis=-1)
    shown = np.isfinite(low)
    assert np.mean(((low <= mean) & (mean <= high))[shown]) >= 0.92
    assert 0 <= low[shown].min() <= high[shown].max() <= 1


def test_one_seed_two_seeds_and_seeds_that_agree_have_none():
    few = np.array([[0.2, np.nan, np.nan]])
    assert seeds_in_words(few) == "one seed: no interval"
    two = np.array([[0.2, 0.9, np.nan], [0.4, 0.5, 0.6]])
    assert seeds_in_words(two) == "two seeds: 0.300 and 0.700"
    alike = np.array([[0.97, 0.99, 0.98, 0.99, 0.98]])
    assert seeds_in_words(alike) == "5 seeds agree: 0.970 to 0.990"
    for runs in (few, two, alike):
        assert np.isnan(mean_intervals(runs)).all()
    assert mean_interval(alike[0], agree=0.0) is not None
    assert mean_interval(np.full(5, 0.5), agree=0.0) is None


def test_ends_are_cut_at_known_bounds_or_said_to_be_beyond_them():
    runs = np.array([[0.0, 1.0, 0.2]])
    assert seeds_in_words(runs) == "[0.000, 1.000]"
    low, high = mean_interval(runs[0], None)
    assert low < 0
    assert high > 1
    assert "beyond [0, 1]" in seeds_in_words(runs, None)
    above = np.array([[0.9, 1.1, 1.05]])  # such a return is possible, whatever is called 1
    low, high = mean_intervals(above)
    assert low < np.mean(above) < high
    assert "beyond [0, 1]" in seeds_in_words(above)
    assert "beyond" not in seeds_in_words(100 * runs, ANY, agree=0.0)
