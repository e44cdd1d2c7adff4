"""The tutorial, executed as a reader would, and what it says about the results."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mirrorax import tabular
from mirrorax.analysis import landscapes
from mirrorax.analysis.scores import environment_scores
from mirrorax.store import load

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: what sets the machine up; the tests run in the result of it
SET_UP = ("make setup", "source .venv/bin/activate")
CODE = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"
#: commands whose numbers the page speaks of
WITH_NUMBERS = ("train", "tune")


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """Do the tutorial from top to bottom; return its folder, and what commands printed as JSON."""
    folder = tmp_path_factory.mktemp("tutorial")
    typed, numbers = "", {}
    for kind, text in BLOCK.findall(PAGE.read_text()):
        name = re.match(r"# (\w+\.(?:py|toml))\n", text)
        if name is not None:
            (folder / name[1]).write_text(text)
        if kind == "python":
            # What a reader has typed into Python so far, in one process with the files beside it.
            typed += text
            run([sys.executable, "-c", typed], folder)
        if kind == "console":
            for line in text.splitlines():
                command = line.removeprefix("$ ")
                assert line.startswith("$ "), line
                if command not in SET_UP:
                    assert command.startswith("mirrorax "), command
                    words = shlex.split(command)[1:]
                    json_flag = ["--json"] if words[0] in WITH_NUMBERS else []
                    shown = run([sys.executable, "-c", CODE, *words, *json_flag], folder)
                    if json_flag:
                        numbers[f"{words[0]} {words[words.index('--env') + 1]}"] = json.loads(shown)
    return folder, numbers


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_step_works_and_leaves_what_it_promises(worked):
    folder, numbers = worked
    assert len(numbers) == 3
    assert (folder / "bridge.html").stat().st_size > 10_000
    assert list((folder / "figures").glob("*.png"))


def test_both_agents_catch_the_ball_and_random_play_does_not(worked):
    trained = worked[1]["train Catch"]
    assert len(trained["normalized"]) == 2
    assert min(trained["normalized"]) > 0.9
    # Undiscounted, by the exact solver: the return is -1 or 1, the score 0 or 1.
    board = tabular.catch(gamma=1 - 1e-9)
    values = tabular.evaluate(board, tabular.uniform_policy(board))
    score = (float((np.asarray(values.v) * np.asarray(board.initial)).sum()) + 1) / 2
    assert score == pytest.approx(0.20, abs=0.005)
    assert "Random play scores 0.20" in PAGE.read_text()


def test_the_heat_map_shows_what_the_page_says(worked):
    scores = {}
    for item in landscapes(load(worked[0] / "bridge")):
        grid = environment_scores(item.runs())[..., 0]
        cells = zip(np.argwhere(np.isfinite(grid)), grid.ravel(), strict=True)
        scores[item.settings["potential"]] = {
            (float(item.alphas[i]), float(item.lams[j])): score for (i, j), score in cells
        }
    entropy, burg = scores["entropy"], scores["burg"]
    for lam in (0.01, 0.1):
        assert entropy[0.03, lam] > 0.9
        assert entropy[0.001, lam] < 0.5
        assert entropy[1.0, lam] < 0.6
        assert burg[0.003, lam] > 0.9
    assert max(s for pair in scores.values() for (_, lam), s in pair.items() if lam == 100) < 0.6


def test_the_search_finds_a_good_cell(worked):
    assert worked[1]["tune Bridge"]["mean"] > 0.9


@pytest.mark.parametrize("link", re.findall(r"\]\((\w+)\.md\)", PAGE.read_text()))
def test_its_links_lead_somewhere(link):
    assert (PAGE.parent / f"{link}.md").exists()
