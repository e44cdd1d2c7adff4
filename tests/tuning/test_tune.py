"""`mirrorax.tune` and `mirrorax tune`, with the real trainer on a small board."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.stats
import tiny

import mirrorax
from mirrorax.cli import main
from mirrorax.cli import tune as tune_cli
from mirrorax.errors import UserError
from mirrorax.runs.settings import make_settings
from mirrorax.store import read_results
from mirrorax.tuning.propose import CHECK_SEEDS, CellScores, Record, Trial
from mirrorax.tuning.result import TuneResult
from mirrorax.tuning.space import Cell, Range, Run, Specification, plan_budget
from mirrorax.tuning.task import DEFAULT_RANGES, prepare

TINY = {
    "steps": 16 * 40,
    **tiny.TINY,
    "lanes": 4,
}
FLAGS = [
    text
    for name, value in TINY.items()
    for text in (f"--{name.replace('_', '-')}", "8" if name == "hidden" else str(value))
]
CLI = ["tune", "--env", "Catch(4x3)", "--potential", "entropy", "--drift", "kl", "--budget", "32"]
ARMS, BUDGET = (make_settings(environment="Catch"),), plan_budget(32)
CODE = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "store"


@pytest.fixture(scope="module")
def result(kept):
    return mirrorax.tune("Catch(4x3)", "entropy", "kl", budget=32, workers=0, store=kept, **TINY)


def test_its_score_is_what_train_gives_on_the_fresh_seeds(result):
    seeds = [CHECK_SEEDS + i for i in range(plan_budget(32).check_seeds)]
    trained = mirrorax.train("Catch(4x3)", "entropy", "kl", seeds=seeds, **result.cell, **TINY)
    np.testing.assert_array_equal(result.scores, trained.normalized)
    assert result.mean == trained.mean
    if result.interval is not None:
        student = scipy.stats.t.interval(0.95, 4, result.mean, scipy.stats.sem(result.scores))
        assert result.interval == pytest.approx(np.clip(student, 0, 1))


def test_its_runs_are_in_the_store_and_nothing_is_trained_again(result, kept):
    table = read_results(kept)
    assert len(table) == result.spent == 32
    before = time.monotonic()
    again = mirrorax.tune("Catch(4x3)", "entropy", "kl", budget=32, workers=0, store=kept, **TINY)
    assert again.to_dict() == result.to_dict()
    assert len(read_results(kept)) == 32
    assert time.monotonic() - before < 30


def test_the_result_is_plain_data_and_keeps_to_the_budget(result):
    plain = json.loads(result.to_json())
    assert plain["spent"] <= plain["budget"] == 32
    assert plain["mean"] == np.mean(plain["scores"])
    assert len(plain["neighbours"]) == 4
    assert len(plain["trials"]) == plan_budget(32).search
    assert 0.2 < plain["random"] < 0.5  # Catch(4x3) at random
    assert plain["command"].startswith("mirrorax train --env 'Catch(4x3)' --potential entropy")
    assert "--steps 640" in plain["command"]
    assert "--hidden 8" in plain["command"]


def test_a_killed_search_ends_as_one_that_was_not(result, tmp_path, capsys):
    """With a worker process, which trains bit for bit as this process does."""
    words = [sys.executable, "-c", CODE, *CLI, *FLAGS, "--store", str(tmp_path / "kept")]
    words += ["--workers", "1"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "batch 2:" in line:
            process.kill()
            break
    process.communicate()
    done = len(read_results(tmp_path / "kept"))
    assert 0 < done < 32
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "batch 3:" in line:
            process.send_signal(signal.SIGINT)
            break
    rest = process.communicate()[1]
    assert process.returncode == 130, rest
    assert "the same command resumes" in rest
    here = [*CLI, *FLAGS, "--store", str(tmp_path / "kept"), "--workers", "0", "--json"]
    assert main(here) == 0
    ended = capsys.readouterr()
    plain, expected = json.loads(ended.out), json.loads(result.to_json())
    assert ended.err == ""
    assert plain["scores"] == expected["scores"]
    assert plain["trials"] == expected["trials"]


def test_a_learned_pair_of_temperatures_is_searched_by_its_targets():
    task = prepare("Catch", alpha_schedule="learned", lam_schedule="learned", budget=32)
    assert task.names == ("w", "v")
    assert [each.scale for each in task.ranges] == ["linear", "log"]


def test_ranges_choices_and_what_a_search_starts_from():
    task = prepare("CartPole", "entropy", "kl", steps=16_384)
    assert task.ranges == (DEFAULT_RANGES["alpha"], DEFAULT_RANGES["lam"])
    assert task.starts == (Cell(0, (0.01, 0.1)),)  # no evidence: it is of far longer runs
    given = prepare("CartPole", "entropy", "kl", lam_range=(0.5, 2.0))
    assert (given.ranges[1].low, given.ranges[1].high) == (0.5, 2.0)
    assert given.ranges[1].limits is None
    scaled = prepare("CartPole", "entropy", "kl", reward_scale=10.0)
    assert scaled.ranges[0].high == 10.0
    assert scaled.starts[0].values == (0.1, 1.0)
    several = prepare(
        "CartPole",
        ["entropy", "max"],
        "kl",
        choices={"lam_schedule": ["constant", "linear"]},
        ranges={"gamma": (0.9, 0.999), "actor_lr": (1e-4, 1e-2)},
        budget=128,
    )
    assert len(several.arms) == 4
    assert several.names == ("alpha", "lam", "gamma", "actor_lr")
    assert {cell.arm for cell in several.starts} == {0, 1, 2, 3}
    preset = prepare("Catch", "entropy", "kl", preset="paper")
    assert preset.arms[0].steps == make_settings("paper", environment="Catch").steps


def test_evidence_counts_where_runs_are_alike():
    task = prepare("CartPole", "entropy", "kl", preset="paper")
    assert len(task.starts) == 2
    assert task.starts[1] != task.starts[0]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"budget": 3}, "budget: 3 is not allowed"),
        (
            {"budget": 32, "ranges": {"gamma": (0.9, 0.99), "actor_lr": (1e-4, 0.1)}},
            "so many values",
        ),
        ({"seed": -1}, "seed: -1 is not allowed"),
        ({"lanes": 0}, "lanes: 0 is not allowed"),
        ({"alpha": 0.1}, "alpha: the search finds it"),
        ({"gamma": 2.0}, "gamma: "),
        ({"alpha_schedule": "learned", "alpha_range": (0.1, 1.0)}, "alpha_range: the schedules"),
        ({"lam_range": (1e-50, 0.5)}, "lam_range: "),
        ({"lam_range": (2.0, 0.5)}, "lam_range: 2, 0.5 is not allowed"),
        ({"ranges": {"steps": (1, 2)}}, "ranges: 'steps' is not a value to search"),
        ({"ranges": {"gama": (0.9, 1)}}, "a value to search (did you mean 'gamma'?)"),
        ({"choices": {"seed": [1]}}, "choices: 'seed' is not a setting"),
        ({"choices": {"lam_schedule": ["constant", "learned"]}}, "choices: schedules that learn"),
        ({"environment": "Acrobot"}, "environment: 'Acrobot' and env = 'Catch'; give env alone"),
        ({"batch_sise": 3}, "batch_sise: no such field; use batch_size"),
        ({"results": "nowhere"}, "results: "),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(more, text):
    with pytest.raises(UserError) as caught:
        prepare("Catch", **more)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["tune"], "env: missing; for example --env Catch"),
        (["tune", "--env", "Catsh"], "--env: unknown value 'Catsh'"),
        (["tune", "--env", "Catch", "--budget", "7"], "--budget: 7 is not allowed"),
        (["tune", "--env", "Catch", "--lam-range", "a,b"], "'a,b' is not allowed"),
        (["tune", "--env", "Catch", "--search", "gamma"], "--search: 'gamma' is not allowed"),
        (["tune", "--env", "Catch", "--hidden", "64,,64"], "--hidden: "),
        (["tune", "--env", "Catch", "--plugin", "no_such_module"], "no_such_module"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(words, text, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert text in error
    assert len(error.splitlines()) == 1


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


def outcome(
    scores=(0.5,) * 5, around=((0.5,),), units="normalised return", random=0.1, **fields
) -> TuneResult:
    cell = Cell(0, fields.pop("values", (0.1, 1.0)))
    found = Record(
        batches=[[Trial(Run(cell, 0), 0.9)]],
        best=CellScores(cell, tuple(scores)),
        neighbours=[CellScores(Cell(0, (1.0, 1.0)), tuple(each)) for each in around],
    )
    ranges = (Range("alpha", 1e-4, 1.0), Range("lam", 1e-3, 1e3))
    best = 1.0 if units == "normalised return" else None
    spec = Specification(ranges, BUDGET, ARMS, random=random, best=best, **fields)
    return TuneResult(spec, found)


@pytest.mark.parametrize(
    ("units", "around", "text"),
    [
        ("normalised return", [[0.75], [0.72]], "no neighbour is more than 0.1 below"),
        ("normalised return", [[0.75], [0.5]], "sensitive: a neighbour is 0.300 below"),
        ("normalised return", [[1.0], [0.5]], "not settled: a neighbour is 0.200 above (by 1 seed"),
        ("normalised return", [[1.0] * 5, [0.5] * 5], "0.200 above; use a larger --budget"),
        ("return", [[0.75], [0.5]], "sensitive: a neighbour is 0.300 below"),
        ("return", [[0.8], [0.79]], "no neighbour is more than 0.0367 below"),
    ],
)
def test_what_the_neighbours_show_is_put_into_words(units, around, text):
    assert text in outcome((0.79, 0.81, 0.79, 0.81), around, units).verdict[1]


@pytest.mark.parametrize(
    ("scores", "random", "units"),
    [
        ((0.28, 0.30, 0.29, 0.31), 0.256, "normalised return"),
        ((0.2, 0.9, 0.1, 0.3, 0.2), 0.256, "normalised return"),  # its interval holds random play
        ((-20.0, -21.0, -19.0), -20.5, "return"),
        ((np.nan,) * 3, 0.0, "normalised return"),
    ],
)
def test_nothing_better_than_random_is_the_last_line(scores, random, units, capsys):
    result = outcome(scores, [[0.3]], units, random)
    assert not result.better_than_random
    assert ", not better than random play; " in repr(result)
    tune_cli._show(result)
    shown = capsys.readouterr().out
    assert shown.splitlines()[-1].startswith("nothing better than random")
    assert "forgiving" not in shown
    assert "try   " not in shown
    json.loads(result.to_json(), parse_constant=pytest.fail)  # JSON has no NaN


def test_runs_that_diverged_are_shown_and_not_averaged(capsys):
    result = outcome((0.6, np.nan, 0.8), [[np.nan], [0.7]])
    assert (result.mean, result.best.diverged, result.largest_drop) == (0.7, 1, np.inf)
    assert result.interval is None
    tune_cli._show(result)
    shown = capsys.readouterr().out
    assert "two seeds: 0.600 and 0.800, over 2 of 3 fresh seeds; the others diverged" in shown
    assert "not safe: runs diverged here and close by" in shown
    assert any(line.split()[-3:] == ["1", "1", "nan"] for line in shown.splitlines())


def test_the_command_repeats_numbers_to_the_last_digit():
    fixed = {"actor_lr": 0.00123456789, "gamma": 0.99999949}
    words = outcome(fixed=fixed, values=(1e-05, 0.002)).command.split()
    for name, value in (*fixed.items(), ("alpha", 1e-05), ("lam", 0.002)):
        assert float(words[words.index(f"--{name.replace('_', '-')}") + 1]) == value


def test_the_interval_of_five_seeds_holds_the_mean_as_often_as_it_says():
    drawn = np.random.default_rng(1).normal(0.6, 0.1, (4000, 5))
    held = 0
    for scores in drawn:
        low, high = outcome(scores, units="return").interval
        held += low <= 0.6 <= high
    # Four standard errors of 4000 draws.
    assert abs(held / 4000 - 0.95) < 4 * (0.95 * 0.05 / 4000) ** 0.5
    assert outcome().seeds_in_words == "5 seeds agree: 0.500 to 0.500"
