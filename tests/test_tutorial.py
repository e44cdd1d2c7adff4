"""The tutorial, executed as a reader would: files are written, code runs, commands succeed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|console|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: what sets the machine up; the tests run in the result of it
SET_UP = ("make setup", "source .venv/bin/activate")
CODE = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"


def steps():
    return BLOCK.findall(PAGE.read_text())


def test_the_tutorial_works_from_top_to_bottom(tmp_path):
    typed = ""
    commands = 0
    for kind, text in steps():
        name = re.match(r"# (\w+\.(?:py|toml))\n", text)
        if name is not None:
            (tmp_path / name[1]).write_text(text)
        if kind == "python":
            # What a reader has typed into Python so far, in one process with the files beside it.
            typed += text
            run([sys.executable, "-c", typed], tmp_path)
        if kind == "console":
            for line in text.splitlines():
                command = line.removeprefix("$ ")
                assert line.startswith("$ "), line
                if command in SET_UP:
                    continue
                assert command.startswith("mirrorax "), command
                words = shlex.split(command)[1:]
                run([sys.executable, "-c", CODE, *words], tmp_path)
                commands += 1
    assert commands >= 10
    assert (tmp_path / "bridge.html").stat().st_size > 10_000
    assert list((tmp_path / "figures").glob("*.png"))


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"


def test_it_uses_nothing_of_the_paper():
    """An environment and a regulariser that are not in the paper, as promised."""
    text = PAGE.read_text()
    assert 'environments = ["Bridge"]' in text
    assert '["burg", "kl"]' in text


@pytest.mark.parametrize("link", re.findall(r"\]\((\w+)\.md\)", PAGE.read_text()))
def test_its_links_lead_somewhere(link):
    assert (PAGE.parent / f"{link}.md").exists()
