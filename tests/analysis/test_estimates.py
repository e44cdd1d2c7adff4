from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from mirrorax.analysis.estimates import (
    Estimate,
    _bend,
    difference,
    error_of_mean,
    exchange,
    frequency_band,
    grid_scores,
    ranks,
    robustness,
    supported,
)
from mirrorax.analysis.scores import cell_scores, frequency, rbst
from mirrorax.paper.resampling import score_resamples

LEVELS = (0.9, 0.95)
#: Of 40 fair 95% intervals fewer hold the truth once in two thousand times.
FEWEST = 33


def test_the_smoothed_bend_is_its_integral():
    for d, s, at in [(0.5, 0.1, 0.55), (0.95, 0.02, 0.9), (0.2, 0.3, 0.9)]:
        expected, _ = integrate.quad(
            lambda z, d=d, s=s, at=at: max(d + s * z - at, 0) * stats.norm.pdf(z),
            -12,
            12,
            points=[(at - d) / s],
        )
        assert _bend(np.array(d), np.array(s), at) == pytest.approx(expected, abs=1e-9)


def test_exchanging_keeps_the_mean_over_any_cells_and_lowers_rbst(rng):
    mask = rng.random((6, 7)) < 0.8
    d = np.where(mask, rng.random((6, 7)), 0.0)
    mixed = exchange(d, mask)
    assert mixed[mask].mean() == pytest.approx(d[mask].mean())
    assert not mixed[~mask].any()
    for level in (0.3, 0.6, 0.9):
        assert rbst(mixed[mask], level) <= rbst(d[mask], level) + 1e-12
    whole = np.ones((5, 5), dtype=bool)
    point = np.zeros((5, 5))
    point[2, 2] = 16.0
    kernel = np.outer([1, 2, 1], [1, 2, 1])
    np.testing.assert_allclose(exchange(point, whole)[1:4, 1:4], kernel)


def test_exchanging_with_a_power_and_back_are_that_of_its_matrix(rng):
    mask = rng.random((4, 5)) < 0.7
    units = np.eye(20).reshape(20, 4, 5)
    matrix = np.stack([exchange(unit * mask, mask).ravel() for unit in units], axis=1)
    values = np.where(mask, rng.random((4, 5)), 0.0)
    squared = (matrix**2 @ values.ravel()).reshape(4, 5)
    np.testing.assert_allclose(exchange(values, mask, power=2), squared, atol=1e-15)
    back = (matrix.T @ values.ravel()).reshape(4, 5)
    np.testing.assert_allclose(exchange(values, mask, back=True), back, atol=1e-15)


def test_the_error_of_a_plain_mean_is_the_textbooks(rng):
    """Where every cell is alike and contributes its score, it is sigma / sqrt(runs)."""
    runs = rng.normal(0.5, 0.1, (40, 40, 2, 5))
    scores = grid_scores(runs, np.ones((40, 40), dtype=bool), "mean")
    expected = 0.1 / np.sqrt(runs.size)
    assert expected <= error_of_mean(scores, lambda d: d) <= 1.3 * expected


def test_resamples_have_the_unbiased_variance(rng):
    runs = rng.normal(size=(6, 2, 4))
    drawn = score_resamples(runs, 40_000, rng)
    expected = (runs.var(axis=-1, ddof=1) / 4).sum(axis=-1) / 4
    np.testing.assert_allclose(drawn.var(axis=0), expected, rtol=0.05)
    np.testing.assert_allclose(drawn.mean(axis=0), cell_scores(runs), atol=0.02)


def test_resampling_leaves_missing_runs_out(rng):
    runs = rng.normal(size=(1, 1, 5))
    runs[0, 0, 3:] = np.nan
    drawn = score_resamples(runs, 40_000, rng)
    expected = np.var(runs[0, 0, :3], ddof=1) / 3
    assert drawn.var() == pytest.approx(expected, rel=0.05)
    assert np.isfinite(drawn).all()


@pytest.mark.parametrize("statistic", ["mean", "median", "iqm"])
def test_the_value_is_the_plain_one_and_lies_in_its_interval(statistic, suite, rng):
    runs = suite.rough(8, rng).draw(4, rng)
    d = cell_scores(runs, statistic)
    for level, got in zip(LEVELS, robustness(runs, LEVELS, statistic=statistic), strict=True):
        assert got.value == rbst(d, level)
        assert 0 <= got.interval().low < got.value < got.interval().high <= 1
        if statistic == "mean":
            assert 0 <= got.limit.low <= got.limit.high == got.interval().high
        else:
            assert got.limit is None
            assert f"not for the {statistic}" in got.no_limit
    bands = frequency_band(runs, LEVELS, statistic=statistic)
    assert [band.value for band in bands] == frequency(d, np.array(LEVELS)).tolist()
    assert all(band.value in band.interval() for band in bands)


@pytest.mark.parametrize("seeds", [2, 12])
def test_without_noise_the_intervals_are_the_value(seeds):
    d = np.linspace(0, 1, 30).reshape(5, 6)
    runs = np.repeat(np.repeat(d[:, :, None, None], 2, axis=2), seeds, axis=3)
    (got,) = robustness(runs, [0.6])
    for interval in (got.interval(), got.limit):
        assert interval.low == pytest.approx(rbst(d, 0.6), abs=1e-9)
        assert interval.high == pytest.approx(rbst(d, 0.6), abs=1e-9)


