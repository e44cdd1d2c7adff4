"""Every command explains itself, with examples that it would understand."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest

from mirrorax import cli


def help_of(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*words, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_has_examples_of_the_command_itself(name, capsys):
    shown = help_of([name], capsys)
    assert "examples:" in shown
    assert re.search(rf"^  mirrorax {name}\b", shown, re.MULTILINE), shown


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_flags_of_the_examples_exist(name, capsys):
    shown = re.sub(r"\\\n\s*", "", help_of([name], capsys))  # a backslash continues a line
    for line in re.findall(rf"^  (mirrorax {name}\b.*)$", shown, re.MULTILINE):
        # An example may end in a remark, two spaces or more after it.
        words = shlex.split(re.split(r"\s{2,}(?=[a-z])", line)[0], comments=True)[2:]
        flags = {word for word in words if re.match(r"--[a-z]", word)}
        actions = [word for word in words[:1] if re.fullmatch(r"[a-z]+", word)]
        known = (
            shown if name not in ("sweep", "paper") else shown + help_of([name, *actions], capsys)
        )
        for flag in flags:
            assert re.search(rf"{flag}\b", known), f"{line}: {flag}"


def test_the_overview_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, (_, line) in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", shown, re.MULTILINE)


ROOT = Path(__file__).parent.parent.parent
COMMAND = re.compile(r"^(?:\$ | {4,6})(mirrorax [a-z].*)$", re.MULTILINE)


def commands():
    """Every command on a line of its own in the README, the docs and the examples."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    for page in sorted(pages):
        text = re.sub(r"\\\n\s*", "", page.read_text())  # a backslash continues a line
        for line in COMMAND.findall(text):
            if "..." not in line and "|" not in line:
                yield pytest.param(line, id=f"{page.name}: {line}")


@pytest.mark.parametrize("line", list(commands()))
def test_every_command_in_the_documentation_is_understood(line, monkeypatch):
    words = shlex.split(line, comments=True)[1:]
    command = importlib.import_module(cli.COMMANDS[words[0]][0])
    asked = []
    monkeypatch.setattr(command, "run", lambda args: asked.append(args) or 0)
    monkeypatch.setattr("mirrorax.plugins.load_all", lambda texts: None)
    assert cli.main(words) == 0
    assert len(asked) == 1


def test_there_are_commands_to_look_at():
    assert len(list(commands())) > 50
