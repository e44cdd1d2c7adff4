from __future__ import annotations

from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
import stores
from results import with_curves

from mirrorax.analysis.landscape import landscapes
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.figures import gallery
from mirrorax.figures.curves import learning_curve


@pytest.mark.usefixtures("coarse")
def test_everything_a_store_has_data_for_is_drawn(synthetic, rng, tmp_path):
    alphas, lams = np.array([0.0, 0.003, 0.03, 0.3]), np.array([0.0, 0.1, 5.0, 100.0])
    table = synthetic.study(
        [{}, {"alpha_schedule": "learned"}],
        rng,
        environments=("CartPole", "Catch"),
        alphas=alphas,
        lams=lams,
        seeds=2,
    )
    scaled = [
        synthetic.block({}, name, alphas, lams, 2, rng, reward_scale=s)
        for name in ("CartPole", "Catch")
        for s in (0.1, 2.0)
    ]
    files, skipped = gallery.gallery(
        pa.concat_tables([table, *scaled]), tmp_path / "figures", formats=["png"]
    )
    names = {path.name for path in files}
    assert all(path.stat().st_size > 0 for path in files)
    tables = {f"robustness.{suffix}" for suffix in ("txt", "md", "csv", "json")}
    assert tables <= names
    assert {"landscape_01.png", "environments_02.png", "frequency.png", "best.png"} <= names
    minimal = {name.rsplit("_", 1)[0] for name in names if name.startswith("minimal")}
    assert minimal == {
        f"minimal_{t}_{name}" for t in ("alpha", "lam") for name in ("CartPole", "Catch")
    }
    assert len(files) == len(names)  # none is written over another
    assert skipped == []


def test_a_gallery_needs_a_folder_it_can_make(small, rng, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="figures: cannot make"):
        gallery.gallery(small, tmp_path / "file" / "figures")


def test_a_figure_that_cannot_be_written_is_one_line(small, rng, tmp_path):
    (tmp_path / "robustness.txt").mkdir()
    with pytest.raises(UserError, match=r"figures: cannot write to .*: Is a directory"):
        gallery.gallery(small, tmp_path)


@pytest.mark.usefixtures("coarse")
def test_the_command_writes_figures_too(small, tmp_path, capsys, monkeypatch):
    every = gallery._pictures
    monkeypatch.setattr(gallery, "_pictures", lambda source: islice(every(source), 1))
    stores.fill(tmp_path / "runs", small)
    where = ["--store", str(tmp_path / "runs"), "--out", str(tmp_path / "r.html")]
    assert main(["report", *where, "--figures", str(tmp_path / "figures")]) == 0
    assert "files" in capsys.readouterr().out
    written = {path.suffix for path in (tmp_path / "figures").glob("best.*")}
    assert written == {".png", ".svg", ".pdf"}


def test_learning_curves_come_from_the_store(small, rng):
    values = rng.random((small.num_rows, 3)) * 100
    item = landscapes(with_curves(small, values.tolist(), [1.0, 2.0, 3.0]))[0]
    got = learning_curve(item, alpha=0.03, lam=5.0, environment="Acrobot")
    assert got.steps.tolist() == [256.0, 512.0, 768.0]
    rows = [
        k
        for k, row in enumerate(small.to_pylist())
        if (row["alpha"], row["lam"], row["environment"]) == (0.03, 5.0, "Acrobot")
        and row["drift"] == item.settings["drift"]
    ]
    np.testing.assert_allclose(got.scores, (values[rows] + 500) / 425)
    with pytest.raises(UserError, match=r"no cell \(0\.5, 5\)"):
        learning_curve(item, alpha=0.5, lam=5.0, environment="Acrobot")
    few = [values[0].tolist(), *[None] * (small.num_rows - 1)]
    for none in (landscapes(small)[0], landscapes(with_curves(small, few, [1.0, 2.0, 3.0]))[0]):
        with pytest.raises(UserError, match="this cell's runs have none"):
            learning_curve(none, alpha=0.03, lam=5.0, environment="Acrobot")
