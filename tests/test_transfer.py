"""The study of units, and its answers on surfaces whose answers are known."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scripts

from mirrorax.paper import catalogue
from mirrorax.spec.study import expand, parse
from mirrorax.store import read_results

ROOT = Path(__file__).parents[1]
PAGE = scripts.load("docs/transfer_tables.py")
ANSWERS = scripts.load("docs/transfer_answers.py")
PATH = ROOT / "results" / "transfer" / "transfer.toml"


def test_the_study_is_what_it_says():
    study = parse(PATH.read_text())
    runs = expand(study)
    assert len(runs) == 5760
    units = {settings.temperature_units for settings in runs.configurations}
    assert units == {"reward", "return_range", "q_spread"}
    learned = [s.learned_lam for s in runs.configurations]
    assert np.isnan(runs.values["lam"]).sum() == 1440
    assert sum(learned) == 2 * 4  # pairs and environments: reward scales share a program
    assert len(np.unique(runs.values["v"][~np.isnan(runs.values["v"])])) == 6
    again = expand(parse(catalogue.to_toml("again", study.blocks)))
    np.testing.assert_array_equal(runs.ids, again.ids)


def test_the_verdict_compares_whole_schemes_task_by_task():
    def scheme(unit, shift, **changes):
        item = surface(shift)
        item.settings = {"temperature_units": unit}
        return replace(ANSWERS.answer(item), **changes)

    moving, still = scheme("reward", 2), scheme("q_spread", 0)
    text = PAGE.verdict([moving, still])
    assert "`q_spread` solves 100% of 4 tasks" in text
    worse = sum(share < 1 for share in moving.by_task.values())
    assert 0 < worse < 4
    assert f"Better on {worse} task" in text
    apart = moving.apart["A"][0].value
    assert f"by {apart:.1f} and 0.0 in `reward`, 0.0 and 0.0 in `q_spread`." in text
    assert "worse on 0: no difference is supported" in text  # by so few tasks
    tasks = [f"task {i}" for i in range(6)]
    many = [
        replace(each, by_task=dict.fromkeys(tasks, share))
        for each, share in ((moving, 0.0), (still, 1.0))
    ]
    assert "the difference is supported (sign test, p = 0.03)" in PAGE.verdict(many)  # 2 / 2^6
    learned = replace(still, units="q_spread, learned lambda", top_10=ANSWERS.Spread(0.25, 0, 1))
    assert "the best 10% of cells score 0.250, with a constant one 1.000" in PAGE.verdict(
        [moving, still, learned]
    )
    for part in ([moving, replace(still, complete=0.5)], [replace(moving, tasks=3), still]):
        assert "not decided, runs are missing" in PAGE.verdict(part)


class Surface(SimpleNamespace):
    def runs(self):
        return self.scores

    def cells(self, which):
        return np.ones(self.scores.shape[:2], bool)


def surface(shift, seeds=2):
    """Tasks whose good region moves by `shift` decades from one reward scale to the next."""
    alphas, lams = np.logspace(-4, 1, 6), np.logspace(-2, 3, 6)
    names = [("A", 0.1), ("A", 1.0), ("A", 10.0), ("B", 1.0)]
    scores = np.zeros((6, 6, 4, seeds))
    for e, (_, scale) in enumerate(names):
        at = round(2 + shift * np.log10(scale))
        scores[max(at - 1, 0) : at + 2, 2:4, e] = 1
    environments = [
        SimpleNamespace(name=n, reward_scale=s, label=f"{n} x {s:g}", return_max=500 * s)
        for n, s in names
    ]
    return Surface(
        label="(entropy, kl)",
        settings={"temperature_units": "reward"},
        lam_axis="lam",
        scores=scores,
        alphas=alphas,
        lams=lams,
        environments=tuple(environments),
    )


def test_regions_that_do_not_move_are_not_apart_and_one_setting_solves_all():
    still, moving = ANSWERS.answer(surface(0)), ANSWERS.answer(surface(2))
    assert still.apart == {"A": ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))}
    assert still.solved == 1
    assert moving.apart["A"][0].value > 2
    assert moving.apart["A"][1].value == 0
    assert moving.solved < 1
    assert still.rbst.value > moving.rbst.value
    text = ANSWERS.table([still, moving])
    assert "0.0 [0.0, 0.0], 0.0 [0.0, 0.0]" in text
    assert "1.00 of 4" in text


def test_no_good_cell_is_said_and_one_seed_has_no_answer():
    flat = surface(0, seeds=1)
    flat.scores = flat.scores * 0.1
    result = ANSWERS.answer(flat)
    assert result.solved is None
    assert np.isnan(result.apart["A"][0].value)
    assert "none good" in ANSWERS.table([result])


def test_a_lucky_setting_is_judged_on_other_seeds():
    runs = np.zeros((50, 5, 2))
    rng = np.random.default_rng(0)
    runs[:, :, :] = rng.random(runs.shape) > 0.5
    shares = ANSWERS.held_out_solved(runs)
    chosen = (runs[..., 0] >= 0.9).mean(axis=1).max()
    assert chosen >= 0.8  # what the choice itself would say
    assert shares.mean() < chosen
    best = ANSWERS.held_out_top(runs, 0.02)
    assert runs.mean(axis=(1, 2)).max() > best.value
    first, second = runs.mean(axis=1).T
    assert {best.low, best.high} == {second[first.argmax()], first[second.argmax()]}
    assert ANSWERS.regions_apart(surface(1))["A"][0].value == pytest.approx(2.0, abs=0.6)


def test_regions_are_where_the_good_cells_are():
    found = ANSWERS.regions(surface(1))
    assert [each.task.return_max for each in found] == [50, 500, 5000, 500]
    for each, centre in zip(found, (-3, -2, -1, -2), strict=True):
        assert each.alpha == pytest.approx((centre, centre - 1, centre + 1))
        assert each.lam == pytest.approx((0.5, 0, 1))
        assert each.alone[:, 0] == pytest.approx((centre, centre))
        assert each.share == pytest.approx(6 / 36)
    moved = surface(1)
    moved.scores[..., 1] = np.roll(moved.scores[..., 1], 1, axis=1)
    assert ANSWERS.regions(moved)[0].alone[:, 1] == pytest.approx((0.5, 1.5))
    one = surface(0)  # here one seed of one scale is elsewhere
    one.scores[..., 0, 1] = np.roll(one.scores[..., 0, 1], 1, axis=1)
    assert ANSWERS.regions_apart(one)["A"][1] == pytest.approx((0.5, 0, 1))


def test_runs_that_are_missing_leave_answers_out():
    """A study that is under way: one task has no run yet, another half of its cells."""
    partial = surface(0)
    partial.scores[:, :, 3] = np.nan
    partial.scores[:3, :, 2] = np.nan
    result = ANSWERS.answer(partial)
    assert (result.complete, result.solved, result.rbst) == (0, None, None)
    assert np.isnan(result.top_1.value)
    assert "0% of 4 tasks" in ANSWERS.table([result])
    assert "none good" in ANSWERS.region_table(ANSWERS.regions(partial))
    half = surface(0)
    half.scores[:3, :, 2] = np.nan
    assert ANSWERS.answer(half).complete == 0.5


def test_regions_of_two_pairs_are_told_apart():
    other = surface(0)
    other.label = "(entropy, bregman(max)) [temperature_units=reward]"
    lines = ANSWERS.region_table(ANSWERS.regions(surface(0)) + ANSWERS.regions(other)).splitlines()[
        2:
    ]
    assert [line.split(" | ")[0] for line in lines] == ["| (entropy, kl)"] * 4 + [
        "| (entropy, bregman(max))"
    ] * 4


def test_the_page_holds_what_the_published_runs_say():
    for path, text in PAGE.pages().items():
        assert path.read_text(encoding="utf-8") == text


def test_the_command_prints_the_answers_and_names_a_missing_folder(capsys, tmp_path):
    results = ROOT / "results" / "transfer"
    assert ANSWERS.main([str(results)]) == 0
    printed = capsys.readouterr().out
    assert (
        ANSWERS.table(
            [ANSWERS.answer(item) for item in ANSWERS.study_landscapes(read_results(results))]
        )
        in printed
    )
    assert ANSWERS.main([str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_further_seeds_are_of_the_settings_that_the_study_chooses():
    results = read_results(ROOT / "results" / "transfer")
    items = {(i.label, i.units): i for i in ANSWERS.further(results)}
    assert len(items) == 8
    study = parse((ROOT / "results" / "transfer" / "chosen.toml").read_text())
    runs = expand(study)
    assert set(runs.values["seed"]) == set(range(2, 10))
    for each in items.values():
        assert len(each.scores) == 10
        assert all(
            len(scores) == 8 and np.isfinite(scores).all() for scores in each.scores.values()
        )
    declared = {
        (b.pairs[0][1], dict(b.fixed)["temperature_units"], *b.alpha, *(b.lam or b.v))
        for b in study.blocks
    }
    chosen = {
        (e.label.split(", ")[1][:-1], e.units.split(",")[0], e.alpha, e.lam) for e in items.values()
    }
    assert declared == chosen


def test_further_seeds_that_are_missing_leave_their_scheme_out():
    results = read_results(ROOT / "results" / "transfer")
    more = np.flatnonzero(results.numbers("seed") >= 2)
    everything = np.arange(len(results))
    assert ANSWERS.further(results.take(np.delete(everything, more))) == []
    assert len(ANSWERS.further(results.take(np.delete(everything, more[0])))) == 7
    empty = surface(0)
    empty.scores[:] = np.nan
    assert ANSWERS.best_setting(empty) is None


def test_the_best_setting_solves_the_most_tasks_and_then_scores_best():
    item = surface(0)
    assert ANSWERS.best_setting(item) == (0.1, 10.0)  # of equals the last
    item.scores[1, 2] = 1.5
    assert ANSWERS.best_setting(item) == (0.001, 1.0)
    item.scores[1, 2, 0] = 0.0  # a higher mean does not make up for a task
    assert ANSWERS.best_setting(item) == (0.1, 10.0)


def test_further_seeds_are_compared_task_by_task():
    def item(units, *means):
        scores = {f"task {k}": np.full(3, mean) for k, mean in enumerate(means)}
        return ANSWERS.Further("(entropy, kl)", units, 0.1, 1.0, scores)

    items = [item("reward", 0.5, 0.9, 0.6), item("q_spread", 0.6, 1.0, 0.9)]
    text = ANSWERS.further_table(items)
    first, second = (line.strip("| ").split(" | ") for line in text.splitlines()[2:])
    assert first[4:] == ["1 of 3", "0.667", "", "task 0: 0.500"]
    # changes 0.1, 0.1, 0.3: mean 1/6, standard error 1/15, Student's t with 2 degrees 4.303
    assert second[4:] == ["2 of 3", "0.833", "+0.167 [-0.120, +0.454]", "task 0: 0.600"]
    schemes = [surface(0), surface(0)]
    schemes[1].settings = {"temperature_units": "q_spread"}
    said = PAGE.verdict([ANSWERS.answer(each) for each in schemes], items)
    assert "the mean score changes by +0.167 [-0.120, +0.454] in `q_spread` (95% over" in said
