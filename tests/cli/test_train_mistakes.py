"""Mistakes on the command line of train and play: one line, in the user's words, exit code 2."""

import os

import pytest

from mirrorax.cli import main

CATCH = ["train", "--env", "Catch"]


def refused(arguments, capsys):
    """Return the line a command is refused with."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mirrorax: error: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("mirrorax: error: ").rstrip()


MISTAKES = [
    (["train"], "env: missing"),
    (["train", "--env", "Cach"], "--env: unknown value 'Cach' (did you mean 'Catch'?)"),
    ([*CATCH, "--lam", "one"], "--lam: 'one' is not a finite number"),
    ([*CATCH, "--alpha", "0.1,0.1"], "--alpha: [0.1, 0.1]: expected numbers that differ"),
    ([*CATCH, "--max-grad-norm", "1e39"], "--max-grad-norm: must be at most 3.4"),
    ([*CATCH, "--alpha", "-1"], "--alpha: must be greater than or equal to 0 (got -1.0)"),
    ([*CATCH, "--seeds", "3,3"], "--seeds: [3, 3]: expected seeds that differ"),
    ([*CATCH, "--potential", "to(policy, kl)"], "--potential: 'to(policy, kl)' needs a saved"),
    (
        [*CATCH, "--alpha", "0.1,0.100000000001"],
        "--alpha: [0.1, 0.100000000001]: expected numbers that differ, in float32",
    ),
    ([*CATCH, "--w", "0.5"], "--w: 0.5 given, but alpha_schedule = 'constant'"),
    ([*CATCH, "--alpha-schedule", "learned", "--alpha", "1"], "--alpha: 1.0 given, but"),
    ([*CATCH, "--seeds", "0"], "--seeds: 0 is not allowed"),
    ([*CATCH, "--seeds", "100000", "--lam", "1,2"], "--seeds: 100000 of each point of the grid"),
    ([*CATCH, "--lanes", "x"], "--lanes: 'x' is not a whole number"),
    ([*CATCH, "--layout", "pmap"], "--layout: unknown value 'pmap'"),
    ([*CATCH, "--steps", "10"], "--steps: 10 is less than one update"),
    ([*CATCH, "--twin-critics", "maybe"], "--twin-critics: "),
    ([*CATCH, "--batch-size", "1000000"], "--batch-size: 1000000 is larger than buffer_size"),
    ([*CATCH, "--buffer-size", "100"], "--buffer-size: batch_size: 512 is larger than"),
    ([*CATCH, "--config", "no-such-file.toml"], "--config: no-such-file.toml: cannot read it"),
    (["play", "no-such-folder", "--seed", str(2**32)], "--seed: 4294967296 is not allowed"),
    (["play", "no-such-folder", "--gif", "a.png"], "--gif: 'a.png' is not allowed"),
    (["play", "no-such-folder", "--gif", "no/a.gif"], "--gif: 'no/a.gif': there is no folder"),
    (["play", "no-such-folder"], "folder: there is no folder"),
]


@pytest.mark.parametrize(("arguments", "start"), MISTAKES, ids=lambda value: " ".join(value)[:60])
def test_a_mistake_is_one_line_that_names_the_flag(arguments, start, capsys):
    assert refused(arguments, capsys).startswith(start)


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        ([*CATCH, "--alpha-schedule", "no_such_module:X"], "--alpha-schedule: unknown value"),
        (["train", "--env", "os:getcwd"], "--env: unknown value 'os:getcwd'"),
        (["train", "--env", "gymnasium:os:sep-v0"], "--env: 'gymnasium:os:sep-v0': expected"),
        (["train", "--env", "gymnasium:NoSuchThing-v0"], "--env: Gymnasium has no"),
        ([*CATCH, "--lanes", "10000000"], "--lanes: 10000000 lanes with buffer_size"),
    ],
)
def test_what_only_jax_can_find_is_one_line_too(arguments, start, capsys, tmp_path):
    out = tmp_path / "not" / "made"
    assert refused([*arguments, "--out", str(out)], capsys).startswith(start)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("env = ", "--config: wrong.toml: not TOML"),
        ('env = "Catch"\ntempo = 3\n', "--config: wrong.toml: unknown value 'tempo'"),
        (
            'env = "Catch"\nenvironment = "Catch"\n',
            "--config: wrong.toml: both env and environment",
        ),
        ('env = "Catch"\nlanes = "x"\n', "--config: wrong.toml: lanes: 'x' is not a whole number"),
        ('env = "Catch"\nalpha = true\n', "--config: wrong.toml: alpha: True is not a number"),
        ('env = "Catch"\n[alpha]\nb = 1\n', "--config: wrong.toml: alpha: {'b': 1} is not"),
    ],
)
def test_a_mistake_in_a_file_names_the_file(text, start, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text(text)
    assert refused(["train", "--config", "wrong.toml"], capsys).startswith(start)


def test_a_flag_wins_over_the_file_in_what_is_said_too(tmp_path, capsys):
    path = tmp_path / "wrong.toml"
    path.write_text('env = "Catch"\nseeds = 2.5\n')
    given = ["train", "--config", str(path), "--seeds", "0"]
    assert refused(given, capsys).startswith("--seeds: 0")


def test_a_gif_that_cannot_be_written_is_found_before_anything_is_played(tmp_path, capsys):
    folder = tmp_path / "a.gif"
    folder.mkdir()
    assert "is a folder" in refused(["play", str(tmp_path), "--gif", str(folder)], capsys)
    nowhere = f"{os.devnull}.d/a.gif" if not os.path.isdir("/proc") else "/proc/a.gif"
    assert refused(["play", str(tmp_path), "--gif", nowhere], capsys).startswith("--gif: ")
