"""`mirrorax solve` as a person runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mirrorax.cli import main
from mirrorax.tabular import deepsea, solve


def test_the_table_and_the_picture(tmp_path, capsys):
    picture = tmp_path / "gap.png"
    code = main(
        ["solve", "--mdp", "deepsea", "--size", "5", "--iterations", "12", "--plot", str(picture)]
    )
    assert code == 0
    out = capsys.readouterr().out
    assert "DeepSea 5: PMD(entropy, kl), alpha 0.01, lam 0.1" in out
    trace = solve(deepsea(5), iterations=12)
    assert f"{trace.gap[12]:.3e}" in out
    assert f"theory promises at most {float(trace.promised_rate):.4f}" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [picture]


def test_json_is_the_whole_output(capsys):
    arguments = ["--potential", "lp(2)", "--drift", "forward_kl", "--alpha", "0.2", "--lam", "0.5"]
    assert main(["solve", "--size", "4", "--iterations", "7", *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    trace = solve(deepsea(4), "lp(2)", "forward_kl", 0.2, 0.5, 7)
    np.testing.assert_allclose(result["gap"], trace.gap)
    assert result["promised_rate"] is None
    assert result["potential"] == "lp(2)"


@pytest.mark.parametrize(
    ("mdp", "extra"),
    [("catch", []), ("chain", ["--critic", "unregularized"]), ("garnet", ["--anneal-alpha"])],
)
def test_every_mdp(mdp, extra, capsys):
    assert main(["solve", "--mdp", mdp, "--iterations", "3", *extra]) == 0
    assert "gap to optimum" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--alpha", "-1"], ["--alpha", "-1", ">= 0"]),
        (["--gamma", "1"], ["--gamma", "1", ">= 0 and < 1"]),
        (["--iterations", "0"], ["--iterations", "0", ">= 1"]),
        (["--potential", "entrpy"], ["--potential", "'entrpy'", "'entropy'"]),
        (["--mdp", "chess"], ["--mdp", "chess", "deepsea"]),
        (["--columns", "4"], ["--columns", "4", "deepsea", "--size"]),
        (["--size", "1"], ["size", "1", "at least 2"]),
        (["--size", "1000"], ["GB"]),
        (["--plot", "gap.jpeg"], ["--plot", "gap.jpeg", ".png"]),
        (["--plot", "no/such/folder/gap.png"], ["--plot", "no/such/folder"]),
        (["--seed", "-1"], ["--seed", "-1", ">= 0"]),
        (["--mdp", "garnet", "--branching", "50"], ["branching", "50", "20"]),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_two(arguments, parts, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["solve", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mirrorax: error: ")
    assert captured.err.count("\n") == 1
    for part in parts:
        assert part in captured.err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_is_answered_with_a_guess(capsys):
    assert main([]) == 2
    assert main(["solv"]) == 2
    assert "did you mean 'solve'" in capsys.readouterr().err
