"""The examples of users' own names train, sweep, report, solve and play like the built-in ones."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from math import cos, pi
from pathlib import Path

import pytest

import mirrorax
from mirrorax import plugins, registry
from mirrorax.cli import main
from mirrorax.mdpo import checkpoint

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--steps", "2560", "--seeds", "2", "--lanes", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the examples, as a user would have them in a folder."""
    made = tmp_path_factory.mktemp("own")
    for path in EXAMPLES.glob("my_*.py"):
        shutil.copy(path, made)
    text = (EXAMPLES / "own.toml").read_text()
    smaller = {"steps = 20_480": "steps = 512", "[0.001, 0.1]": "[0.1]", '"Corridor", ': ""}
    for old, new in smaller.items():
        assert old in text
        text = text.replace(old, new)
    (made / "own.toml").write_text(text)
    return made


@pytest.fixture
def run(folder, monkeypatch):
    """Run a command in that folder, as if in a new process: no plugin is loaded before it."""
    monkeypatch.chdir(folder)

    def run(*arguments, code=0):
        plugins._LOADED.clear()
        registry._REGISTERED.clear()
        for path in EXAMPLES.glob("my_*.py"):
            sys.modules.pop(path.stem, None)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert main(arguments) == code, err.getvalue()
        return err.getvalue() if code else out.getvalue()

    return run


def test_an_environment_of_ones_own_is_trained_and_played(run):
    flag = ["--plugin", "my_environment"]
    words = ["train", *flag, "--env", "Corridor(length=5)", *SMALL, "--json", "--out", "out"]
    result = json.loads(run(*words))
    assert result["settings"]["plugins"] == ["my_environment==1.0"]
    again = run("train", *flag, "--config", "out/config.toml", "--json")
    assert json.loads(again)["returns"] == result["returns"]
    for words in (["play", "out"], ["train", "--config", "out/config.toml"]):
        lost = run(*words, code=2)
        assert "its plugins are not loaded: my_environment; add --plugin my_" in lost
        assert lost.count("\n") == 1
    played = json.loads(run("play", "out", *flag, "--json"))
    assert len(played["returns"]) == 2


def test_a_schedule_of_ones_own_is_followed(run):
    schedule = ["--alpha-schedule", "cosine", "--alpha", "0.2", "--eval-every", "5"]
    run("train", "--plugin", "my_schedule", "--env", "Catch", *schedule, *SMALL, "--out", "s")
    curves, _ = checkpoint.load(Path("s/policies.npz"))
    # Recorded after updates 5 and 10 of 10: the alphas of k = 4 and k = 9, by the formula.
    expected = [0.2 * (1 + cos(pi * k / 10)) / 2 for k in (4, 9)]
    assert curves["curve.alpha"][0] == pytest.approx(expected, rel=1e-5)


def test_regularisers_of_ones_own_are_solved_with_and_are_sound(run):
    flags = ["--potential", "burg", "--drift", "hellinger", "--alpha", "0.01", "--lam", "0.1"]
    text = run("solve", "--plugin", "my_regularisers", *flags, "--size", "4", "--json")
    gaps = json.loads(text)["gap"]
    assert gaps[-1] < 1e-3 < gaps[0]
    assert "unknown potential 'burg'" in run("solve", *flags, code=2)
    checked = subprocess.run(
        [sys.executable, "my_regularisers.py"], capture_output=True, text=True, check=True
    )
    assert "FAIL" not in checked.stdout.upper()


def test_all_of_it_is_swept_and_reported(run):
    flags = ["--plugin", "my_environment", "--plugin", "my_regularisers", "--plugin", "my_schedule"]
    lost = run("sweep", "plan", "own.toml", "--store", "store", code=2)
    assert f"add {' '.join(flags)} (" in lost
    run("sweep", "run", "own.toml", "--store", "store", "--workers", "1", "--quiet", *flags)
    table = mirrorax.load("store")
    assert set(table["status"].to_pylist()) == {"done"}
    used = {
        (row["environment"], tuple(row["plugins"]))
        for row in table.select(["environment", "plugins"]).to_pylist()
    }
    others = ("my_regularisers==1.0", "my_schedule==1.0")
    assert used == {
        ("Catch", others),
        ("Corridor(length=9)", ("my_environment==1.0", *others)),
    }
    # What reads results needs no plugin.
    table = run("robustness", "--store", "store")
    assert "(burg, hellinger) alpha cosine" in table
    assert "Catch, Corridor(length=9)" in table
    run("report", "--store", "store", "--out", "own.html")
    page = Path("own.html").read_text()
    assert "Corridor(length=9)" in page
    assert f'"command":"mirrorax train {" ".join(flags)} --potential' in page  # to copy
    assert "Corridor(length=9)" in run("sweep", "status", "--store", "store")
    assert "nothing is left to do" in run("sweep", "plan", "own.toml", "--store", "store", *flags)
