"""The folder of `train --out`: another result in it is not lost by mistake, nor mixed with ours."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

import mirrorax
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.store import read_results
from mirrorax.training import folder as results
from mirrorax.training import train

FIELDS = {**tiny.TINY, "eval_episodes": 2}
COMMAND = ["train", "--env", "Catch", "--steps", "320", "--seeds", "2", "--lanes", "2", "--quiet"]
COMMAND += tiny.flags(FIELDS)
NAMES = {"results.json", "config.toml", "policies.npz", "runs.parquet", "learning_curve.png"}


@pytest.fixture(scope="module")
def pair():
    """Two results of other settings."""
    return tuple(
        train("Catch", lam=lam, seeds=2, steps=320, lanes=2, curve_points=2, **FIELDS)
        for lam in (0.1, 1.0)
    )


@pytest.fixture
def _pictures_of_text(monkeypatch):
    """Write a text in place of the picture, which takes long to draw."""

    def draw(result):
        return f"the curves of lam {result.runs[0].lam}".encode()

    monkeypatch.setattr(results, "draw_curves", draw)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def no_training(monkeypatch):
    monkeypatch.setattr("mirrorax.training.train_request", lambda *_, **__: pytest.fail("trained"))


def refused(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("mirrorax: error: ").rstrip()


@pytest.mark.usefixtures("_pictures_of_text")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--lam", "0.3"], "lam is 0.1 there, 0.3 here"),
        (["--lam", "0.1,0.3"], "lam is 0.1 there, [0.1, 0.3] here"),
        (["--seeds", "6"], "seeds is [0, 1] there, [0, 1, 2, 3, 4, 5] here"),
        (["--steps", "640"], "steps is 320 there, 640 here"),
        (["--env", "DeepSea"], 'env is "Catch" there, "DeepSea" here'),
        (["--hidden", "4,4"], "hidden is [8] there, [4, 4] here"),
        (["--alpha-schedule", "learned"], 'alpha_schedule is "constant" there, "learned" here'),
    ],
)
def test_another_result_is_not_overwritten(pair, flags, said, tmp_path, monkeypatch, capsys):
    results.write(tmp_path, pair[0])
    before = contents(tmp_path)
    assert set(before) == NAMES
    no_training(monkeypatch)
    line = refused([*COMMAND, *flags, "--out", str(tmp_path)], capsys)
    assert line == (
        f"--out: {str(tmp_path)!r} holds another result ({said}); name another folder, or give "
        "--overwrite to replace it"
    )
    assert contents(tmp_path) == before


def test_a_result_that_was_trained_on_is_another_one(pair, tmp_path, monkeypatch, capsys):
    results.write(tmp_path, pair[0].more(steps=320))
    no_training(monkeypatch)
    command = [*COMMAND, "--steps", "640", "--out", str(tmp_path)]
    assert "it was trained on from update 20" in refused(command, capsys)
    with pytest.raises(UserError, match="trained on by `more`"):
        mirrorax.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("results.json", "{", "another result (it was not written by train)"),
        (
            "results.json",
            '{"settings": 3, "runs": []}',
            "another result (it was not written by train)",
        ),
        ("config.toml", "# my own", "config.toml, but no finished result"),
    ],
)
def test_what_is_none_of_ours_is_not_overwritten(name, text, said, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_text(text)
    no_training(monkeypatch)
    line = refused([*COMMAND, "--out", str(tmp_path)], capsys)
    assert line.startswith(f"--out: {str(tmp_path)!r} holds ")
    assert said in line
    assert contents(tmp_path) == {name: text.encode()}


def test_overwrite_replaces_a_result_and_leaves_other_files_alone(pair, tmp_path, capsys):
    results.write(tmp_path, pair[0])
    (tmp_path / "notes.txt").write_text("mine")
    command = [*COMMAND, "--lam", "1", "--out", str(tmp_path)]
    assert main([*command, "--overwrite"]) == 0
    found = contents(tmp_path)
    assert set(found) == NAMES | {"notes.txt"}
    assert json.loads(found["results.json"])["runs"][0]["lam"] == 1.0
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # The same again needs no leave, and gives the same.
    assert main(command) == 0
    again = contents(tmp_path)
    for name in ("config.toml", "policies.npz"):
        assert again[name] == found[name]
    capsys.readouterr()
    assert refused([*COMMAND, "--overwrite"], capsys).startswith("--overwrite: ")


def test_what_another_process_wrote_meanwhile_is_not_overwritten(
    pair, tmp_path, monkeypatch, capsys
):
    def trained(*_, **__):
        results.write(tmp_path, pair[0])
        return pair[1]

    monkeypatch.setattr("mirrorax.training.train_request", trained)
    assert main([*COMMAND, "--lam", "1", "--json", "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)["runs"][0]["lam"] == 1.0  # shown all the same
    assert "holds another result (lam is 0.1 there, 1.0 here)" in captured.err
    assert json.loads((tmp_path / "results.json").read_text())["runs"][0]["lam"] == 0.1


class Killed(BaseException):
    """Nothing can be done any more."""


@pytest.mark.usefixtures("_pictures_of_text")
@pytest.mark.parametrize("at", range(11))
def test_files_of_two_results_never_lie_together(pair, at, tmp_path, monkeypatch):
    """Wherever in the exchange the process is killed; at the eleventh move it is over."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, result in ((ours, pair[0]), (theirs, pair[1])):
        folder.mkdir()
        results.write(folder, result)
    old, new = contents(ours), contents(theirs)
    replace, calls = os.replace, []

    def killing(source, target):
        if ours not in (Path(source).parent, Path(target).parent):
            return replace(source, target)
        if len(calls) == at:
            raise Killed
        calls.append(target)
        return replace(source, target)

    monkeypatch.setattr(results.os, "replace", killing)
    if at < 10:
        with pytest.raises(Killed):
            results.write(ours, pair[1])
    else:
        results.write(ours, pair[1])
    found = contents(ours)
    assert len(found) == abs(5 - at)
    assert found.items() <= (old if at < 5 else new).items()
    # The file that says that a result is whole is the first to go and the last to come.
    assert ("results.json" in found) == (len(found) == 5)


