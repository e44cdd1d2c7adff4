"""The figures of the paper, and the page that shows them."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from paper_worlds import as_the_paper_says, world
from stores import fill

from mirrorax.cli import main
from mirrorax.figures.heatmap import HeatMap, draw_panel, edges
from mirrorax.figures.style import PAGE, new
from mirrorax.paper import (
    catalogue,
    drawing,
    report,
    table_2,
)
from mirrorax.paper.collection import collect
from mirrorax.paper.matrix import judge
from mirrorax.paper.panels import FIGURES
from mirrorax.paper.runs import ReadingRuns
from mirrorax.store import read_results


@pytest.mark.usefixtures("coarse")
def test_figure_4_draws_the_temperature_whose_strips_are_there(strips, tmp_path):
    figure = next(figure for figure in FIGURES if figure.name == "Figure 4")
    part = strips.filter(pc.less_equal(strips["lam"], 1e-3))
    found = drawing.draw(figure, ReadingRuns(part), tmp_path)
    assert {path.name for path in found.files} >= {"figure_4_linear.png", "figure_4_linear.pdf"}
    assert found.runs == 29 * 3 * 11 * 2
    assert found.missing[0] == "maximum return 1000 (lambda)"
    # Another report in the same folder has no runs for it: the old picture goes.
    other = strips.filter(pc.equal(strips["reward_scale"], 1.0))
    found = drawing.draw(figure, ReadingRuns(other), tmp_path)
    assert found.files == ()
    assert list(tmp_path.iterdir()) == []


def test_table_2_is_the_papers_and_the_presets():
    shown = {row[0]: row[1:] for row in table_2.rows(ReadingRuns(world_of_one()).expected)}
    assert len(shown) == 11
    assert shown["Learning rates"] == ("0.0025", "0.0025")
    assert shown["Total environment steps"] == (
        "10^6",
        "16,000,000 in all, 10^6 in each environment",
    )
    for name in ("Number of environments", "Train batch size", "Critic update epochs"):
        assert shown[name][0] == shown[name][1]
    assert shown["Replay buffer size"] == ("10^5", "100000")


def world_of_one():
    study = catalogue.make(["baseline"], "reduced", seeds=1)
    return world(study, as_the_paper_says, np.random.default_rng(0))


@pytest.mark.usefixtures("coarse")
def test_maps_of_strips_and_of_whole_grids_stand_on_their_own_axes(faithful, tmp_path):
    figure = next(figure for figure in FIGURES if figure.name == "Figure 14")
    seen = []

    def spy(maps, drawing, columns):
        axes = draw_panel(maps, drawing, columns=columns)
        drawing.canvas.draw()
        seen.append((maps, [ax.get_ylim() for ax in axes]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw_panel", spy)
        drawing.draw(figure, ReadingRuns(faithful), tmp_path)
    ((maps, limits),) = seen
    for one, (low, high) in zip(maps, limits, strict=True):
        assert len(one.alphas) == 29
        assert (low, high) == (edges(one.alphas)[0], edges(one.alphas)[-1])
    uneven = [maps[0], HeatMap(maps[0].scores[:5], maps[0].alphas[:5], maps[0].lams, "", "alpha")]
    figure, _ = new(PAGE, 3.0)
    figure.clear()
    tops = [ax.get_ylim()[1] for ax in draw_panel(uneven, figure)]
    assert tops == [edges(one.alphas)[-1] for one in uneven]


@pytest.mark.usefixtures("coarse")
def test_the_report_draws_what_is_there_and_names_what_is_not(tmp_path, capsys, monkeypatch):
    chosen = ("Figure 1a", "Figure 1b", "Figure 1c", "Table 1", "Figure 6")
    monkeypatch.setattr(report, "FIGURES", [f for f in FIGURES if f.name in chosen])
    study = catalogue.make(["baseline"], "reduced")
    store = tmp_path / "store"
    fill(store, world(study, as_the_paper_says, np.random.default_rng(5)))
    out = tmp_path / "out"
    assert main(["paper", "report", "--store", str(store), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "(2a)" in printed
    assert "not enough runs for Figure 1b, Figure 1c" in printed
    names = {path.name for path in out.iterdir()}
    assert {"index.html", "comparison.md", "figure_1a.png", "figure_6.pdf", "table_1.md"} <= names
    assert "figure_1b.png" not in names
    page = (out / "index.html").read_text()
    assert (
        "512 of the paper&#x27;s 504,600 runs" in page or "512 of the paper's 504,600 runs" in page
    )
    assert "reduced: 8 x 8 of 29 x 29 cells, 2 of 5 seeds" in page
    listed = json.loads((out / "comparison.json").read_text())
    again = judge(ReadingRuns(read_results(store, "store")), np.random.default_rng(0))
    assert [claim["interval"] for claim in listed] == [claim.interval for claim in again]
    assert {claim["number"] for claim in listed} >= {"1a", "1b", "2a", "7"}


def test_the_page_says_how_many_runs_each_commit_made():
    commits = pa.array(["a" * 40, "b" * 40, "b" * 40])
    table = pa.table(
        {
            "mirrorax_version": ["0.1.0"] * 3,
            "commit": commits,
            "jax_version": ["0.10.2"] * 3,
            "device": ["cpu:cpu"] * 3,
            "dirty": [False] * 3,
        }
    )
    made = report._where(table)
    assert f"commit {'b' * 12} (2 runs), {'a' * 12} (1 run); jax 0.10.2;" in made


def test_exports_are_read_as_well(tmp_path):
    study = catalogue.make(["catch"], "reduced")
    fill(tmp_path / "store", world(study, as_the_paper_says, np.random.default_rng(6)))
    places = ["--store", str(tmp_path / "store"), "--to", str(tmp_path / "catch.parquet")]
    assert main(["sweep", "export", *places]) == 0
    (runs,) = collect(tmp_path / "catch.parquet").runs.values()
    assert runs.count == 2 * 64 * 2
    assert runs.on_grid(next(f for f in FIGURES if f.name == "Figure 1b").panels[0]) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--store", "{}/absent", "--out", "{}/o"], "does not exist"),
        (["report", "--store", "{}", "--out", "{}/o"], "is not a store"),
        (["run", "baselin", "--scale", "full", "--store", "{}/s"], "baseline"),
    ],
)
def test_mistakes_are_one_line(tmp_path, capsys, arguments, message):
    assert main(["paper", *(word.format(tmp_path) for word in arguments)]) == 2
    out = capsys.readouterr()
    assert message in out.err
    assert out.err.count("\n") == 1


def test_every_figure_knows_its_runs():
    by_name = {figure.name: figure for figure in FIGURES}
    assert by_name["Figure 1a"].runs == 4 * 4205
    assert by_name["Table 1"].runs == by_name["Figure 2"].runs == 11 * 4 * 4205
    assert by_name["Figure 3"].runs == 16 * 4 * 4205
    assert by_name["Figure 4"].runs == 11 * 4205
    # Together they need every study of the paper, and no other.
    assert {name for figure in FIGURES for name in figure.studies} == set(catalogue.NAMES)
