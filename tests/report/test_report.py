from __future__ import annotations

import base64
import html
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import stores
from results import with_curves

import mirrorax
from mirrorax.analysis.landscape import landscapes
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.report import SCRIPTS, build, facts, write
from mirrorax.report.payload import CURVES, as_json, payload
from mirrorax.store import read_results

MADE = "2026-01-01 10:00 UTC"


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def unpack(text: str, kind: str = "<f4") -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def changed(table: pa.Table, name: str, values) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def test_the_page_holds_every_runs_score(small):
    data = data_of(build(small, facts(small, title="t", made=MADE)))
    for item, given in zip(landscapes(small), data["algorithms"], strict=True):
        assert given["label"] == item.label
        assert given["alphas"] == item.alphas.tolist()
        for kind in ("stochastic", "greedy"):
            expected = item.runs(kind).astype(np.float32).ravel()
            np.testing.assert_array_equal(unpack(given[kind]), expected)
    assert [e["label"] for e in data["environments"]] == ["CartPole", "Acrobot"]
    assert data["shared"] == [0, 1]


def test_what_became_of_each_run_is_told_only_where_it_matters(small):
    diverged = np.zeros(small.num_rows, bool)
    diverged[4] = True
    table = changed(small, "diverged", diverged)
    items = landscapes(table)
    data = payload(table, facts(table, title="t", made=MADE))
    for item, given in zip(items, data["algorithms"], strict=True):
        if (item.state == 1).all():
            assert given["state"] is None
        else:
            np.testing.assert_array_equal(unpack(given["state"], "u1"), item.state.ravel())


def test_facts_count_what_there_is(small):
    status = np.array(["done"] * small.num_rows, dtype=object)
    status[:7] = "failed"
    why = np.array([None] * small.num_rows, dtype=object)
    why[:5], why[5:7] = "out of memory", "killed"
    table = changed(changed(small, "status", status), "failure", why.tolist())
    planned = pa.chunked_array([[*table["run_id"].to_pylist(), "one more"]])
    about = facts(table, title="t", made=MADE, planned=planned)
    assert (about["done"], about["failed"]) == (small.num_rows - 7, 7)
    assert (about["planned"], about["reached"]) == (small.num_rows + 1, small.num_rows - 7)
    assert about["failures"] == [("out of memory", 5), ("killed", 2)]
    assert dict(about["versions"])["jax_version"] == ["0.10.2"]
    assert about["core_hours"] == pytest.approx(small.num_rows * 1.5 / 3600)


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "</script><b>a&b\u2028'\"$&",
        "/*STYLE*/ /*SCRIPT*/",
        "<!--DATA--><!--TITLE-->",
    ],
)
def test_text_of_studies_and_stores_cannot_leave_its_place(small, evil):
    host = evil if evil.isprintable() else "host"
    table = changed(small, "host", [host] * small.num_rows)
    page = build(table, facts(table, title=evil, made=MADE, study=evil))
    assert page.count("</script>") == 2  # the data's and the code's own
    assert "<b>" not in page
    assert page.count('"use strict"') == 1
    assert f"<title>{html.escape(evil)}</title>" in page
    data = data_of(page)
    assert data["facts"]["title"] == evil
    assert data["facts"]["study"] == evil
    assert dict(data["facts"]["versions"])["host"] == [host]


