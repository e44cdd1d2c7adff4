"""The tutorial, executed as a reader would, and what it says about the results."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mirrorax import plugins, registry, tabular
from mirrorax.analysis import landscapes
from mirrorax.analysis.scores import environment_scores
from mirrorax.cli import main
from mirrorax.store import read_results

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: what sets the machine up, and what other tests run: the self-test, one more training
NOT_RUN = (
    "make setup",
    "source .venv/bin/activate",
    "mirrorax doctor",
    "mirrorax train --plugin mine --env Bridge --potential burg --steps 16384",
)
#: A run is the same in any grid: the cells that the page speaks of are enough.
CELLS = {
    "alpha = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]": "alpha = [0.001, 0.003, 0.03, 1.0]",
    "lam = [0.01, 0.1, 1.0, 10.0, 100.0]": "lam = [0.01, 0.1, 100.0]",
}
#: One worker compiles once; a run is the same in any.
WITH_WORKERS = ("mirrorax sweep run", "mirrorax tune")
#: commands whose numbers the page speaks of
WITH_NUMBERS = ("train", "tune")


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """Do the tutorial from top to bottom; return its folder, and what commands printed as JSON."""
    folder = tmp_path_factory.mktemp("tutorial")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])  # a plugin adds its folder
        yield folder, work(folder)
    forget_plugins()


def work(folder):
    blocks = BLOCK.findall(PAGE.read_text())
    numbers = {}
    for kind, text in blocks:
        if kind == "toml":
            for all_cells, some in CELLS.items():
                assert all_cells in text
                text = text.replace(all_cells, some)
        name = re.match(r"# (\w+\.(?:py|toml))\n", text)
        if name is not None:
            (folder / name[1]).write_text(text)
        if kind == "console":
            for line in text.splitlines():
                command = line.removeprefix("$ ")
                assert line.startswith("$ "), line
                if command not in NOT_RUN:
                    words = shlex.split(command)[1:]
                    more = ["--json"] if words[0] in WITH_NUMBERS else []
                    more += ["--workers", "1"] if command.startswith(WITH_WORKERS) else []
                    shown = run([*words, *more])
                    if words[0] in WITH_NUMBERS:
                        numbers[words[0]] = json.loads(shown)
    # What a reader types into Python, in one process with the files beside it.
    typed = "".join(text for kind, text in blocks if kind == "python")
    subprocess.run([sys.executable, "-c", typed], cwd=folder, capture_output=True, check=True)
    return numbers


def run(words):
    """Run a command as if in a new process: no plugin is loaded before it."""
    forget_plugins()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(words) == 0, words
    return out.getvalue()


def forget_plugins():
    plugins._LOADED.clear()
    registry._REGISTERED.clear()
    sys.modules.pop("mine", None)


def test_every_step_works_and_leaves_what_it_promises(worked):
    folder, numbers = worked
    assert set(numbers) == set(WITH_NUMBERS)
    assert (folder / "bridge.html").stat().st_size > 10_000
    assert list((folder / "figures").glob("*.png"))


def test_both_agents_catch_the_ball_and_random_play_does_not(worked):
    trained = worked[1]["train"]
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
    for item in landscapes(read_results(worked[0] / "bridge")):
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
    assert worked[1]["tune"]["mean"] > 0.9


@pytest.mark.parametrize("link", re.findall(r"\]\((\w+)\.md\)", PAGE.read_text()))
def test_its_links_lead_somewhere(link):
    assert (PAGE.parent / f"{link}.md").exists()
