"""The examples of users' own names train, sweep, report, solve and play like the built-in ones."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mirrorax

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = ["--steps", "2560", "--seeds", "2", "--lanes", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A copy of the examples, as a user would have them in a folder."""
    made = tmp_path_factory.mktemp("own")
    for path in EXAMPLES.glob("my_*.py"):
        shutil.copy(path, made)
    text = (EXAMPLES / "own.toml").read_text()
    assert "seeds = 2\nsteps = 20_480\n" in text
    (made / "own.toml").write_text(
        text.replace("steps = 20_480", "steps = 512").replace("[0.001, 0.1]", "[0.1]")
    )
    return made


def run(folder, *arguments, code=0):
    command = [sys.executable, "-c", "import sys; from mirrorax.cli import main; sys.exit(main())"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done


def test_an_environment_of_ones_own_is_trained_and_played(folder):
    flag = ["--plugin", "my_environment"]
    text = run(
        folder, "train", *flag, "--env", "Corridor(length=5)", *SMALL, "--json", "--out", "out"
    ).stdout
    result = json.loads(text)
    assert result["settings"]["plugins"] == ["my_environment==1.0"]
    again = run(folder, "train", *flag, "--config", "out/config.toml", "--json").stdout
    assert json.loads(again)["returns"] == result["returns"]
    for words in (["play", "out"], ["train", "--config", "out/config.toml"]):
        lost = run(folder, *words, code=2).stderr
        assert "it needs the plugin my_environment, which is not loaded; add --plugin my_" in lost
        assert lost.count("\n") == 1
    played = json.loads(run(folder, "play", "out", *flag, "--json").stdout)
    assert len(played["returns"]) == 2


def test_a_schedule_of_ones_own_is_followed(folder):
    arguments = ["--alpha-schedule", "cosine", "--alpha", "0.2", "--eval-every", "5"]
    run(
        folder,
        "train",
        "--plugin",
        "my_schedule",
        "--env",
        "Catch",
        *arguments,
        *SMALL,
        "--out",
        "s",
    )
    from mirrorax.mdpo import checkpoint

    curves, _ = checkpoint.load(folder / "s" / "policies.npz")
    # Recorded after updates 5 and 10 of 10: the alphas of k = 4 and k = 9, by the formula.
    from math import cos, pi

    expected = [0.2 * (1 + cos(pi * k / 10)) / 2 for k in (4, 9)]
    assert curves["curve.alpha"][0] == pytest.approx(expected, rel=1e-5)


def test_regularisers_of_ones_own_are_solved_with_and_are_sound(folder):
    flags = ["--potential", "burg", "--drift", "hellinger", "--alpha", "0.01", "--lam", "0.1"]
    text = run(folder, "solve", "--plugin", "my_regularisers", *flags, "--size", "4", "--json")
    gaps = json.loads(text.stdout)["gap"]
    assert gaps[-1] < 1e-3 < gaps[0]
    unknown = run(folder, "solve", *flags, code=2).stderr
    assert "unknown potential 'burg'" in unknown
    checked = subprocess.run(
        [sys.executable, "my_regularisers.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "FAIL" not in checked.stdout.upper()


def test_all_of_it_is_swept_and_reported(folder):
    flags = ["--plugin", "my_environment", "--plugin", "my_regularisers", "--plugin", "my_schedule"]
    lost = run(folder, "sweep", "plan", "own.toml", "--store", "store", code=2).stderr
    assert f"add {' '.join(flags)} (" in lost
    words = ["--store", "store", "--workers", "1", "--quiet"]
    run(folder, "sweep", "run", "own.toml", *words, *flags)
    table = mirrorax.load(folder / "store")
    assert set(table["status"].to_pylist()) == {"done"}
    used = {
        (row["environment"], tuple(row["plugins"]))
        for row in table.select(["environment", "plugins"]).to_pylist()
    }
    others = ("my_regularisers==1.0", "my_schedule==1.0")
    assert used == {
        ("Catch", others),
        ("Corridor", ("my_environment==1.0", *others)),
        ("Corridor(length=9)", ("my_environment==1.0", *others)),
    }
    # What reads results needs no plugin.
    table = run(folder, "robustness", "--store", "store").stdout
    assert "(burg, hellinger) alpha cosine" in table
    assert "Catch, Corridor, Corridor(length=9)" in table
    run(folder, "report", "--store", "store", "--out", "own.html")
    assert "Corridor(length=9)" in (folder / "own.html").read_text()
    assert "Corridor(length=9)" in run(folder, "sweep", "status", "--store", "store").stdout
    plan = run(folder, "sweep", "plan", "own.toml", "--store", "store", *flags).stdout
    assert "nothing is left to do" in plan
