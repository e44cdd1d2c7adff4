"""The command that prints the robustness table."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
import stores
from results import REFERENCE

from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.scores import cell_scores, rbst
from mirrorax.cli import main
from mirrorax.store import read_results


@pytest.fixture(scope="module")
def store(full, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store") / "runs"
    stores.fill(folder, full)
    return str(folder)


def test_the_command_prints_the_table(store, full, capsys):
    assert main(["robustness", "--store", store, "--format", "json", "--thresholds", "0.5"]) == 0
    first = capsys.readouterr().out
    data = json.loads(first)
    item = next(x for x in landscapes(full) if x.label == "(entropy, kl)")
    expected = rbst(cell_scores(item.runs())[1:, 1:], 0.5)
    row = next(row for row in data["rows"] if row["label"] == "(entropy, kl)")
    assert row["thresholds"][0]["rbst"] == pytest.approx(expected)
    assert main(["robustness", "--store", store, "--format", "json", "--thresholds", "0.5"]) == 0
    assert capsys.readouterr().out == first  # seeded


def test_the_command_puts_a_reference_beside_it(store, tmp_path, capsys):
    (tmp_path / "mine.toml").write_text(REFERENCE)
    for name, wanted in (("paper", 0.1403), (str(tmp_path / "mine.toml"), 0.14)):
        assert main(["robustness", "--store", store, "--format", "json", "--reference", name]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        row = next(row for row in rows if row["label"] == "(entropy, bregman(max))")
        assert row["reference_label"] == "A"
        assert row["thresholds"][0]["reference"] == wanted
    assert main(["robustness", "--store", store]) == 0
    assert "ours -" not in capsys.readouterr().out


def test_a_study_that_is_not_done_is_said_in_every_format(store, full, monkeypatch, capsys):
    done = read_results(store).rows["run_id"]
    ids = [*done.to_pylist(), *(f"{k:032x}" for k in range(100))]
    known = SimpleNamespace(run_ids=pa.chunked_array([ids]))
    monkeypatch.setattr("mirrorax.store.reading.latest_study", lambda root: known)
    for form in ("text", "markdown", "csv", "json"):
        assert main(["robustness", "--store", store, "--format", form]) == 0
        line = f"the recorded study has {len(ids)} runs, {full.num_rows} of them are done"
        assert line in capsys.readouterr().out
    known.run_ids = done
    assert main(["robustness", "--store", store]) == 0
    assert "recorded study" not in capsys.readouterr().out


def test_settings_that_cannot_be_compared_are_named_and_left_out(capsys):
    """The published study of eight drifts, beside one of MinAtar with another network."""
    results = str(Path(__file__).parents[2] / "results" / "on_policy")
    assert main(["robustness", results, "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert len(summary["rows"]) == 8
    assert summary["environments"] == ["CartPole", "Acrobot", "Catch", "DeepSea"]
    (note,) = (each for each in summary["notes"] if "not shown" in each)
    assert "these are 8 pairs: usual settings; not shown: 1 pair: " in note
    assert main(["robustness", results, "--environments", "Breakout-MinAtar"]) == 0
    assert "Breakout-MinAtar" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--thresholds", "1.2"], "threshold: 1.2 is not in [0, 1)"),
        (["--environments", "Catchy"], "environment: unknown value 'Catchy'"),
        (["--reference", "none.toml"], "none.toml: cannot read it"),
        (["--format", "yaml"], "invalid choice: 'yaml'"),
    ],
)
def test_a_mistake_is_one_line(store, capsys, flags, line):
    assert main(["robustness", "--store", store, *flags]) == 2
    captured = capsys.readouterr()
    assert line in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
