"""The table of evidence holds what the runs say, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import stores

from mirrorax.errors import UserError
from mirrorax.store import read_results
from mirrorax.store.exporting import to_table
from mirrorax.tuning import evidence

#: what the shipped runs are taken from
RESULTS = Path(__file__).parents[2] / "results" / "paper" / "each_each_bootstrap"


def means(table, pair, environment):
    """Group by hand: (alpha, lam) -> the scores of the runs."""
    found = {}
    for row in table.to_pylist():
        if (row["potential"], row["drift"], row["environment"]) != (*pair, environment):
            continue
        if (row["alpha_schedule"], row["lam_schedule"]) != ("constant", "constant"):
            continue
        if row["actor_q"] != "regularized" or not (row["alpha"] > 0 and row["lam"] > 0):
            continue
        low, high = row["return_min"], row["return_max"]
        score = 0.0 if row["diverged"] else (np.mean(row["returns"]) - low) / (high - low)
        found.setdefault((row["alpha"], row["lam"]), []).append(score)
    return found


def test_cells_are_the_means_of_their_runs(study):
    found = evidence.gather(study)
    assert set(found.pairs) == {("entropy", "kl"), ("entropy", "bregman(max)")}
    assert len(found.maps) == 8
    for one in found.maps:
        expected = means(study, one.pair, one.environment)
        assert one.runs.sum() == sum(map(len, expected.values()))
        for (alpha, lam), scores in expected.items():
            i, j = np.searchsorted(one.alphas, alpha), np.searchsorted(one.lams, lam)
            assert one.runs[i, j] == len(scores)
            assert one.scores[i, j] == pytest.approx(np.mean(scores), abs=1e-4)
        spread = np.mean([np.var(scores, ddof=1) for scores in expected.values()])
        assert one.noise == pytest.approx(spread)


def test_settings_that_few_runs_have_are_left_out(study, synthetic):
    odd = synthetic.study(
        [{"steps": 5}],
        np.random.default_rng(0),
        environments=("Catch",),
        alphas=np.array([0.1, 1.0]),
        lams=np.array([0.1, 1.0]),
        seeds=3,
        evaluations=4,
    )
    found = evidence.gather(pa.concat_tables([study, odd], promote_options="default"))
    assert found.settings["steps"] == 1_000_000
    assert found.runs == evidence.gather(study).runs


def test_without_runs_that_count_it_says_so(study):
    scheduled = study.filter(pa.compute.equal(study["alpha_schedule"], "linear"))
    on_policy = study.append_column("algorithm", pa.array(["on_policy"] * study.num_rows))
    for table in (scheduled, on_policy):
        with pytest.raises(UserError, match="results: no finished off-policy run with constant"):
            evidence.gather(table)


def test_runs_with_rescaled_rewards_do_not_count(synthetic):
    tables = [
        synthetic.block(
            {}, "CartPole", synthetic.ALPHAS, synthetic.LAMS, 3, np.random.default_rng(1),
            reward_scale=scale,
        )
        for scale in (2.0, 1.0, 0.1)
    ]  # fmt: skip
    found = evidence.gather(pa.concat_tables(tables))
    (own,) = found.maps
    (alone,) = evidence.gather(tables[1]).maps
    np.testing.assert_array_equal(own.scores, alone.scores)


@pytest.fixture
def with_strips(make_bump):
    """Every fourth value of both temperatures, and all values along the two lowest of the other."""
    full = make_bump("CartPole", 0.03, 1.0)
    measured = np.zeros(full.runs.shape, dtype=bool)
    measured[::4, ::4] = True
    measured[:2] = measured[:, :2] = True
    scores = np.where(measured, full.scores, np.nan)
    return replace(full, scores=scores, runs=full.runs * measured)


def test_strips_beside_a_grid_leave_no_holes_in_it(with_strips):
    grid = with_strips.regular()
    assert (grid.runs > 0).all()
    assert np.isfinite(grid.scores).all()
    assert set(with_strips.alphas[::4]) <= set(grid.alphas)
    assert set(with_strips.lams[::4]) <= set(grid.lams)
    i = np.searchsorted(with_strips.alphas, grid.alphas)
    j = np.searchsorted(with_strips.lams, grid.lams)
    np.testing.assert_array_equal(grid.scores, with_strips.scores[np.ix_(i, j)])


def test_lines_without_any_run_go_and_nothing_else_of_a_whole_grid(make_bump):
    full = make_bump("CartPole", 0.03, 1.0)
    np.testing.assert_array_equal(full.regular().scores, full.scores)
    runs = full.runs.copy()
    runs[1::2] = runs[:, 1::2] = 0
    half = replace(full, runs=runs, scores=np.where(runs > 0, full.scores, np.nan)).regular()
    np.testing.assert_array_equal(half.alphas, full.alphas[::2])
    np.testing.assert_array_equal(half.scores, full.scores[::2, ::2])


def test_scattered_cells_are_all_kept(make_bump):
    full = make_bump("CartPole", 0.03, 1.0)
    runs = np.where(np.eye(*full.runs.shape, dtype=bool), 5, 0)
    scattered = replace(full, runs=runs, scores=np.where(runs > 0, full.scores, np.nan)).regular()
    assert scattered.runs.sum() == runs.sum()


def test_the_shipped_runs_are_the_published_ones_that_count():
    """`exporting.write(expected, evidence.SHIPPED, provenance=False)` derives the file anew."""
    runs = read_results(RESULTS)
    counts = (runs.numbers("alpha") > 0) & (runs.numbers("lam") > 0)
    counts &= runs.numbers("reward_scale") == 1
    expected = runs.take(np.flatnonzero(counts))
    shipped = read_results(evidence.SHIPPED)
    tables = (to_table(each, provenance=False) for each in (shipped, expected))
    assert next(tables).equals(next(tables), check_metadata=True)
    assert not any(origin.provenance for origin in shipped.origins)


def test_what_the_shipped_runs_say_is_what_all_published_ones_say():
    shipped, whole = evidence.of_results(), evidence.of_results(RESULTS)
    assert (shipped.settings, shipped.runs) == (whole.settings, whole.runs)
    assert shipped.settings["alpha_schedule"] == "constant"
    for a, b in zip(shipped.maps, whole.maps, strict=True):
        assert (a.pair, a.environment, a.noise) == (b.pair, b.environment, b.noise)
        assert (a.alphas > 0).all()
        assert (a.lams > 0).all()
        assert a.by_cell() == b.by_cell()
        assert a.runs.sum() == b.runs.sum()


def test_a_store_is_read_like_the_shipped_runs(study, tmp_path):
    stores.fill(tmp_path / "store", study)
    said = evidence.describe(evidence.of_results(tmp_path / "store"))
    assert "of 2 pairs in CartPole, Acrobot, Catch, DeepSea" in said
    with pytest.raises(UserError, match="results: "):
        evidence.of_results(tmp_path / "nothing")