@pytest.mark.usefixtures("_pictures_of_text")
@pytest.mark.parametrize("at", range(10))
def test_a_move_that_fails_leaves_the_old_result_whole(pair, at, tmp_path, monkeypatch):
    results.write(tmp_path, pair[0])
    old = contents(tmp_path)
    replace, calls = os.replace, []

    def failing(source, target):
        if tmp_path in (Path(source).parent, Path(target).parent):
            calls.append(target)
            if len(calls) == at + 1:
                raise OSError(5, "Input/output error")
        return replace(source, target)

    monkeypatch.setattr(results.os, "replace", failing)
    with pytest.raises(OSError, match="Input/output"):
        results.write(tmp_path, pair[1])
    assert contents(tmp_path) == old
    assert set(os.listdir(tmp_path)) == NAMES


def test_a_file_that_cannot_be_made_leaves_the_old_result_whole(pair, tmp_path, monkeypatch):
    results.write(tmp_path, pair[0])
    old = contents(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results, "draw_curves", full)
    with pytest.raises(OSError, match="No space"):
        results.write(tmp_path, pair[1])
    assert contents(tmp_path) == old
    assert set(os.listdir(tmp_path)) == NAMES


@pytest.mark.parametrize("where", ["_write_files", "_swap"])
def test_control_c_while_files_are_written_leaves_one_result(pair, where, tmp_path):
    """While they are made the old one stays; while they are moved the process waits for it."""
    trained = pair[1].save(tmp_path / "trained")
    out = tmp_path / "out"
    out.mkdir()
    results.write(out, pair[0])
    old = contents(out)
    code = f"""
import os, signal, sys, time
import mirrorax.training
from mirrorax import cli
from mirrorax.cli import main
from mirrorax.training import folder as results

trained = mirrorax.load({str(trained)!r})
mirrorax.training.train_request = lambda *_, **__: trained

signal.signal(signal.SIGINT, signal.default_int_handler)
cli.PATIENCE_SECONDS = 0.1
work = results.{where}

def slow(*arguments):
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
    work(*arguments)

results.{where} = slow
sys.exit(main({[*COMMAND, "--lam", "1", "--overwrite", "--out", str(out)]!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stderr) == (130, "mirrorax: interrupted\n")
    found = contents(out)
    assert set(os.listdir(out)) == NAMES
    if where == "_write_files":
        assert found == old
    else:
        assert json.loads(found["results.json"])["runs"][0]["lam"] == 1.0
        assert all(found[name] != old[name] for name in NAMES)


def test_a_result_of_names_that_are_not_known_here_is_told_apart(
    pair, tmp_path, monkeypatch, capsys
):
    results.write(tmp_path, pair[0])
    path = tmp_path / "results.json"
    stored = json.loads(path.read_text())
    stored["settings"]["plugins"] = ["mine==sha256-a"]
    path.write_text(json.dumps(stored))
    no_training(monkeypatch)
    line = refused([*COMMAND, "--out", str(tmp_path)], capsys)
    assert '(plugins is ["mine==sha256-a"] there, [] here)' in line


def test_a_saved_result_comes_back_and_every_reader_takes_its_folder(pair, tmp_path):
    result = pair[0]
    loaded = mirrorax.load(result.save(tmp_path / "one"))
    assert loaded.to_dict() == result.to_dict()
    np.testing.assert_array_equal(loaded.policies, result.policies)
    for name, curve in result.curves.items():
        np.testing.assert_array_equal(loaded.curves[name], curve)
    pair[1].save(tmp_path / "two")
    with pytest.raises(UserError, match="holds another result"):
        pair[1].save(tmp_path / "one")
    runs = read_results(tmp_path)  # both folders
    expected = {*result.chunk.ids.tolist(), *pair[1].chunk.ids.tolist()}
    assert set(runs.ids.tolist()) == expected


def test_a_folder_that_cannot_be_looked_into_is_one_line(tmp_path, capsys):
    line = refused([*COMMAND, "--out", str(tmp_path / ("a" * 300))], capsys)
    assert line.startswith("--out: cannot look into ")
    assert line.endswith("File name too long")
