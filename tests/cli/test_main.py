"""What the command line does when the world around it fails."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from mirrorax import cli

CODE = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_output_to_a_full_disk_is_one_line_and_exit_code_1(words):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", CODE, *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    expected = "mirrorax: error: cannot write the output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_a_reader_that_goes_away_is_quiet():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", CODE, "--help"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_help_and_mistakes_import_nothing_heavy():
    """All in one process: what one of them imports would be seen after it."""
    commands = [
        "--help",
        "--version",
        "solve --help",
        "solve --alpha -1",
        "train --help",  # the settings need numpy
        "sweep status no-such-store",
        "train --env Cach",
        "train --env Catch --drift k1",
        "train --env Catch --lam -1",
        "train --env Catch --lanes 0",
        f"train --env Catch --out {os.devnull}",
        f"play no-such-folder --seed {2**32}",
    ]
    code = f"""
import sys
from mirrorax.cli import main
heavy = {{"numpy", "jax", "gymnax", "matplotlib", "scipy"}}
for words in {commands!r}:
    if words == "train --help":
        heavy -= {{"numpy", "scipy"}}
    try:
        main(words.split())
    except SystemExit:
        pass
    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_error_of_the_operating_system_names_the_file(capsys, monkeypatch):
    def fails(args):
        raise PermissionError(13, "Permission denied", "some/file")

    module = types.SimpleNamespace(EXAMPLES="", run=fails)
    monkeypatch.setitem(sys.modules, "failing_command", module)
    monkeypatch.setitem(cli.COMMANDS, "fail", ("failing_command", "fails"))
    assert cli.main(["fail"]) == 1
    assert capsys.readouterr().err == "mirrorax: error: some/file: Permission denied\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train --env Catch --alhpa 0.1", "--alhpa 0.1; did you mean --alpha?"),
        ("tune --env Catch --buget=64", "--buget=64; did you mean --budget?"),
        ("sweep run study.toml --store x --worker 2", "--worker 2; did you mean --workers?"),
        ("train --env Catch --alpha 0.01 0.1 --lam 1", "commas: --alpha 0.01,0.1 (see"),
        ("train --env Catch --lr 0.1", "--lr 0.1; use --actor-lr and --critic-lr"),
        ("train --environment Catch", "--environment Catch; use --env"),
        ("sweep status x --zzz y", "--zzz y (see 'mirrorax sweep status --help')"),
        ("train --env Catch foo", "unrecognized arguments: foo (see"),
        ("train --env Catch --zzz", "unrecognized arguments: --zzz (see"),
        ("sweep", "ACTION: one of plan, run, status, verify, import, export (see"),
        ("paper", "ACTION: one of list, run, report (see"),
    ],
)
def test_a_mistyped_flag_or_a_missing_action_is_told_what_there_is(words, said, capsys):
    assert cli.main(words.split()) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
