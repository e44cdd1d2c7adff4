"""Every command explains itself, with examples that it would understand."""

from __future__ import annotations

import re
import shlex

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
