"""The robustness table: its numbers, its notes, its formats."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pyarrow as pa
import pytest
from results import GRID, REFERENCE

from mirrorax.analysis.estimates import difference, supported
from mirrorax.analysis.findings import headline, telling_threshold
from mirrorax.analysis.interplay import interplay
from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.reference import parse_reference
from mirrorax.analysis.region import region
from mirrorax.analysis.scores import cell_scores, mean_intervals, rbst
from mirrorax.analysis.summary import summarise
from mirrorax.analysis.tuned import sensitivities, tuned_against_fixed
from mirrorax.errors import UserError
from mirrorax.figures.robustness_table import render


def by_hand(table: pa.Table, potential: str, drift: str, threshold: float) -> tuple[float, float]:
    """Rbst and freq over positive cells from plain Python loops."""
    cells: dict[tuple[float, float], list[float]] = {}
    for row in table.to_pylist():
        if (row["potential"], row["drift"]) == (potential, drift):
            low, high = row["return_min"], row["return_max"]
            cells.setdefault((row["alpha"], row["lam"]), []).extend(
                (r - low) / (high - low) for r in row["returns"]
            )
    d = [sum(v) / len(v) for (a, l), v in cells.items() if a > 0 and l > 0]
    part = [min(max((x - threshold) / (1 - threshold), 0), 1) for x in d]
    return sum(part) / len(part), sum(x >= threshold for x in d) / len(d)


def test_the_table_agrees_with_plain_loops(small, rng):
    summary = summarise(small, thresholds=(0.3, 0.9))
    assert len(summary.rows) == 2
    for row in summary.rows:
        settings = row.landscape.settings
        for k, threshold in enumerate(summary.thresholds):
            expected = by_hand(small, settings["potential"], settings["drift"], threshold)
            assert row.rbst[k].value == pytest.approx(expected[0], abs=1e-12)
            assert row.frequency[k].value == pytest.approx(expected[1], abs=1e-12)
        assert (row.cells, row.grid) == (30, 30)
        assert row.runs == row.wanted == 30 * 2 * 3
        d = cell_scores(row.landscape.runs())
        i = list(row.landscape.alphas).index(row.best_alpha)
        j = list(row.landscape.lams).index(row.best_lam)
        assert row.best == d[i, j] == d[1:, 1:].max()
        low, high = mean_intervals(row.landscape.runs()[i, j])
        if np.isfinite(low):
            assert (row.best_interval.low, row.best_interval.high) == (low, high)
        else:
            assert row.best_interval is None
            assert row.best_seeds.startswith("3 seeds agree: ")
    values = [row.rbst[0].value for row in summary.rows]
    assert values == sorted(values, reverse=True)
    assert summary.environments == ("CartPole", "Acrobot")


def test_all_cells_or_positive_ones(small, rng):
    summary = summarise(small, cells="all")
    assert {row.grid for row in summary.rows} == {42}


@pytest.mark.parametrize("evaluation", ["stochastic", "greedy"])
def test_the_scores_of_a_row_are_those_that_the_table_is_of(small, rng, evaluation):
    for row in summarise(small, evaluation=evaluation, statistic="median").rows:
        # A row is cropped to its grid; a cell of temperature zero does not count.
        d = cell_scores(row.landscape.runs(evaluation), "median")
        assert (np.isfinite(row.scores) == row.mask).all()
        assert (row.scores[row.mask] == d[row.mask]).all()
        assert row.best == np.nanmax(row.scores)


@pytest.fixture
def summary(full):
    return summarise(full, reference=parse_reference(REFERENCE))


def test_ours_beside_the_reference_with_the_difference(summary):
    rows = list(csv.DictReader(io.StringIO(render(summary, "csv"))))
    by_label = {row["reference_label"]: row for row in rows}
    assert set(by_label) == {"A", "C", ""}
    ours = float(by_label["C"]["rbst_0.9"])
    assert float(by_label["C"]["reference_0.9"]) == 0.0747
    assert float(by_label["C"]["difference_0.9"]) == pytest.approx(ours - 0.0747)
    assert by_label[""]["reference_0.9"] == ""
    assert any("not like for like" in note for note in summary.notes)
    (how,) = (note for note in summary.notes if "settings" in note)  # said once for both rows
    assert how == "other settings than the reference's: steps 1,000,000, not 16,000,000"
    text = render(summary, "text")
    assert "ours - before" in text


def test_rows_with_other_settings_than_the_references_are_named(synthetic):
    table = synthetic.study(
        [{}, {"drift": "bregman(max)", "steps": 16_000_000}],
        np.random.default_rng(3),
        alphas=GRID,
        lams=GRID,
        seeds=2,
        evaluations=1,
    )
    summary = summarise(table, reference=parse_reference(REFERENCE))
    (how,) = (note for note in summary.notes if "settings" in note)
    label = next(row.label for row in summary.rows if row.reference.label == "C")
    assert how.startswith(f"other settings than the reference's ({label}): steps ")


def test_every_format_holds_every_row(summary):
    for form in ("text", "markdown", "csv", "json"):
        out = render(summary, form)
        assert out.endswith("\n")
        for row in summary.rows:
            assert row.label in out
    data = json.loads(render(summary, "json"))
    for row, given in zip(summary.rows, data["rows"], strict=True):
        assert given["thresholds"][0]["rbst"] == row.rbst[0].value
        assert given["thresholds"][0]["rbst_interval"][0] == row.rbst[0].interval().low
    table = render(summary, "markdown").split("\n\n")[0].splitlines()
    assert len({line.count("|") for line in table}) == 1
    with pytest.raises(UserError, match="text, markdown, csv, json"):
        render(summary, "yaml")


def test_the_interplay_is_that_of_its_functions(summary):
    rows = [row for row in summary.rows if row.landscape.axis == "alpha"]
    runs = [row.landscape.runs(summary.evaluation, summary.diverged) for row in rows]
    measures = sensitivities(runs, [row.mask for row in rows])
    for row, scores, measure in zip(rows, runs, measures, strict=True):
        assert row.sensitivity.price == measure.price
        expected = interplay(scores, row.mask)
        assert repr(row.interplay) == repr(expected)  # NaN where a grid is flat
        assert repr(row.by_environment[0]) == repr(interplay(scores[:, :, [0]], row.mask))
    text, data = render(summary), json.loads(render(summary, "json"))
    assert "in each environment" in text
    assert data["rows"][0]["interplay"]["both"] == summary.rows[0].interplay.interaction.value
    assert "interplay_both_low" in render(summary, "csv").splitlines()[0]


def test_the_profile_is_that_of_its_functions(summary):
    data = json.loads(render(summary, "json"))
    text = render(summary, "text")
    for row, given in zip(summary.rows, data["rows"], strict=True):
        runs, cells = row.landscape.runs(), row.landscape.cells()
        tuning = tuned_against_fixed(runs, cells)
        assert given["tuning"]["price"] == tuning.price
        assert given["tuning"]["price_held_out"] == tuning.price_held_out
        found = region(cell_scores(runs), row.landscape.alphas, row.landscape.lams, 0.9)
        assert given["region"]["area"] == found.area
        assert given["region"]["components"] == list(found.components)
        assert f"{tuning.tuned:.3f}" in text


def test_tuning_per_environment_against_one_cell_for_all():
    scores = np.array([[[1.0, 0.0], [0.6, 0.6]], [[0.0, 0.9], [0.2, 0.2]]])
    runs = np.repeat(scores[..., None], 3, axis=-1)
    got = tuned_against_fixed(runs)
    assert got.tuned == pytest.approx(0.95)
    assert got.fixed == pytest.approx(0.6)
    assert got.price == pytest.approx(0.35)
    assert got.tuned_cells == ((0, 0), (1, 0))
    assert got.fixed_cell == (0, 1)
    assert got.price_held_out == pytest.approx(0.35)
    positive = np.array([[False, True], [True, True]])
    assert tuned_against_fixed(runs, positive).tuned == pytest.approx(0.75)


def test_choosing_and_scoring_on_the_same_seeds_flatters(rng):
    runs = rng.normal(0.5, 0.2, size=(20, 20, 4, 3))
    got = tuned_against_fixed(runs)
    assert got.tuned > 0.7
    assert got.tuned_held_out == pytest.approx(0.5, abs=0.12)
    assert tuned_against_fixed(runs[..., :1]).tuned_held_out is None


# Bad input: each gives a sensible number or one clear line.


def test_one_environment_only(synthetic, rng):
    table = synthetic.study([{}], rng, environments=("Catch",), alphas=GRID, lams=GRID, seeds=2)
    summary = summarise(table, reference=parse_reference(REFERENCE))
    assert summary.environments == ("Catch",)
    assert summary.rows[0].reference is None
    assert "reference before: it has no value that is comparable with these" in summary.notes
    assert "Catch" in render(summary)


def test_a_single_seed(synthetic, rng):
    table = synthetic.study([{}], rng, alphas=GRID, lams=GRID, seeds=1)
    summary = summarise(table)
    assert summary.rows[0].rbst[0].interval() is None
    assert summary.rows[0].best_interval is None
    assert summary.rows[0].ranks == (None, None)
    for form in ("text", "markdown"):
        assert "no interval" in render(summary, form)
    assert json.loads(render(summary, "json"))["rows"][0]["thresholds"][0]["rbst_interval"] is None


def test_a_best_cell_whose_seeds_all_agree_has_no_interval(synthetic, rng):
    table = synthetic.study([{}], rng, environments=("DeepSea",), alphas=GRID, lams=GRID, seeds=3)
    best = (table["alpha"].to_numpy() == 0.03) & (table["lam"].to_numpy() == 0.1)
    pairs = zip(best, table["returns"].to_pylist(), strict=True)
    returns = [[1.0] * len(old) if chosen else [0.5 * x for x in old] for chosen, old in pairs]
    table = table.set_column(table.column_names.index("returns"), "returns", pa.array(returns))
    summary = summarise(table)
    assert (summary.rows[0].best, summary.rows[0].best_interval) == (1.0, None)
    assert summary.rows[0].rbst[0].interval() is not None
    assert "1.000 (3 seeds agree: 1.000 to 1.000)" in render(summary, "text")
    assert "flatters" in render(summary, "text")


def test_a_grid_with_holes_counts_what_there_is(small, rng):
    alpha, lam = small["alpha"].to_numpy(), small["lam"].to_numpy()
    hole = ((alpha == 0.01) & (lam == 1.0)) | ((alpha == 0.1) & (lam == 5.0))
    summary = summarise(small.filter(pa.array(~hole)), thresholds=(0.3,))
    for row in summary.rows:
        assert (row.cells, row.grid, row.runs, row.wanted) == (28, 30, 168, 180)
        settings = row.landscape.settings
        expected, _ = by_hand(
            small.filter(pa.array(~hole)), settings["potential"], settings["drift"], 0.3
        )
        assert row.rbst[0].value == pytest.approx(expected)
    assert sum("12 of 180 runs are missing or failed" in note for note in summary.notes) == 2


def test_a_cell_with_every_run_diverged(small, rng):
    alpha, lam = small["alpha"].to_numpy(), small["lam"].to_numpy()
    bad = (alpha == 0.03) & (lam == 1.0)
    table = small.set_column(small.column_names.index("diverged"), "diverged", pa.array(bad))
    lowest = summarise(table, thresholds=(0.1,))
    excluded = summarise(table, thresholds=(0.1,), diverged="exclude")
    for a in lowest.rows:
        b = next(row for row in excluded.rows if row.label == a.label)
        assert (a.cells, b.cells, a.diverged) == (30, 29, 6)
        assert (a.runs, b.runs, a.wanted, b.wanted) == (180, 174, 180, 180)
        line = "0 of 180 runs are missing or failed, 6 diverged and are left out; 29 of 30 cells"
        assert any(note.startswith(f"{b.label}: {line}") for note in excluded.notes)
        assert a.rbst[0].value * 30 == pytest.approx(b.rbst[0].value * 29)
    assert any("12 diverged runs count with the lowest return" in note for note in lowest.notes)
    assert any("12 diverged runs are left out" in note for note in excluded.notes)


def test_nan_returns_are_told(small, rng):
    returns = small["returns"].to_pylist()
    positive = (small["alpha"].to_numpy() > 0) & (small["lam"].to_numpy() > 0)
    environment = np.array(small["environment"].to_pylist())
    # One run that counts, one at a temperature of zero, one on another environment.
    inside = int(np.flatnonzero(positive & (environment == "CartPole"))[0])
    other = int(np.flatnonzero(positive & (environment == "Acrobot"))[0])
    assert not positive[0]
    for k in (inside, 0, other):
        returns[k] = [float("nan")] * 4
    table = small.set_column(small.column_names.index("returns"), "returns", pa.array(returns))
    for cells, names, count in (
        ("positive", ["CartPole"], 1),
        ("positive", None, 2),
        ("all", None, 3),
    ):
        told = summarise(table, cells=cells, environments=names).notes
        assert any(f"{count} runs have returns that are not finite" in note for note in told)
    summary = summarise(table)
    assert all(np.isfinite(row.rbst[0].value) for row in summary.rows)


def test_two_studies_with_different_grids(synthetic, rng):
    one = synthetic.study([{}], rng, alphas=GRID, lams=GRID, seeds=2)
    other = synthetic.study([{"drift": "forward_kl"}], rng, alphas=GRID * 2, lams=GRID * 2, seeds=2)
    summary = summarise(pa.concat_tables([one, other]))
    note = "the algorithms have no cell in common: their rows are not comparable or ranked"
    assert note in summary.notes
    assert all(row.ranks == (None, None) for row in summary.rows)
    # One algorithm, with environments that share no cell: there is no score to be had.
    a = synthetic.block({}, "Catch", GRID[1:], GRID[1:], 2, rng)
    b = synthetic.block({}, "DeepSea", GRID[1:] * 0.5, GRID[1:] * 0.5, 2, rng)
    with pytest.raises(UserError, match="no cell with positive temperatures has a run in each of"):
        summarise(pa.concat_tables([a, b]))


def test_rows_are_over_the_cells_that_all_of_them_have(synthetic, rng):
    one = synthetic.study([{}], rng, alphas=GRID, lams=GRID, seeds=2)
    more = np.array([0.0, 0.003, 0.01, 0.03, 0.1, 1.0])
    other = synthetic.study([{"drift": "forward_kl"}], rng, alphas=more, lams=GRID, seeds=2)
    both = summarise(pa.concat_tables([one, other]), thresholds=(0.3,))
    assert [(row.cells, row.grid) for row in both.rows] == [(9, 9)] * 2
    note = "all rows are over the 9 cells that all 2 algorithms have; "
    note += "cells that only some have are left out: (entropy, forward_kl) 6"
    assert note in both.notes
    for row in both.rows:
        (item,) = (x for x in landscapes(pa.concat_tables([one, other])) if x.label == row.label)
        inside = np.isin(item.alphas, GRID[1:])
        expected = rbst(cell_scores(item.runs())[inside, 1:], 0.3)
        assert row.rbst[0].value == pytest.approx(expected)
    alone = summarise(other, thresholds=(0.3,))
    assert alone.rows[0].cells == 15
    assert not any("left out" in note for note in alone.notes)


def test_learned_temperatures_are_ranked_among_themselves(synthetic, rng):
    kinds = [{}, {"drift": "forward_kl"}, {"alpha_schedule": "learned"}]
    table = synthetic.study(kinds, rng, alphas=GRID, lams=GRID, seeds=3)
    summary = summarise(table)
    assert [row.landscape.axis for row in summary.rows] == ["alpha", "alpha", "w"]
    assert summary.rows[-1].ranks[0] == (1, 1)
    assert {high for low, high in (row.ranks[0] for row in summary.rows[:2])} <= {1, 2}


def test_the_headline_says_what_the_data_support(summary):
    first, cell, support, common = headline(summary)
    best = summary.rows[0]
    assert first.startswith(f"Most robust of 3 pairs: {best.label}. ")
    assert f"alpha = {best.best_alpha:g}, lambda = {best.best_lam:g}" in cell
    assert f"{best.best:.3f}; held out" in cell
    assert f"{best.tuning.fixed_held_out:.3f}" in cell
    for row in summary.rows[1:]:
        gap = difference(best.rbst[0], row.rbst[0])
        assert (row.label in support) == supported(gap)
    shared = np.isfinite(summary.scores(best.landscape)).sum()
    assert common.startswith(f"The 3 pairs have {shared} cells in common; the {best.cells} with ")
    assert shared > best.cells
    assert render(summary, "text").startswith(first)


def test_the_headline_of_a_single_cell(synthetic, rng):
    summary = summarise(synthetic.block({}, "Catch", (0.1,), (1.0,), 1, rng), thresholds=(0.01,))
    first, cell = headline(summary)
    assert first.startswith("(entropy, kl): its only cell scores at least 0.01 in Catch (Rbst ")
    assert cell.endswith("with one seed there is no held-out score.")


def test_no_pair_is_called_robust_if_no_cell_reaches_the_threshold(synthetic, rng):
    blocks = []
    for drift, level in (("forward_kl", -0.4), ("kl", -0.2)):  # scores of 0.3 and 0.4
        block = synthetic.block({"drift": drift}, "Catch", GRID, GRID, 2, rng)
        returns = pa.array([[level] * 10] * block.num_rows)
        blocks.append(block.set_column(block.column_names.index("returns"), "returns", returns))
    summary = summarise(pa.concat_tables(blocks))
    first, second = headline(summary)
    assert first.startswith("No cell of the 2 pairs scores at least 0.9 in Catch, so")
    assert second.startswith("The highest score is that of (entropy, kl). Its best cell is ")
    assert summary.rows[0].label == "(entropy, kl)"  # of equal robustness, by the best score


def test_cells_just_at_the_threshold_make_no_pair_robust(synthetic, rng):
    blocks = []
    for drift, level in (("forward_kl", -0.4), ("kl", 0.8)):  # scores of 0.3 and 0.9
        block = synthetic.block({"drift": drift}, "Catch", GRID, GRID, 2, rng)
        returns = pa.array([[level] * 10] * block.num_rows)
        blocks.append(block.set_column(block.column_names.index("returns"), "returns", returns))
    first, *_ = headline(summarise(pa.concat_tables(blocks)))
    assert first.startswith(
        "Hardly robust at this level, but first of 2 pairs: (entropy, kl). 9 of"
    )


def test_the_threshold_starts_where_cells_reach_it(synthetic, rng):
    table = synthetic.block({}, "DeepSea", GRID[1:], GRID[1:], 2, rng)
    for level, start in ((0.99, 0.9), (0.62, 0.6), (0.01, 0.0)):
        returns = pa.array([[level] * 10] * table.num_rows)
        same = table.set_column(table.column_names.index("returns"), "returns", returns)
        assert telling_threshold(landscapes(same)) == pytest.approx(start)


def test_an_algorithm_without_a_score_is_left_out_and_named(synthetic, rng):
    one = synthetic.block({}, "Catch", GRID, GRID, 2, rng)
    other = synthetic.block({"drift": "forward_kl"}, "Catch", np.zeros(1), GRID, 2, rng)
    table = pa.concat_tables([one, other])
    summary = summarise(table)
    assert [row.label for row in summary.rows] == ["(entropy, kl)"]
    line = "(entropy, forward_kl): no cell with positive temperatures has a run in each of Catch"
    assert f"left out: {line}" in summary.notes
    assert len(summarise(table, cells="all").rows) == 2


def test_algorithms_without_the_chosen_environments_are_named(synthetic, rng):
    one = synthetic.block({}, "Catch", GRID, GRID, 2, rng)
    both = [
        synthetic.block({"drift": "forward_kl"}, n, GRID, GRID, 2, rng)
        for n in ("Catch", "DeepSea")
    ]
    table = pa.concat_tables([one, *both])
    summary = summarise(table, environments=["DeepSea"])
    assert [row.label for row in summary.rows] == ["(entropy, forward_kl)"]
    assert "not run on all of these environments: (entropy, kl)" in summary.notes
    with pytest.raises(UserError, match="did you mean 'Catch'"):
        summarise(table, environments=["Catchy"])
    only = synthetic.block({"drift": "bregman(max)"}, "Acrobot", GRID, GRID, 2, rng)
    with pytest.raises(UserError, match="no algorithm was run on all of Acrobot, Catch"):
        summarise(pa.concat_tables([table, only]), environments=["Acrobot", "Catch"])


def test_what_is_named_twice_counts_once(small, rng):
    names = ["CartPole", "Acrobot", "CartPole"]
    kwargs = {"thresholds": (0.5,)}
    once = summarise(small, environments=names[:2], **kwargs)
    kwargs["thresholds"] = (0.5, 0.5)
    twice = summarise(small, environments=names, **kwargs)
    assert render(once, "json") == render(twice, "json")
    assert landscapes(small)[0].select(names).runs().shape[2] == 2