@pytest.mark.parametrize("seeds", [2, 5])
@pytest.mark.parametrize(
    "name",
    [
        "cartpole_at_times",
        "sharp_region",
        "all_at_times",
        "smooth_letter",
        "rough",
        "at_the_threshold",
        "seldom",
    ],
)
def test_intervals_hold_where_runs_succeed_or_fail(name, seeds, suite):
    rng = np.random.default_rng([ord(c) for c in name])
    truth = getattr(suite, name)(14, rng)
    studies = [cell_scores(truth.draw(seeds, rng)) for _ in range(200)]
    got = [robustness(truth.draw(seeds, rng), LEVELS) for _ in range(40)]
    for k, level in enumerate(LEVELS):
        average = np.mean([rbst(d, level) for d in studies])
        limit = rbst(truth.means.mean(axis=-1), level)
        assert sum(average in each[k].interval() for each in got) >= FEWEST
        assert sum(limit in each[k].limit for each in got) >= FEWEST


def test_intervals_hold_on_published_runs(suite):
    rng = np.random.default_rng(4)
    truth = suite.published("A")(7, rng)
    assert truth.means.shape == (7, 7, 4)
    average = np.mean([rbst(cell_scores(truth.draw(2, rng)), 0.9) for _ in range(400)])
    limit = rbst(truth.means.mean(axis=-1), 0.9)
    assert limit < average  # noise can only raise it
    got = [robustness(truth.draw(2, rng), [0.9])[0] for _ in range(40)]
    assert sum(average in each.interval() for each in got) >= FEWEST
    assert sum(limit in each.limit for each in got) >= FEWEST


def test_more_seeds_show_a_lower_end(suite):
    rng = np.random.default_rng(5)
    truth = suite.narrow_ridges(14, rng)
    few, many = (robustness(truth.draw(n, rng), [0.9])[0] for n in (2, 20))
    assert few.limit.low == 0  # cells differ from their neighbours: two seeds show no more
    assert 0 < many.limit.low < rbst(truth.means.mean(axis=-1), 0.9) < many.limit.high


def test_the_suites_means_are_the_means(suite, rng):
    for make in suite.LANDSCAPES.values():
        truth = make(7, rng)
        np.testing.assert_allclose(truth.draw(4000, rng).mean(axis=-1), truth.means, atol=0.04)


def test_one_seed_gives_no_interval_and_says_so(rng):
    runs = rng.random((4, 4, 2, 1))
    (got,) = robustness(runs, [0.5])
    assert got.interval() is None
    assert got.limit is None
    assert got.why == "one seed per cell: no interval"
    assert got.value == rbst(cell_scores(runs), 0.5)


def test_mostly_single_seeds_give_no_interval(rng):
    runs = rng.random((4, 4, 2, 3))
    runs[1:, :, :, 1:] = np.nan
    assert robustness(runs, [0.5])[0].why == "most cells have a single seed: no interval"
    runs = rng.random((4, 4, 2, 3))
    runs[:, :, 0, 1:] = np.nan
    assert "an environment has one seed" in robustness(runs, [0.5])[0].why


def test_a_few_missing_runs_do_not_change_much(rng):
    runs = rng.random((8, 8, 2, 3))
    (whole,) = robustness(runs, [0.4])
    runs[2, 2, 0, 1:] = np.nan
    runs[4, 5, 1, 0] = np.nan
    runs[6, 6] = np.nan
    (part,) = robustness(runs, [0.4])
    assert part.error == pytest.approx(whole.error, rel=0.1)


@pytest.mark.parametrize(("shape", "seeds"), [((1, 1), 10), ((1, 20), 4), ((20, 1), 4)])
def test_without_neighbours_it_says_how_many_seeds_are_needed(shape, seeds, rng):
    few, enough = (robustness(rng.random((*shape, 4, n)), [0.5])[0] for n in (seeds - 1, seeds))
    assert few.limit is None
    assert few.no_limit == f"infinitely many seeds: {seeds} per cell are needed"
    assert enough.limit is not None


def test_scores_above_one_have_no_limit_for_rbst_is_not_convex_there(suite, rng):
    runs = suite.rough(7, rng).draw(5, rng)
    assert robustness(runs, [0.9])[0].limit is not None
    (got,) = robustness(1.1 * runs, [0.9])
    assert got.interval() is not None
    assert got.limit is None
    assert "only where no cell scores above 1" in got.no_limit


def test_differences_ratios_and_ranks():
    a, b, c = (Estimate(value, 0.01, bounds=(0.0, 1.0)) for value in (0.3, 0.2, 0.195))
    gap = difference(a, b)
    assert gap.value == pytest.approx(0.1)
    half = stats.norm.ppf(0.975) * 0.01 * np.sqrt(2)
    assert gap.interval().high - gap.value == pytest.approx(half)
    assert supported(gap)
    assert supported(difference(b, a))
    assert not supported(difference(b, c))
    assert ranks([c, a, b]) == [(2, 3), (1, 1), (2, 3)]


def test_comparisons_without_an_interval_say_why():
    a = Estimate(0.3, 0.01)
    alone = Estimate(0.2, None, "one seed per cell: no interval")
    assert difference(a, alone).why == "one seed per cell: no interval"
    assert not supported(difference(a, alone))
    assert ranks([a, alone]) is None
