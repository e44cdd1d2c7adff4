"""Suggestions: known places are found, rewards rescale temperatures, and nothing is peeked at."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mirrorax.analysis.summary import summarise
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.runs.presets import PRESETS
from mirrorax.tuning import prediction, suggestion
from mirrorax.tuning.evidence import Evidence, gather
from mirrorax.tuning.suggestion import suggest
from mirrorax.tuning.validation import left_out, pair_rbst, validate

FOUR = ("CartPole", "Acrobot", "Catch", "DeepSea")
#: How far apart the returns are that count as 0 and 1.
WIDE = {"CartPole": 500, "Acrobot": 425, "Catch": 2, "DeepSea": 1, "MountainCar-v0": 90}


def near(found, wanted, decades=0.3):
    return abs(np.log10(found / wanted)) < decades


@pytest.fixture
def alike(make_bump):
    """Four environments with the same good temperatures, whatever their returns."""
    return Evidence(tuple(make_bump(name, 0.03, 1.0) for name in FOUR))


@pytest.fixture
def lawful(make_bump):
    """Five environments whose good temperatures are proportional to their returns."""
    return Evidence(tuple(make_bump(n, 1e-3 * s, 1e-2 * s, width=0.9) for n, s in WIDE.items()))


def test_scores_at_other_temperatures_are_those_of_the_nearest_cell(make_bump):
    one = make_bump("Catch", 0.03, 1.0)
    scores, runs = prediction.at_nearest(one, one.alphas, one.lams)
    np.testing.assert_array_equal(scores, one.scores)
    np.testing.assert_array_equal(runs, one.runs)
    near = prediction.at_nearest(one, one.alphas[3:5] * 1.05, one.lams[:2] / 1.05)[0]
    np.testing.assert_array_equal(near, one.scores[3:5, :2])
    far, none = prediction.at_nearest(one, np.array([1e-6, 0.1, 200.0]), np.array([1.0]))
    assert np.isnan(far[[0, 2], 0]).all()  # more than a third of a decade from what was measured
    assert (none[[0, 2], 0] == 0).all()
    assert np.isfinite(far[1, 0])


def test_thin_evidence_is_shrunk_towards_the_best_single_cell(make_bump):
    """An environment whose few, noisy runs contradict the others; then many exact ones."""
    others = [make_bump(n, 0.03, 1.0, width=0.8) for n in ("CartPole", "Acrobot", "DeepSea")]
    odd = make_bump("Catch", 1.0, 30.0, width=0.8)
    cells, weights = [], []
    for runs, noise in ((1, 4.0), (2, 0.5), (1000, 1e-4)):
        mine = replace(odd, runs=np.full(odd.runs.shape, runs), noise=noise)
        found = prediction.combine([*others, mine], odd.alphas, odd.lams, own=[mine])
        cells.append(found.alpha)
        weights.append(found.own)
        # The formula of the docstring, by hand, at one cell.
        maps = np.stack([each.scores for each in (*others, mine)])
        between = max(maps.var(axis=0, ddof=1).mean() - noise / runs, 1e-6)
        w = between / (between + noise / runs)
        pooled = maps.mean(axis=0)
        np.testing.assert_allclose(found.scores, pooled + w * (odd.scores - pooled), atol=1e-12)
    assert near(cells[0], 0.03)
    assert near(cells[-1], 1.0)
    assert weights == sorted(weights)
    assert weights[-1] > 0.99
    alone = prediction.combine([odd], odd.alphas, odd.lams, own=[odd])
    np.testing.assert_array_equal(alone.scores, odd.scores)


def test_a_cell_at_the_edge_is_never_suggested_silently(make_bump):
    """Whatever the basis: measured, another size, another environment; a pair given or not."""
    maps = tuple(make_bump(n, 10.0, 1e3, width=1.0) for n in FOUR)
    for name in ("Catch", "Catch(20x10)", "Maze"):
        for pair in ({}, {"potential": "entropy", "drift": "kl"}):
            made = suggest(name, evidence=Evidence(maps), **pair)
            at_edge = made.alpha == 10.0 or made.lam == 1e3
            assert at_edge == any("at the edge" in reason for reason in made.reasons)
    assert at_edge


def test_what_it_prints_of_a_pair_agrees_with_robustness(study):
    known, table = gather(study), summarise(study, thresholds=[0.9])
    constant = [r for r in table.rows if r.label in ("(entropy, kl)", "(entropy, bregman(max))")]
    for row in constant:
        pair = ("entropy", "kl" if "kl" in row.label else "bregman(max)")
        assert pair_rbst(known)[pair] == pytest.approx(row.rbst[0].value, abs=1e-3)
        shown = suggest("Catch", potential=pair[0], drift=pair[1], evidence=known).reasons
        assert any(f"its Rbst_0.9 is {pair_rbst(known)[pair]:.3f}" in reason for reason in shown)


def test_the_default_is_suggested_where_nothing_beats_it(make_bump):
    """The default cell is perfect everywhere; what the others say of a left-out one is not."""
    places = [(1e-3, 10.0), (0.3, 0.01), (1e-3, 0.01), (0.3, 30.0)]
    maps = []
    for name, place in zip(FOUR, places, strict=True):
        one = make_bump(name, *place, width=0.4)
        near_default = np.abs(np.log10(one.alphas / 0.01))[:, None] < 0.13
        near_default = near_default & (np.abs(np.log10(one.lams / 0.1))[None, :] < 0.13)
        maps.append(replace(one, scores=np.where(near_default, 0.95, one.scores)))
    made = suggest("Maze", evidence=Evidence(tuple(maps)))
    assert (made.potential, made.drift, made.alpha, made.lam) == ("entropy", "kl", 0.01, 0.1)
    assert any("so the defaults are suggested" in reason for reason in made.reasons)


def test_the_joint_check_chooses_the_pair_without_a_look(make_bump):
    """A pair that is perfect in one environment only is not chosen for that environment."""
    kl = [make_bump(n, 0.03, 1.0, width=0.6, height=0.97) for n in FOUR]
    odd = [make_bump(n, 1.0, 30.0, pair=("max", "kl"), height=0.1) for n in FOUR[1:]]
    odd.append(make_bump("CartPole", 1.0, 30.0, pair=("max", "kl")))
    found = validate(Evidence((*kl, *odd)))
    assert [row.environment for row in found.joint] == list(FOUR)
    assert {row.potential for row in found.joint} == {"entropy"}
    changed = [replace(each, scores=each.scores[::-1]) for each in kl[:1]]
    again = validate(Evidence((*changed, *kl[1:], *odd)))
    assert (again.joint[0].alpha, again.joint[0].lam) == (found.joint[0].alpha, found.joint[0].lam)


def test_the_middle_of_a_plateau_is_chosen_not_its_luckiest_corner(make_bump):
    one = make_bump("Catch", 0.03, 1.0)
    scores = np.zeros(one.scores.shape)
    scores[4:13, 6:15] = 0.97
    scores[4, 6] = 0.975  # the luckiest
    scores[18, 20] = 1.0  # a lonely lucky cell
    found = prediction.combine([replace(one, scores=scores)], one.alphas, one.lams)
    assert found.cell == (8, 10)
    (low, high), _ = found.ranges()
    assert low <= one.alphas[5]
    assert high >= one.alphas[11]
    assert high < one.alphas[18]


def with_poor_corner(one):
    """The same map, its lowest temperatures measured more finely: cells that are no good."""
    low = one.alphas[0] * np.array([0.1, 0.2, 0.5])
    alphas = np.concatenate([low, one.alphas])
    scores = np.concatenate([np.zeros((3, one.scores.shape[1])), one.scores])
    return replace(one, alphas=alphas, scores=scores, runs=np.full(scores.shape, 5))


def test_more_runs_in_a_poor_corner_do_not_cost_a_pair_its_place(make_bump):
    better, worse = (
        [make_bump(n, 0.03, 1.0, pair=("entropy", drift), width=width) for n in FOUR]
        for drift, width in (("kl", 0.51), ("squared_tv", 0.5))
    )
    found = suggest("Pong-misc", evidence=Evidence((*map(with_poor_corner, better), *worse)))
    assert found.drift == "kl"
    plain = suggest("Pong-misc", evidence=Evidence((*better, *worse)))
    # What is said of the pair does not depend on cells that the other pair does not have.
    assert [r for r in found.reasons if "Rbst" in r] == [r for r in plain.reasons if "Rbst" in r]


def test_a_random_cell_is_drawn_from_those_that_could_have_been_suggested(alike):
    strips = Evidence((with_poor_corner(alike.maps[0]), *alike.maps[1:]))
    for before, after in zip(validate(alike).rows, validate(strips).rows, strict=True):
        assert after == before


def test_a_left_out_environment_has_no_say(lawful):
    pair = ("entropy", "kl")
    first = list(left_out(lawful, pair))
    assert len(first) == len(lawful.maps)
    for index, (one, before) in enumerate(first):
        changed = list(lawful.maps)
        changed[index] = replace(one, scores=one.scores[::-1, ::-1].copy())
        after = list(left_out(Evidence(tuple(changed)), pair))[index][1]
        assert after.cell == before.cell


def test_sizes_of_one_family_are_left_out_together(make_bump):
    maps = [make_bump(name, 0.03, 1.0) for name in ("Catch", "DeepSea")]
    larger = replace(maps[0], environment="Catch(20x10)")
    pairs = list(left_out(Evidence((*maps, larger)), ("entropy", "kl")))
    only_other = prediction.combine([maps[1]], maps[0].alphas, maps[0].lams)
    assert pairs[0][1].cell == only_other.cell
    np.testing.assert_array_equal(pairs[0][1].scores, only_other.scores)


def test_a_measured_environment_is_suggested_its_own_peak(lawful):
    for one in lawful.maps:
        found = suggest(one.environment, evidence=lawful)
        assert found.basis == "measured"
        assert near(found.alpha, 1e-3 * WIDE[one.environment])
        assert near(found.lam, 1e-2 * WIDE[one.environment])
        assert found.alpha_range[0] < found.alpha < found.alpha_range[1]
        assert found.lam_range[0] < found.lam < found.lam_range[1]


@pytest.mark.parametrize(("name", "usual"), [("CartPole", 500.0), ("Acrobot", -75.0)])
def test_rescaled_rewards_rescale_the_temperatures_by_the_same_factor(alike, name, usual):
    base = suggest(name, evidence=alike)
    for factor in (10.0, 0.01):
        found = suggest(name, usual * factor, evidence=alike)
        assert found.alpha == pytest.approx(base.alpha * factor, rel=0.06)  # two digits
        assert found.lam == pytest.approx(base.lam * factor, rel=0.06)
        assert found.alpha_range[1] == pytest.approx(base.alpha_range[1] * factor, rel=0.06)
        assert any("Rewards times" in reason for reason in found.reasons)


def test_a_new_environment_gets_what_was_good_elsewhere_whatever_its_returns(alike):
    one, two = (suggest("Maze", r, evidence=alike) for r in (1.0, 1000.0))
    assert (one.alpha, one.lam) == (two.alpha, two.lam)
    assert near(one.alpha, 0.03)
    assert any("is not used" in reason for reason in one.reasons)


def test_another_size_of_a_measured_environment_is_firmer_than_a_stranger(alike):
    found = suggest("Catch(20x10)", evidence=alike)
    assert found.basis == "same family"
    assert found.sure.startswith("Fair")
    assert suggest("Maze", 1.0, evidence=alike).sure.startswith("Weak")


def test_the_pair_that_forgives_most_is_chosen_unless_it_is_given(make_bump):
    narrow = [make_bump(n, 0.03, 1.0, width=0.3) for n in FOUR]
    wide = [make_bump(n, 0.3, 1.0, pair=("max", "bregman(max)"), width=1.5) for n in FOUR]
    known = Evidence((*narrow, *wide))
    found = suggest("Catch", evidence=known)
    assert (found.potential, found.drift) == ("max", "bregman(max)")
    given = suggest("Catch", potential="entropy", evidence=known)
    assert (given.potential, given.drift) == ("entropy", "kl")
    assert near(given.alpha, 0.03)
    # A pair nobody measured: what was good on average, and it says so.
    other = suggest("Catch", potential="lp(2)", drift="squared_tv", evidence=known)
    assert (other.potential, other.drift) == ("lp(2)", "squared_tv")
    assert any("no results for (lp(2), squared_tv)" in reason for reason in other.reasons)


def test_the_command_it_prints_has_the_settings_of_the_results(alike):
    settings = dict(PRESETS["paper"])
    known = replace(alike, settings={**settings, "hidden": (64, 64), "twin_critics": False})
    found = suggest("Catch", evidence=known)
    assert found.command.endswith("--preset paper --twin-critics false")
    assert found.search.endswith("--preset paper --twin-critics false")
    numbers = replace(known, settings={**known.settings, "gamma": 0.9, "actor_lr": 0.0001234567})
    for line in (suggest("Catch", evidence=numbers, reward_scale=0.5),):
        for command in (line.command, line.search):
            assert "--gamma 0.9 --actor-lr 0.0001234567 --reward-scale 0.5" in command
    assert replace(found, environment="Catch(20x10)").command.startswith(
        "mirrorax train --env 'Catch(20x10)'"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Maze", -1.0), "max_return: -1 is not allowed"),
        (("CartPole", -1.0), "max_return: -1 is not allowed"),
        (("CartPole", float("nan")), "max_return: nan is not a finite number"),
        (("Catch", True), "max_return: True is not a finite number"),
        ((3,), "env: expected a name"),
        (("",), "env: expected a name"),
    ],
)
def test_mistakes_are_named(arguments, said, alike):
    with pytest.raises(UserError) as caught:
        suggest(*arguments, evidence=alike)
    assert said in str(caught.value)
    with pytest.raises(UserError, match="potential: "):
        suggest("Catch", potential="entropi", evidence=alike)


def test_the_factor_of_rewards_is_the_factor_of_temperatures(alike):
    for name in ("Catch", "Maze", "DeepSea(12)"):
        plain, scaled = (
            suggest(name, evidence=alike),
            suggest(name, reward_scale=8.0, evidence=alike),
        )
        assert (scaled.alpha, scaled.lam) == pytest.approx((8 * plain.alpha, 8 * plain.lam), 0.06)
    same = suggest("CartPole", 50.0, evidence=alike)
    assert same.alpha == suggest("CartPole", reward_scale=0.1, evidence=alike).alpha
    with pytest.raises(UserError, match="max_return: it says what reward_scale says"):
        suggest("CartPole", 50.0, reward_scale=0.1, evidence=alike)
    with pytest.raises(UserError, match="reward_scale: "):
        suggest("CartPole", reward_scale=-1.0, evidence=alike)


def test_runs_with_rescaled_rewards_alone_or_without_results_are_refused(study):
    alone = study.set_column(
        study.schema.get_field_index("reward_scale"),
        "reward_scale",
        pa.array(np.full(study.num_rows, 2.0)),
    )
    with pytest.raises(UserError, match=r"results: no finished .* reward_scale 1"):
        gather(alone)
    failed = pa.array(["failed"] * study.num_rows)
    index = study.schema.get_field_index("status")
    table = (
        study.append_column("status", failed)
        if index < 0
        else study.set_column(index, "status", failed)
    )
    with pytest.raises(UserError, match="results: no finished"):
        gather(table)


def test_results_that_do_not_meet_are_one_line(make_bump):
    plain = make_bump("Catch", 0.03, 1.0)
    one = replace(plain, environment="Catch(5x5)")
    other = replace(plain, environment="Catch(6x6)", alphas=one.alphas * 1e6)
    with pytest.raises(UserError, match=r"no cell was measured in all .*: Catch\(5x5\), Catch\(6"):
        suggest("Catch", evidence=Evidence((one, other)))
    apart = replace(make_bump("Catch", 0.03, 1.0), potential="lp(2)", alphas=one.alphas * 1e6)
    with pytest.raises(UserError, match="no cell was measured in all of these together: Catch"):
        suggest(
            "Catch",
            potential="tsallis(0.5)",
            drift="kl",
            evidence=Evidence((make_bump("Catch", 0.03, 1.0), apart)),
        )


def test_an_algorithm_without_results_is_refused(capsys):
    assert main(["suggest", "--env", "Catch", "--algorithm", "on_policy"]) == 2
    assert "mirrorax tune --algorithm on_policy" in capsys.readouterr().err


def test_a_name_that_nobody_knows_is_remarked_first(alike):
    made = suggest("CartPol", evidence=alike)
    assert (
        made.reasons[0] == "No environment called CartPol is known here (did you mean CartPole?)."
    )
    assert "did you mean" not in "".join(made.reasons[1:])  # once is enough
    assert "known here" not in suggest("CartPole", evidence=alike).reasons[0]
    with pytest.raises(UserError, match="continuous actions"):
        suggest("Pendulum-v1", evidence=alike)
    with pytest.raises(UserError, match="an id of its registry with its version"):
        suggest("gymnasium:LunarLander", evidence=alike)


def test_validation_counts_hits_as_one_would_by_hand(study):
    known = gather(study)
    found = validate(known, 0.8)
    for row in found.rows:
        (one,) = (
            m
            for m in known.maps
            if m.pair == (row.potential, row.drift) and m.environment == row.environment
        )
        i, j = list(one.alphas).index(row.alpha), list(one.lams).index(row.lam)
        assert row.score == one.scores[i, j]
        assert row.success == (row.score >= 0.8)
        assert row.random == np.mean(one.scores >= 0.8)
        same = [m for m in known.maps if m.pair == one.pair]
        average = np.mean([m.scores for m in same], axis=0)
        best = np.unravel_index(np.argmax(average), average.shape)
        assert row.fixed == (one.scores[best] >= 0.8)
    assert found.suggested == np.mean([row.success for row in found.rows])
    # The landscapes were made alike, so the others do tell where the good region is.
    assert found.suggested > found.random


def test_validation_needs_something_to_leave_out(make_bump):
    with pytest.raises(UserError, match="nothing to validate"):
        validate(Evidence((make_bump("Catch", 0.03, 1.0),)))
    with pytest.raises(UserError, match=r"threshold: 1\.5 is not allowed"):
        validate(Evidence((make_bump("Catch", 0.03, 1.0),)), 1.5)


def test_the_command_line_speaks_json_and_prose(capsys):
    assert main(["suggest", "--env", "CartPole-v1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["environment"] == "CartPole"
    assert found["command"].startswith("mirrorax train --env CartPole")
    assert main(["suggest", "--env", "Maze", "--max-return", "3"]) == 0
    shown = capsys.readouterr().out
    for word in ("potential", "alpha", "search", "why", "how sure", "mirrorax train"):
        assert word in shown
    assert main(["suggest"]) == 2
    assert capsys.readouterr().err == "mirrorax: error: env: missing; for example --env Catch\n"
    assert main(["suggest", "--env", "Catch", "--results", "nowhere"]) == 2
    assert "results: " in capsys.readouterr().err


def test_it_never_imports_jax():
    code = (
        "import sys; from mirrorax.cli import main; main(['suggest', '--env', 'CartPole']); "
        "print(sorted({'jax', 'gymnax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert suggestion.THRESHOLD == 0.9
