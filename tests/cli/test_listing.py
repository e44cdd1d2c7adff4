"""`mirrorax list` and `mirrorax completion`: complete, and true to what commands take."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

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


def complete(words):
    """Return what bash offers for the last of some words."""
    script = subprocess.run(
        ["bash", "-c", "source /dev/stdin; COMP_WORDS=($1); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))"
         '; [[ $1 == *" " ]] && { COMP_WORDS+=(""); COMP_CWORD=$(( COMP_CWORD + 1 )); }'
         '; _mirrorax; printf "%s\\n" "${COMPREPLY[@]}"', "bash", words],
        input=complete.script, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return script.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_and_actions(capsys):
    assert main(["completion", "bash"]) == 0
    complete.script = capsys.readouterr().out
    assert complete("mirrorax tr") == ["train"]
    assert set(complete("mirrorax --")) == {"--help", "--version"}
    assert complete("mirrorax train --alpha") == ["--alpha", "--alpha-schedule"]
    assert "--engine" in complete("mirrorax sweep run --e")
    assert "verify" in complete("mirrorax sweep ver")
    assert complete("mirrorax list env") == ["environments"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    "loaded", ["source ./_mirrorax", "fpath=(. $fpath); autoload -U _mirrorax"]
)
def test_zsh_completes_commands_flags_and_actions(loaded, tmp_path, capsys):
    """Sourced, and from a folder of the fpath, where the first Tab loads the file and answers."""
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_mirrorax").write_text(capsys.readouterr().out)
    stand_ins = "compadd() { shift; print -- $@ }; compdef() { :; }; _files() { print FILES }"

    def offered(*words):
        typed = f"words=({' '.join(map(repr, words))}); CURRENT={len(words)}"
        code = f"{stand_ins}; {loaded}; {typed}; _mirrorax"
        done = subprocess.run(
            ["zsh", "-f", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert offered("mirrorax", "") == [*COMMANDS, "--help", "--version"]
    assert {"--alpha", "--alpha-schedule"} <= set(offered("mirrorax", "train", "--alp"))
    assert {"verify", "--help", "FILES"} <= set(offered("mirrorax", "sweep", ""))
    assert "--engine" in offered("mirrorax", "sweep", "run", "--e")
    assert "environments" in offered("mirrorax", "list", "env")


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
