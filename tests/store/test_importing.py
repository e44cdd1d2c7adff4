"""Exported runs put back into a store: nothing is lost, nothing altered passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stores import made_outcome, of_configuration

from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.runs import arrow, flat
from mirrorax.spec.study import expand, parse
from mirrorax.store import read_results
from mirrorax.store.exporting import export, import_runs, load
from mirrorax.store.store import Store

RUNS = expand(
    parse(
        'environments = ["CartPole", { name = "Catch", reward_scale = 0.5 }]\n'
        'pairs = [["entropy", "kl"]]\n'
        'schedules = [["constant", "linear"], ["learned", "constant"]]\n'
        "alpha = [0.0, 0.1]\nw = 0.5\nlam = [0.1, 1.0]\nseeds = 3\n"
    )
)


def fill(root, configurations, shift=0.0, **fields):
    with Store(root) as store:
        for which in configurations:
            runs = of_configuration(RUNS, which)
            store.commit(made_outcome(runs, shift, **fields).to_bytes())
    return root


def everything(place):
    return load(place, "all")


@pytest.fixture
def exported(tmp_path):
    target = tmp_path / "runs.parquet"
    export(fill(tmp_path / "store", range(len(RUNS.configurations))), target)
    return target


def test_what_was_exported_comes_back_whole(tmp_path, exported):
    assert import_runs(tmp_path / "new", exported) == (len(RUNS), len(RUNS))
    assert everything(tmp_path / "new").equals(everything(tmp_path / "store"))
    assert import_runs(tmp_path / "new", exported) == (0, len(RUNS))


def test_results_are_read_however_deep_their_folder(tmp_path):
    place = tmp_path / "results"
    (place / "first" / "inner").mkdir(parents=True)
    export(fill(tmp_path / "one", [0]), place / "first" / "inner" / "runs.parquet")
    fill(place / "second", [1])
    both = len(of_configuration(RUNS, 0)) + len(of_configuration(RUNS, 1))
    assert len(read_results(place)) == both


def test_returns_that_are_not_numbers_come_back_too(tmp_path):
    runs = of_configuration(RUNS, 0)
    wrong = np.full((len(runs), 2), np.nan)
    with Store(tmp_path / "store") as store:
        store.commit(replace(made_outcome(runs), returns=wrong).to_bytes())
    export(tmp_path / "store", tmp_path / "runs.parquet")
    returns = read_results(tmp_path / "runs.parquet").rows["returns"]
    np.testing.assert_array_equal(arrow.read_lists(returns)[0], wrong)


def test_stores_of_two_machines_are_joined_and_the_first_result_stands(tmp_path, exported):
    other = fill(tmp_path / "other", [0], shift=1000.0)
    before = everything(other)
    new, total = import_runs(other, exported)
    assert (new, total) == (len(RUNS) - len(before), len(RUNS))
    after = {row["run_id"]: row for row in everything(other).to_pylist()}
    assert len(after) == len(RUNS)
    for row in before.to_pylist():
        assert after[row["run_id"]]["returns"] == row["returns"]


def test_an_export_can_hold_the_runs_of_one_study_alone(tmp_path):
    store = fill(tmp_path / "store", range(len(RUNS.configurations)))
    text = (
        'environments = ["CartPole", "Acrobot"]\npairs = [["entropy", "kl"]]\n'
        'lam_schedule = "linear"\nalpha = 0.1\nlam = [0.1, 1.0]\nseeds = 2\n'
    )
    study = tmp_path / "study.toml"
    study.write_text(text)
    target = tmp_path / "some.parquet"
    flags = ["--store", str(store), "--study", str(study), "--to", str(target)]
    assert main(["sweep", "export", *flags]) == 0
    table = read_results(target).table()
    rows_ = table.select(["environment", "alpha", "lam", "seed"]).to_pylist()
    found = sorted((r["environment"], r["alpha"], r["lam"], r["seed"]) for r in rows_)
    assert found == [("CartPole", 0.1, lam, seed) for lam in (0.1, 1.0) for seed in (0, 1)]


def test_a_folder_of_files_is_one_table_with_each_run_once(tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    export(fill(tmp_path / "a", [0, 1]), folder / "a.parquet")
    export(fill(tmp_path / "b", [1, 2]), folder / "b.parquet")
    table = load(folder)
    wanted = RUNS.ids[RUNS.configuration < 3].astype(str)
    assert table["run_id"].to_pylist() == sorted(wanted)


def test_a_result_whose_settings_were_changed_is_refused_and_nothing_is_written(tmp_path, exported):
    table = arrow.decode(exported.read_bytes())
    alpha = [0.2 if value == 0.1 else value for value in table["alpha"].to_pylist()]
    index = table.column_names.index("alpha")
    exported.write_bytes(arrow.encode(table.set_column(index, "alpha", pa.array(alpha))))
    with pytest.raises(UserError, match="is not that of its settings"):
        import_runs(tmp_path / "new", exported)
    assert not (tmp_path / "new").exists()


def test_plain_columns_that_were_changed_are_refused(tmp_path, exported):
    table = arrow.decode(exported.read_bytes())
    index = table.column_names.index("environment")
    other = pa.array(["Acrobot"] * len(table))
    exported.write_bytes(arrow.encode(table.set_column(index, "environment", other)))
    with pytest.raises(UserError, match="'environment' does not agree with the runs' settings"):
        read_results(exported)


def test_what_is_no_export_is_named(tmp_path, exported, capsys):
    wrong = tmp_path / "wrong.parquet"
    pq.write_table(pa.table({"x": [1]}), wrong)
    damaged = tmp_path / "damaged.parquet"
    column = pq.read_metadata(exported).row_group(0).column(0)
    start = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    data = bytearray(exported.read_bytes())
    data[start + column.total_compressed_size - 1] ^= 4  # the last byte of its last page
    damaged.write_bytes(data)
    for source, reason in (
        (wrong, "no column of run ids"),
        (damaged, "not readable"),
        (tmp_path / "absent", "does not exist"),
    ):
        code = main(["sweep", "import", "--store", str(tmp_path / "s"), "--from", str(source)])
        out = capsys.readouterr()
        assert code == 2
        assert reason in out.err
        assert out.err.count("\n") == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("scale", [0.1, 0.286, 2.0, 1 / 3])
def test_bounds_of_rescaled_rewards_come_back_to_the_last_bit(scale):
    scaled = np.array([scale * 500.0, scale * -75.0, np.nan])
    table = pa.table({"return_max": scaled})
    unscaled = flat._unscaled(table, "return_max", pa.chunked_array([[scale] * 3]))
    assert [value * scale for value in unscaled.to_pylist()[:2]] == scaled[:2].tolist()
    assert unscaled.to_pylist()[2] is None
