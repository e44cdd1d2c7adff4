"""`mirrorax.tune` and `mirrorax tune`, with the real trainer on a small board."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

import mirrorax
from mirrorax.cli import main
from mirrorax.cli import tune as tune_cli
from mirrorax.errors import UserError
from mirrorax.runs.settings import make_settings
from mirrorax.tuning.cells import CheckedCell, SearchRecord
from mirrorax.tuning.search import CHECK_SEEDS
from mirrorax.tuning.space import plan_budget
from mirrorax.tuning.suggestion import suggest
from mirrorax.tuning.tune import TuneResult, prepare

TINY = {
    "steps": 16 * 40,
    "num_envs": 4,
    "env_steps_per_update": 16,
    "batch_size": 16,
    "buffer_size": 160,
    "hidden": (8,),
    "eval_episodes": 3,
    "lanes": 8,
}
FLAGS = [
    text
    for name, value in TINY.items()
    for text in (f"--{name.replace('_', '-')}", "8" if name == "hidden" else str(value))
]
CLI = ["tune", "--env", "Catch(4x3)", "--potential", "entropy", "--drift", "kl", "--budget", "32"]
CODE = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def result():
    return mirrorax.tune("Catch(4x3)", "entropy", "kl", budget=32, **TINY)


def test_its_score_is_what_train_gives_on_the_fresh_seeds(result):
    budget = plan_budget(32)
    seeds = [CHECK_SEEDS + i for i in range(budget.check_seeds)]
    trained = mirrorax.train("Catch(4x3)", "entropy", "kl", seeds=seeds, **result.cell, **TINY)
    np.testing.assert_array_equal(result.scores, trained.normalized)
    assert result.mean == trained.mean
    student = scipy.stats.t.interval(0.95, 4, result.mean, scipy.stats.sem(result.scores))
    assert len(result.scores) == 5
    assert result.interval == pytest.approx(student)
    one = result.neighbours[0]
    other = mirrorax.train("Catch(4x3)", "entropy", "kl", seeds=seeds[:1], **one.cell, **TINY)
    np.testing.assert_array_equal(one.scores, other.normalized)


def test_a_run_that_was_not_stopped_is_the_run_train_makes(result):
    batch = result.search.batches[0]
    row = batch.reached.index(40)
    trained = mirrorax.train("Catch(4x3)", "entropy", "kl", seeds=[row], **batch.cells[row], **TINY)
    assert batch.scores[row] == trained.normalized[0]


def test_the_result_is_plain_data_and_keeps_to_the_budget(result):
    plain = json.loads(result.to_json())
    assert plain["spent"] <= plain["budget"] == 32
    assert plain["mean"] == np.mean(plain["scores"])
    assert len(plain["neighbours"]) == 4
    assert plain["tried"] == len(plain["trials"])
    assert plain["command"].startswith("mirrorax train --env 'Catch(4x3)' --potential entropy")
    assert "--steps 640" in plain["command"]
    assert "--hidden 8" in plain["command"]


def test_the_command_line_resumes_after_ctrl_c_and_ends_the_same(result, tmp_path):
    words = [sys.executable, "-c", CODE, *CLI, *FLAGS, "--store", str(tmp_path / "kept")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = []
    for line in process.stderr:
        seen.append(line)
        if "batch 1:" in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate()[1]
    assert process.returncode == 130, (seen, rest)
    assert "the same command resumes" in rest
    assert (tmp_path / "kept" / "search.jsonl").exists()
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    plain = json.loads(done.stdout)
    assert done.stderr == ""
    assert plain["scores"] == list(result.scores)
    assert plain["trials"] == json.loads(result.to_json())["trials"]


def test_it_shows_the_interval_the_neighbours_and_no_optimistic_result(tmp_path, capsys):
    words = [*CLI, *FLAGS, "--store", str(tmp_path), "--quiet"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    for text in ("95% interval", "fresh seeds", "half a decade away", "not a result", "try   mirr"):
        assert text in shown
    # Again, and nothing is trained.
    assert main(words) == 0
    assert capsys.readouterr().out == shown


def test_a_run_is_as_long_as_the_preset_says_unless_it_is_given():
    assert prepare("Catch").settings.steps == make_settings(environment="Catch").steps
    paper = make_settings("paper", environment="Catch")
    assert prepare("Catch", preset="paper").settings.steps == paper.steps
    assert prepare("Catch", preset="paper", steps=50_000).settings.steps == 50_000


def test_a_learned_alpha_is_searched_by_its_target():
    task = prepare("Catch", "entropy", "kl", alpha_schedule="learned", budget=32)
    assert [(axis.name, axis.log) for axis in task.axes] == [("w", False), ("lam", True)]
    found = mirrorax.tune("Catch(4x3)", "entropy", alpha_schedule="learned", budget=32, **TINY)
    assert set(found.cell) == {"w", "lam"}
    assert 0 <= found.cell["w"] <= 1


def test_the_search_starts_around_the_suggestion_or_keeps_to_what_is_given():
    task = prepare("CartPole", "entropy", "kl")
    alpha = task.axes[0]
    assert alpha.start == task.suggestion.alpha_range
    assert alpha.low == pytest.approx(alpha.start[0] / 10, rel=0.01)
    assert alpha.high == pytest.approx(alpha.start[1] * 10, rel=0.01)
    given = prepare("CartPole", "entropy", "kl", lam_range=(0.5, 2.0))
    assert (given.axes[1].low, given.axes[1].high) == (0.5, 2.0)
    scaled = prepare("CartPole", "entropy", "kl", reward_scale=10.0)
    assert scaled.suggestion.alpha == pytest.approx(10 * task.suggestion.alpha, rel=0.06)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"budget": 3}, "budget: 3 is not allowed"),
        ({"seed": -1}, "seed: -1 is not allowed"),
        ({"lanes": 0}, "lanes: 0 is not allowed"),
        ({"alpha": 0.1}, "alpha: the search finds it"),
        ({"gamma": 2.0}, "gamma: "),
        ({"alpha_schedule": "learned", "alpha_range": (0.1, 1.0)}, "alpha_range: alpha is learned"),
        ({"lam_range": (1e-50, 0.5)}, "lam_range: Input should be 0 or at least 1.17549e-38"),
        ({"alpha_range": (1.0, 1e39)}, "alpha_range: Input should be at most 3.40282e+38"),
        ({"environment": "Acrobot"}, "environment: 'Acrobot' and env = 'Catch'; give env alone"),
        ({"batch_sise": 3}, "batch_sise: no such field"),
        ({"results": "nowhere"}, "results: "),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(more, said):
    with pytest.raises(UserError) as caught:
        prepare("Catch", **more)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tune"], "env: missing; for example --env Catch"),
        (["tune", "--env", "Catsh"], "--env: unknown value 'Catsh'"),
        (["tune", "--env", "Catch", "--budget", "7"], "--budget: 7 is not allowed"),
        (["tune", "--env", "Catch", "--lam-range", "a,b"], "--lam-range: 'a,b' is not allowed"),
        (["tune", "--env", "Catch", "--hidden", "64,,64"], "--hidden: "),
        (["tune", "--env", "Catch", "--steps", "1e6", "--seed", "-1"], "--seed: -1 is not"),
        (
            ["tune", "--env", "Catch", "--lanes", "9000000", "--quiet"],
            "--lanes: 9000000 lanes with buffer_size",
        ),
        (["tune", "--env", "Catch", "--plugin", "no_such_module"], "no_such_module"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(words, said, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_store_that_is_a_file_is_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main([*CLI, *FLAGS, "--quiet", "--store", str(tmp_path / "file")]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err


def test_help_and_mistakes_import_no_jax():
    code = (
        "import sys; from mirrorax.cli import main\n"
        "main(['tune', '--env', 'Catch', '--budget', '1'])\n"
        "print(sorted({'jax', 'gymnax'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("units", "around", "said"),
    [
        (
            "normalised return",
            [[0.75], [0.72]],
            "forgiving place: no neighbour is more than 0.1 below",
        ),
        ("normalised return", [[0.75], [0.5]], "sensitive: a neighbour is 0.300 below"),
        (
            "normalised return",
            [[1.0], [0.5]],
            "not settled: a neighbour is 0.200 above (by 1 seed: it",
        ),
        (
            "normalised return",
            [[1.0] * 5, [0.5] * 5],
            "a neighbour is 0.200 above; use a larger --budget",
        ),
        ("return", [[0.75], [0.5]], "sensitive: a neighbour is 0.300 below"),
        ("return", [[0.8], [0.79]], "forgiving place: no neighbour is more than 0.0367 below"),
    ],
)
def test_what_the_neighbours_tell_is_put_into_words(units, around, said):
    checked = [CheckedCell({"alpha": 1.0, "lam": 1.0}, tuple(scores)) for scores in around]
    found = outcome(scores=(0.79, 0.81, 0.79, 0.81), neighbours=tuple(checked), units=units)
    assert said in tune_cli.verdict(found)


def test_runs_that_diverged_are_told_and_not_averaged(capsys):
    around = tuple(CheckedCell({"alpha": 1.0, "lam": 1.0}, (score,)) for score in (np.nan, 0.7))
    found = outcome(scores=(0.6, np.nan, 0.8), neighbours=around)
    assert (found.mean, found.diverged, found.largest_drop) == (0.7, 1, np.inf)
    assert found.interval is None
    tune_cli._show(found)
    shown = capsys.readouterr().out
    assert "two seeds: 0.600 and 0.800, over 2 of 3 fresh seeds; the others diverged" in shown
    assert "not safe: runs diverged here and close by" in shown
    assert "lam 1  diverged  (1 seed)" in shown
    none = outcome(scores=(np.nan,) * 3, neighbours=around)
    tune_cli._show(none)
    assert "all 3 fresh seeds diverged" in capsys.readouterr().out
    for one in (found, none):
        json.loads(one.to_json(), parse_constant=pytest.fail)  # JSON has no NaN


def test_the_command_repeats_numbers_to_the_last_digit():
    fixed = {"actor_lr": 0.00123456789, "gamma": 0.99999949}
    words = outcome(fixed=fixed, cell={"alpha": 1e-05, "lam": 0.002}).command.split()
    for name, value in (*fixed.items(), ("alpha", 1e-05), ("lam", 0.002)):
        assert float(words[words.index(f"--{name.replace('_', '-')}") + 1]) == value


def test_rescaled_rewards_rescale_the_search_of_an_environment_without_known_bounds():
    for name in ("Catch", "Breakout-MinAtar"):
        plain, scaled = (prepare(name, "entropy", "kl", reward_scale=c) for c in (1.0, 100.0))
        for one, other in zip(plain.axes, scaled.axes, strict=True):
            assert (other.low, other.high) == pytest.approx((100 * one.low, 100 * one.high), 0.06)


def test_the_store_of_a_sweep_is_no_place_for_a_search(tmp_path):
    (tmp_path / "mirrorax-store.json").write_text("{}")
    with pytest.raises(UserError, match="holds the runs of sweeps; choose another folder"):
        mirrorax.tune("Catch", budget=32, store=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mirrorax-store.json"]


def outcome(**fields):
    given = {
        "settings": make_settings(environment="Catch"),
        "fixed": {},
        "cell": {"alpha": 0.1, "lam": 1.0},
        "scores": (0.5,) * 5,
        "neighbours": (),
        "search": SearchRecord(),
        "budget": 32,
        "units": "normalised return",
        "suggestion": suggest("Catch"),
    }
    return TuneResult(**{**given, **fields})


def test_the_interval_of_five_seeds_holds_the_mean_as_often_as_it_says():
    drawn = np.random.default_rng(1).normal(0.6, 0.1, (4000, 5))
    given = outcome(units="return")  # without bounds there is no scale on which seeds agree
    held = 0
    for scores in drawn:
        low, high = dataclasses.replace(given, scores=tuple(scores)).interval
        held += low <= 0.6 <= high
    # Four standard errors of 4000 draws.
    assert abs(held / 4000 - 0.95) < 4 * (0.95 * 0.05 / 4000) ** 0.5
    assert given.interval is None
    assert given.seeds_in_words == "5 seeds agree: 0.500 to 0.500"
