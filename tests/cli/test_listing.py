"""`mirrorax list` and `mirrorax completion`: complete, and true to what commands take."""

from __future__ import annotations

import json
import shutil

import pytest
from shells import INSTALLED, offered

from mirrorax import registry
from mirrorax.cli import COMMANDS, main, parser_of
from mirrorax.cli.listing import KINDS
from mirrorax.envs import suite
from mirrorax.regularizers.names import names
from mirrorax.runs.presets import PRESETS
from mirrorax.runs.settings import ALPHA_SCHEDULES


def listed(kind, capsys, *flags):
    assert main(["list", kind, "--json", *flags]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_has_one_line(kind, capsys):
    rows = listed(kind, capsys)
    assert all(text and "\n" not in text for text in rows.values())
    assert main(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(rows)


def test_nothing_is_missing_and_nothing_made_up(capsys):
    assert set(listed("environments", capsys)) == {*suite.names(), "gymnasium:ID"}
    assert set(listed("potentials", capsys)) >= set(names("potential"))
    assert set(listed("drifts", capsys)) >= set(names("drift"))
    assert set(listed("schedules", capsys)) >= set(ALPHA_SCHEDULES)
    assert set(listed("networks", capsys)) >= set(registry.built_in("network"))
    assert set(listed("optimizers", capsys)) >= set(registry.built_in("optimizer"))
    assert set(listed("presets", capsys)) == set(PRESETS)
    assert "returns 0 to 500" in listed("environments", capsys)["CartPole"]


def test_names_of_a_plugin_are_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "listed_here.py").write_text(
        "import mirrorax\nmirrorax.register_potential('listed_h', lambda p: (p * p).sum())\n"
    )
    rows = listed("potentials", capsys, "--plugin", "listed_here")
    assert rows["listed_h"] == "registered by a plugin"


#: What is typed, and all the words that the shell offers for the last one.
TYPED = {
    "mirrorax tr": ["train"],
    "mirrorax ": sorted(COMMANDS),
    "mirrorax --": ["--help", "--version"],
    "mirrorax train --alpha": ["--alpha", "--alpha-schedule"],
    "mirrorax train --alpha 0.1,0.2 --env Catch --quie": ["--quiet"],
    "mirrorax sweep ": ["export", "import", "plan", "run", "status", "verify"],
    "mirrorax sweep run --e": ["--engine"],
    "mirrorax sweep run --engine ": ["local", "ray"],
    "mirrorax sweep run my_": ["my_study.toml"],
    "mirrorax sweep run my_study.toml --store my_": ["my_study.toml"],
    "mirrorax sweep run --store runs my_study.toml --take": ["--take-over"],
    "mirrorax robustness --format ": ["csv", "json", "markdown", "text"],
    "mirrorax robustness --thresholds 0.5 0.9 --sta": ["--statistic"],
    "mirrorax list env": ["environments"],
    "mirrorax list environments --js": ["--json"],
    "mirrorax paper run study --eng": ["--engine"],
}


@pytest.mark.parametrize("how", INSTALLED)
def test_the_shell_completes(how, tmp_path, capsys):
    """A shell at a terminal, in which keys are pressed; zsh from its fpath and by `eval`."""
    shell = how.split()[0]
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    assert main(["completion", shell]) == 0
    (tmp_path / "_mirrorax").write_text(capsys.readouterr().out)
    (tmp_path / "my_study.toml").touch()
    assert offered(shell, INSTALLED[how], TYPED, tmp_path) == TYPED


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_script_names_every_flag(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name in COMMANDS:
        for action in parser_of(name)._actions:
            assert all(flag in script for flag in action.option_strings)


def test_every_flag_has_a_sentence():
    def actions(parser):
        for action in parser._actions:
            yield action
            for inner in action.choices.values() if hasattr(action, "_name_parser_map") else ():
                yield from actions(inner)

    for name in COMMANDS:
        for action in actions(parser_of(name)):
            if not hasattr(action, "_name_parser_map"):
                assert len((action.help or "").split()) > 1, (name, action.dest)