def test_json_inside_a_script_has_no_dangerous_character():
    text = as_json({"a": "<>&\u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "<>&\u2028\u2029"}


def test_the_page_asks_for_nothing_from_outside(small):
    page = build(small, facts(small, title="t", made=MADE))
    assert "default-src 'none'" in page
    code = page[page.rindex("<script>") :]
    for word in (
        "http://",
        "https://",
        "fetch(",
        "XMLHttpRequest",
        "import(",
        "eval(",
        "innerHTML",
    ):
        found = code.replace("http://www.w3.org/2000/svg", "")
        assert word not in found, word


def test_every_part_of_the_page_is_used():
    folder = Path(mirrorax.__file__).parent / "report" / "page"
    assert {path.name for path in folder.iterdir()} == {*SCRIPTS, "index.html", "style.css"}


def test_learning_curves_are_put_with_their_runs(small):
    rng = np.random.default_rng(0)
    picked = rng.permutation(small.num_rows)[:200]
    values = rng.random((200, 3)) * 100
    returns = [None] * small.num_rows
    for row, points in zip(picked, values.tolist(), strict=True):
        returns[row] = points
    kept = with_curves(small, returns, [10.0, 20.0, 30.0])
    data = payload(kept, facts(kept, title="t", made=MADE))
    ids = small["run_id"].to_pylist()
    where = {ids[row]: k for k, row in enumerate(picked)}
    for item, given in zip(landscapes(small), data["algorithms"], strict=True):
        assert given["curve"]["x"] == [10.0, 20.0, 30.0]
        y = unpack(given["curve"]["y"]).reshape(*item.rows.shape, 3)
        for index in np.ndindex(item.rows.shape):
            environment = item.environments[index[2]]
            k = where.get(ids[item.rows[index]])
            if k is None:
                assert np.isnan(y[index]).all()
            else:
                scale = environment.return_max - environment.return_min
                expected = (values[k] - environment.return_min) / scale
                np.testing.assert_allclose(y[index], expected, rtol=1e-5)


def test_too_many_curves_are_left_out_and_that_is_said(small):
    wide = [[0.0] * (CURVES // small.num_rows + 2)] * small.num_rows
    kept = with_curves(small, wide, wide[0])
    data = payload(kept, facts(kept, title="t", made=MADE))
    assert data["curves_left_out"]
    assert all(given["curve"] is None for given in data["algorithms"])


def test_seeds_are_named_where_they_are_not_zero_to_n(small):
    about = facts(small, title="t", made=MADE)
    assert payload(small, about)["algorithms"][0]["seed_names"] is None
    table = changed(small, "seed", small["seed"].to_numpy() + 100)
    names = unpack(payload(table, about)["algorithms"][0]["seed_names"], "<i4")
    assert sorted(set(names.tolist())) == [100, 101, 102]
    table = changed(small, "seed", small["seed"].to_numpy() + 3_000_000_000)
    names = payload(table, about)["algorithms"][0]["seed_names"]
    assert sorted(set(names)) == ["3000000000", "3000000001", "3000000002"]


def test_algorithms_without_a_common_environment_still_make_a_page(synthetic, rng):
    grid = np.array([0.0, 0.1])
    a = synthetic.block({}, "Catch", grid, grid, 2, rng)
    b = synthetic.block({"drift": "forward_kl"}, "DeepSea", grid, grid, 2, rng)
    table = pa.concat_tables([a, b])
    assert payload(table, facts(table, title="t", made=MADE))["shared"] == []


def test_settings_without_a_common_cell_are_shown_one_after_the_other(synthetic, rng):
    """First the group with the most pairs times common cells, each ranked by itself."""
    grids = np.array([0.01, 0.1]), np.array([1.0, 10.0])
    blocks = []
    for grid, steps, drifts in ((0, 1_000, ("kl",)), (1, 2_000, ("kl", "forward_kl"))):
        for drift in drifts:
            settings = {"drift": drift, "steps": steps}
            blocks.append(synthetic.block(settings, "Catch", grids[grid], grids[grid], 2, rng))
    table = pa.concat_tables(blocks)
    data = payload(table, facts(table, title="t", made=MADE))
    assert [len(group["algorithms"]) for group in data["groups"]] == [2, 1]
    assert data["groups"][0]["name"].startswith("2 pairs: ")
    assert data["groups"][0]["headline"][0].startswith("Most robust of 2 pairs: (entropy, ")
    assert "1 more group" in data["groups"][0]["headline"][-1]
    for group, steps in zip(data["groups"], ("2000", "1000"), strict=True):
        assert {dict(a["settings"])["steps"] for a in group["algorithms"]} == {steps}
    page = build(table, facts(table, title="t", made=MADE))
    assert set(data_of(page)) == {"groups"}


def test_settings_without_a_common_environment_are_shown_one_after_the_other(synthetic, rng):
    grid = np.array([0.01, 0.1])
    blocks = [
        synthetic.block({"drift": "kl"}, "Catch", grid, grid, 2, rng),
        synthetic.block({"drift": "forward_kl"}, "Catch", grid, grid, 2, rng),
        synthetic.block({"steps": 2_000}, "DeepSea", grid, grid, 2, rng),
    ]
    table = pa.concat_tables(blocks)
    data = payload(table, facts(table, title="t", made=MADE))
    assert [len(group["algorithms"]) for group in data["groups"]] == [2, 1]
    assert "2 pairs: (entropy, " in data["groups"][0]["headline"][0]


def test_the_published_results_begin_with_the_reading_that_has_the_most_to_compare():
    runs = read_results(Path(__file__).parents[2] / "results" / "paper")
    groups = payload(runs, facts(runs, title="t", made=MADE))["groups"]
    first = groups[0]
    cells = [set(itertools.product(a["alphas"], a["lams"])) for a in first["algorithms"]]
    pairs = {
        tuple(dict(a["settings"])[name] for name in ("potential", "drift"))
        for a in first["algorithms"]
    }
    assert set.intersection(*cells)
    noun = "pairs" if len(pairs) == len(cells) else "algorithms"
    assert first["name"].startswith(f"{len(cells)} {noun}: ")
    assert f" {noun}" in first["headline"][0]
    assert len(pairs) >= 11


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    path = write("old", tmp_path / "report.html")
    write("new", path)
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(UserError, match="out: cannot write"):
        write("x", tmp_path / "no" / "report.html")
    with pytest.raises(UserError, match=r"out: cannot write .* Is a directory"):
        write("x", tmp_path)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match=r"cannot write .*: No space left"):
        write("x", tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


# The command, on a real store.


@pytest.fixture
def store(small, tmp_path):
    folder = tmp_path / "runs"
    stores.fill(folder, small.slice(0, 200))
    stores.fill(folder, small.slice(200))
    return folder


def test_the_command_makes_a_page(store, small, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert main(["report", "--store", str(store), "--out", str(out), "--title", "Mine"]) == 0
    data = data_of(out.read_text(encoding="utf-8"))
    assert data["facts"]["title"] == "Mine"
    assert data["facts"]["done"] == small.num_rows
    assert len(data["algorithms"]) == 2
    *finding, last = capsys.readouterr().out.splitlines()
    assert finding == data["headline"]
    assert f"{small.num_rows} runs" in last


def test_a_damaged_shard_is_named_and_left_out(store, tmp_path, capsys):
    shard = sorted((store / "shards").iterdir())[0]
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0xFF
    shard.write_bytes(bytes(data))
    out = tmp_path / "report.html"
    assert main(["report", "--store", str(store), "--out", str(out)]) == 0
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert shard.name in error
    assert data_of(out.read_text(encoding="utf-8"))["facts"]["done"] > 0


def test_open_shows_it(store, tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    out = tmp_path / "report.html"
    assert main(["report", "--store", str(store), "--out", str(out), "--open"]) == 0
    assert shown == [out.as_uri()]


def test_watch_builds_again_when_the_store_grows(store, small, tmp_path, monkeypatch, capsys):
    out = tmp_path / "report.html"
    more = changed(small, "steps", np.full(small.num_rows, 5))
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 2:
            stores.fill(store, more)
        if len(naps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", nap)
    code = main(["report", "--store", str(store), "--out", str(out), "--watch", "--every", "3"])
    assert code == 130
    assert naps == [3.0] * 4
    data = data_of(out.read_text(encoding="utf-8"))
    assert len(data["algorithms"]) == 4
    assert data["facts"]["refresh"] == 3
    assert capsys.readouterr().out.count("MB") == 2  # built twice, not at every look


def test_watch_goes_on_after_a_round_that_failed(store, small, tmp_path, monkeypatch, capsys):
    from mirrorax.figures import gallery

    naps, rounds = [], []

    def nap(seconds):
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt
        more = changed(small, "steps", np.full(small.num_rows, len(naps)))
        stores.fill(store, more)

    def draw(*args, **kwargs):
        rounds.append(len(naps))
        raise UserError("environments: none in common")

    monkeypatch.setattr("time.sleep", nap)
    monkeypatch.setattr(gallery, "gallery", draw)
    where = ["--store", str(store), "--out", str(tmp_path / "report.html")]
    figures = ["--figures", str(tmp_path / "figures")]
    assert main(["report", *where, *figures, "--watch", "--every", "3"]) == 130
    assert rounds == [0, 1, 2]
    captured = capsys.readouterr()
    assert captured.err.count("mirrorax: note: environments: none in common") == 3
    assert captured.out.count("MB") == 3
    assert main(["report", *where, *figures]) == 2  # once only: an error


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--every", "0", "--watch"], "--every: 0 is not allowed: a finite number > 0"),
        (["--title", "a\udcff"], "bytes that are not UTF-8"),
        (["--figures", "file/figures"], "figures: cannot make file/figures"),
        (["--reference", "none.toml"], "none.toml: cannot read it"),
        (["--out", "no/where.html"], "--out: cannot write 'no/where.html': No such"),
    ],
)
def test_a_mistake_is_one_line(store, tmp_path, capsys, monkeypatch, flags, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert main(["report", "--store", str(store), "--out", "r.html", *flags]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"file", "runs"}  # nothing was written


def test_a_store_that_is_not_there(tmp_path, capsys):
    code = main(["report", "--store", str(tmp_path / "none"), "--out", str(tmp_path / "r.html")])
    assert code == 2
    assert capsys.readouterr().err.count("\n") == 1
