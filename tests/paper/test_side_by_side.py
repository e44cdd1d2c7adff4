"""Readings side by side: the fingerprint, the matrix of verdicts, agreement on the order."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from paper_worlds import EACH64, landscape
from scipy import stats

from mirrorax.errors import UserError
from mirrorax.paper import agreement, catalogue, fingerprint, matrix
from mirrorax.paper.axes import ALPHAS, LAMS, PAIRS
from mirrorax.paper.best_cells import best_cells
from mirrorax.paper.claim import Claim
from mirrorax.paper.collection import collect
from mirrorax.paper.implications import Implication, implications
from mirrorax.paper.rank_correlation import correlations
from mirrorax.paper.readings import reading, readings, samples
from mirrorax.paper.runs import ReadingRuns
from mirrorax.paper.side_by_side import write_readings
from mirrorax.spec.study import expand

GRID = catalogue.GRIDS[6]


def points(score, *, noise=0.01, seeds=2):
    """Return a world that has the points of the fingerprint and no other."""
    rng = np.random.default_rng(0)
    cells = {}
    for each in implications():
        cells.setdefault(each.pair, set()).update(product(each.alpha, each.lam))
    items = [landscape(p, c, score, rng, noise=noise, seeds=seeds) for p, c in cells.items()]
    return ReadingRuns(None, EACH64, items)


def as_table_1_implies(pair, alpha, lam):
    if pair == ("entropy", "kl"):
        return 0.98 if alpha > 0.001 and lam > 1 else 0.7
    return 0.95 if pair[1] == "bregman(max)" else 0.7


def judged(score, **options):
    return fingerprint.fingerprint(points(score, **options), np.random.default_rng(0))


def test_the_points_are_26_cells_of_the_papers_grid():
    study = catalogue.make(["fingerprint"], reading="each64_all")
    assert len(expand(study)) == 26 * 4 * 2
    for block, each in zip(study.blocks, implications(), strict=True):
        assert set(block.alpha) <= set(ALPHAS)
        assert set(block.lam) <= set(LAMS)
        assert block.pairs == (each.pair,)
        assert dict(block.fixed)["env_steps_per_update"] == 64
    more = expand(catalogue.make(["fingerprint"], reading="each64_all", seeds=3))
    assert set(expand(study).ids) < set(more.ids)


@pytest.mark.parametrize("reached", ["none", "some", "half"])
def test_the_probability_of_an_implication_is_that_of_all_outcomes_together(reached):
    each = Implication("x", "", ("h", "d"), (1.0, 2.0, 3.0, 4.0), (1.0,), reached, 0.9)
    reach = np.random.default_rng(0).random((5, 4))
    wanted = np.zeros(5)
    for outcome in product((False, True), repeat=4):
        holds = {"none": sum(outcome) == 0, "some": sum(outcome) > 0, "half": sum(outcome) >= 2}
        wanted += holds[reached] * np.where(outcome, reach, 1 - reach).prod(axis=1)
    np.testing.assert_allclose(each.probability(reach), wanted)


def test_a_world_as_table_1_implies_meets_every_implication():
    result = judged(as_table_1_implies)
    assert [point.mark for point in result.points] == ["met"] * 7
    assert result.runs == 26 * 4 * 2
    assert result.log_likelihood == pytest.approx(7 * np.log(1 - fingerprint.SLIP / 2), abs=0.01)


def test_a_world_that_contradicts_table_1_meets_none_and_a_slip_bounds_the_loss():
    result = judged(lambda *cell: 1.65 - as_table_1_implies(*cell))
    assert [point.mark for point in result.points] == ["not met"] * 7
    assert result.log_likelihood == pytest.approx(7 * np.log(fingerprint.SLIP / 2), abs=0.01)


def test_noise_leaves_implications_open_and_likelier_readings_come_first():
    near = judged(lambda *cell: 0.9, noise=0.2)
    assert "open" in {point.mark for point in near.points}
    for point in near.points:
        assert point.interval.low <= point.score <= point.interval.high
    assert near.interval.low <= near.log_likelihood <= near.interval.high
    prints = {"near": near, "right": judged(as_table_1_implies)}
    (first, share), (second, rest) = fingerprint.ranking(prints)
    assert (first, second) == ("right", "near")
    assert share + rest == pytest.approx(1)
    assert share > 0.95
    assert fingerprint.table(prints).count("\n| ") == 2


def test_without_two_seeds_of_every_point_there_is_no_fingerprint():
    assert judged(as_table_1_implies, seeds=1) is None
    whole = points(as_table_1_implies)
    assert fingerprint.fingerprint(ReadingRuns(None, EACH64, whole.items[1:]), None) is None


def test_a_few_points_are_no_grid_to_judge_claims_on():
    assert matrix.judge_all({"x": points(as_table_1_implies)}, 0).claims == {}


def table_1(order, level=0.95):
    """Return a world in which the pairs have good cells in proportion to their place."""
    rng = np.random.default_rng(1)
    cells = list(product(*GRID))

    def score(pair, alpha, lam):
        place = order.index(next(label for label, each in PAIRS.items() if each == pair))
        return level if cells.index((alpha, lam)) < 3 * (len(order) - place) else 0.2

    return ReadingRuns(
        None, EACH64, [landscape(p, cells, score, rng, noise=0.002) for p in PAIRS.values()]
    )


def test_readings_agree_with_the_paper_and_with_each_other_as_far_as_their_orders_do():
    labels = list(PAIRS)
    worlds = {"same": table_1(labels), "reversed": table_1(labels[::-1])}
    result = agreement.agreement(worlds, np.random.default_rng(0))
    expected = {("same", "paper"): 1, ("reversed", "paper"): -1, ("same", "reversed"): -1}
    assert {pair: round(each.value, 3) for pair, each in result.items()} == expected
    for each in result.values():
        assert each.interval.low <= each.value <= each.interval.high
        assert each.cells == 36
    text = agreement.table(result)
    assert "| same | 1.00 [" in text


def test_readings_without_an_order_are_left_out():
    flat = table_1(list(PAIRS), level=0.8)
    assert agreement.agreement({"flat": flat}, np.random.default_rng(0)) == {}
    assert list(agreement.agreement({"flat": flat}, np.random.default_rng(0), 0.75)) == [
        ("flat", "paper")
    ]
    assert agreement.table({}).startswith("No reading")


def test_correlations_are_spearmans():
    a, b = np.random.default_rng(2).integers(0, 5, (2, 20, 11)).astype(float)
    wanted = [stats.spearmanr(x, y).statistic for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(correlations(a, b), wanted, atol=1e-12)


def claim(verdict, runs=8):
    return Claim("1a", "topic", "text", "rule", "paper", "0.5", "[0, 1]", runs, verdict, key="0.5")


def test_a_claim_holds_in_some_of_the_readings_that_have_runs_for_it():
    row = {
        "a": claim("reproduced"),
        "b": claim("not reproduced"),
        "c": claim("not decided"),
        "d": claim("not decided", runs=0),
    }
    assert matrix.holds(row) == "holds in 1 of 3 readings, does not hold in 1, undecided in 1"
    assert matrix.holds({"a": row["a"]}) == "holds in 1 of 1 reading"
    assert matrix.holds({"d": row["d"]}) == "not run under any reading"
    whole = matrix.Matrix({name: [each] for name, each in row.items()})
    assert "| (1a) | a | **reproduced** | 0.5 [0, 1] |" in matrix.markdown(whole)
    assert "| d |" not in matrix.markdown(whole)  # which has no runs
    assert matrix.as_csv(whole).count("\n") == 5


def test_claims_are_summed_up_by_what_the_readings_that_decide_them_say():
    yes, no, open_ = map(claim, ("reproduced", "not reproduced", "not decided"))
    verdicts = {"a": [yes, yes, no, open_], "b": [yes, no, no, open_], "c": [open_] * 4}
    assert matrix.grouped(matrix.Matrix(verdicts)).splitlines() == [
        "- **Hold in every reading that gives a verdict:** "
        "(1a) text (holds in 2 of 3 readings, undecided in 1).",
        "- **Hold in some readings, not in others:** "
        "(1a) text (holds in 1 of 3 readings, does not hold in 1, undecided in 1).",
        "- **Hold in no reading that gives a verdict:** "
        "(1a) text (does not hold in 2 of 3 readings, undecided in 1).",
        "- **No reading gives a verdict:** (1a) text (undecided in 3 of 3 readings).",
    ]


@pytest.mark.usefixtures("coarse")
def test_tables_and_pictures_of_the_readings_are_written(tmp_path):
    worlds = {"same": table_1(list(PAIRS)), "points": points(as_table_1_implies)}
    page = write_readings(worlds, matrix.judge_all(worlds, 0), tmp_path, 0)
    names = ("verdicts", "fingerprint", "agreement_0.9", "agreement_0.75")
    for name in names:
        assert f'src="{name}.png"' in page
        for suffix in ("md", "png", "pdf"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 0


def test_grid_6_has_positive_values_of_the_8_by_8_grid():
    names = ["baseline", "pairs", "schedules"]
    six = expand(catalogue.make(names, "reduced", grid=6))
    assert len(six) == (11 + 14) * 4 * 36 * 2
    assert set(six.ids) < set(expand(catalogue.make(names, "reduced", grid=8)).ids)
    assert min(min(GRID[0]), min(GRID[1])) > 0


def test_the_cell_without_regularisation_has_a_study():
    runs = expand(catalogue.make(["zero"]))
    assert len(runs) == 4 * 5
    assert not runs.values["alpha"].any()
    assert not runs.values["lam"].any()


def test_the_best_cells_get_all_seeds():
    world = table_1(list(PAIRS))
    study = best_cells(world, EACH64)
    assert len(expand(study)) == 11 * 4 * 5
    assert [block.pairs for block in study.blocks] == [(pair,) for pair in PAIRS.values()]
    assert all(block.alpha == (0.004,) for block in study.blocks[-2:])  # few cells are good
    with pytest.raises(UserError, match="best"):
        best_cells(points(as_table_1_implies), EACH64)


def test_extra_studies_stand_alone():
    with pytest.raises(UserError, match="fingerprint"):
        catalogue.make(["fingerprint", "baseline"], "reduced")


def test_sampled_readings_are_balanced_distinct_and_fixed():
    drawn = list(samples().values())
    assert len({tuple(sorted(each.fields.items())) for each in drawn}) == len(drawn) == 24
    for name, count in (("initialization", 3), ("batches_per_update", 4), ("clipping", 2)):
        values = [getattr(each.settings("Catch"), name) for each in drawn]
        assert sorted(values.count(value) for value in set(values)) == [24 // count] * count
    assert reading("sample_00") == samples()["sample_00"]
    assert not samples().keys() & readings().keys()
    with pytest.raises(UserError, match="reading"):
        reading("sample_24")


def test_a_folder_without_runs_is_one_line(tmp_path):
    with pytest.raises(UserError, match="is not a store"):
        collect(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        collect(tmp_path / "absent")
