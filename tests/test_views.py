"""What people see and keep in Python: short reprs, tables, pictures, files that come back."""

import base64
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import tiny

import mirrorax
from mirrorax import tabular
from mirrorax.analysis.summary import summarise
from mirrorax.errors import UserError
from mirrorax.figures.frequency import frequency_curve
from mirrorax.figures.heatmap import heat_map
from mirrorax.runs.chunk import Outcome
from mirrorax.store import read_results
from mirrorax.tuning import evidence

ROOT = Path(__file__).parents[1]
SMALL = {**tiny.TINY, "lanes": 4}


@pytest.fixture(scope="module", autouse=True)
def _no_window():
    plt.switch_backend("agg")


@pytest.fixture(scope="module")
def result():
    return mirrorax.train("Catch", alpha=[0.01, 0.1], seeds=2, steps=320, curve_points=2, **SMALL)


@pytest.fixture(scope="module")
def trace():
    return tabular.solve(tabular.chain(5), iterations=8)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    study = mirrorax.Study.of(
        name="from Python",
        environments=["Catch"],
        pairs=[["entropy", "kl"]],
        alpha=np.array([0.01, 0.1]),
        lam={"log": [0.1, 1.0], "points": 2},
        seeds=1,
        steps=320,
        eval_every=4,
        **{**tiny.TINY, "hidden": [8]},
    )
    place = tmp_path_factory.mktemp("sweep") / "store"
    summary = mirrorax.sweep(study, place, workers=1, progress=False)
    assert (summary.done, summary.failed) == (4, 0)
    return study, place, summary


@pytest.fixture(scope="module")
def item(store):
    (item,) = mirrorax.landscapes(store[1])
    return item


@pytest.fixture(scope="module")
def search(tmp_path_factory):
    """A search, and the store that keeps its runs."""
    place = tmp_path_factory.mktemp("search") / "store"
    options = {"budget": 32, "workers": 0, "steps": 320, "store": place}
    return mirrorax.tune("Catch(4x3)", ["entropy", "max"], "kl", **options, **SMALL), place


def test_a_study_built_in_python_runs_and_resumes(store):
    study, place, _ = store
    assert mirrorax.load(place).num_rows == 4
    again = mirrorax.sweep(study, place, workers=1, progress=False)
    assert (again.done, again.total) == (4, 4)
    with pytest.raises(UserError, match="workers: 0"):
        mirrorax.sweep(study, place, workers=0)
    with pytest.raises(UserError, match="pairs"):
        mirrorax.Study.of(environments=["Catch"], pairs=[["entropy", "k1"]], alpha=0.1, lam=0.1)


def test_everything_is_shown_in_a_few_lines(result, trace, item, store, search):
    for value in (result, trace, item, search[0], store[0]):
        assert len(repr(value).splitlines()) <= 9
        assert len(repr(value)) < 700
        assert value._repr_html_().count("<tr>") == len(repr(value).splitlines()) - 1
    assert f"{result.mean:.3f}" in repr(result)
    assert f"{trace.gap[-1]:.3e}" in repr(trace)
    assert f"{item.runs().max():.3f}" in repr(item)
    assert "2 alpha x 2 lam" in repr(item)
    assert f"{search[0].mean:.3f}" in repr(search[0])
    assert "from Python, 4 runs" in repr(store[0])


def test_every_other_public_object_is_shown_in_a_few_lines(result, trace, item, store, search):
    board = tabular.chain(50)
    others = [
        Outcome.failed(result.chunk, "no memory", {}),
        *(result.chunk, result.settings, result.runs[0]),
        *(result.sessions[0], board, trace.optimum, search[0].record),
        tabular.evaluate(board, tabular.uniform_policy(board)),
        mirrorax.suggest("CartPole"),
        evidence.of_results(),
        evidence.of_results().maps[0],
        mirrorax.check_potential("entropy"),
        mirrorax.check_environment("Catch"),
        summarise([item]),
        heat_map(item),
        frequency_curve("entropy", item.runs()),
        read_results(store[1]),
        store[2],
    ]
    for value in others:
        assert len(repr(value)) < 900, repr(value)
        assert len(repr(value).splitlines()) <= 9, repr(value)
    assert "rewards=float64[50, 2]" in repr(board)
    assert "<td>rewards</td>" in board._repr_html_()
    # Settings name what is not at its default, and nothing else.
    assert "hidden=(8,)" in repr(result.settings)
    assert "activation" not in repr(result.settings)


def test_a_notebook_shows_a_picture_that_is_readable_in_dark_mode(result, trace, item, search):
    plt.close("all")  # of other tests in this process
    for value in (result, trace, item, search[0]):
        (encoded,) = re.findall(r'base64,([^"]*)"', value._repr_html_())
        picture = base64.b64decode(encoded)
        assert picture.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", picture[16:24])
        assert 300 < width < 1200
        assert 200 < height < 1200
        corner = plt.imread(__import__("io").BytesIO(picture))[0, 0]
        np.testing.assert_array_equal(corner, 1.0)  # white and not transparent
    plain = mirrorax.train("Catch", seeds=1, steps=320, curve_points=0, **SMALL)
    assert "<img" not in plain._repr_html_()  # one cell, no curves: nothing to draw
    usual = mirrorax.train("Catch", seeds=1, steps=320, **SMALL)
    assert "<img" in usual._repr_html_()  # there are curves unless told otherwise
    assert not plt.get_fignums()


def test_pictures_return_their_axis(result, trace, item, search):
    _, axes = plt.subplots(1, 5)
    assert result.plot(axes[0]) is axes[0]
    assert trace.plot(axes[1]) is axes[1]
    assert item.heatmap(axes[2]) is axes[2]
    assert item.curves(axes[3]) is axes[3]
    assert search[0].plot(axes[4]) is axes[4]
    assert len(axes[0].lines) == 2 + 4 + 1  # means, seeds, random play
    np.testing.assert_allclose(axes[1].lines[0].get_ydata()[0], trace.gap[0])
    drawn, random = axes[3].lines[-2:]
    np.testing.assert_allclose(random.get_ydata(), 0.2)
    np.testing.assert_allclose(drawn.get_xdata(), 16 * np.arange(4, 21, 4))  # environment steps
    assert item.heatmap() is not None
    assert item.plot() is not None
    scores = result.heatmap().collections[0].get_array()
    np.testing.assert_allclose(np.ravel(scores), [cell["mean"] for cell in result.cells])
    plt.close("all")


def test_the_first_picture_keeps_what_the_backend_of_a_notebook_sets(tmp_path):
    """A notebook shows figures only while pyplot is interactive, which its backend sets."""
    backend = "from matplotlib.backends.backend_agg import *\nimport matplotlib\n"
    (tmp_path / "of_a_notebook.py").write_text(backend + "matplotlib.interactive(True)\n")
    code = (
        "import matplotlib\n"
        "from mirrorax import tabular\n"
        "tabular.solve(tabular.chain(5), iterations=8).plot()\n"
        "assert matplotlib.is_interactive()\n"
        "assert matplotlib.rcParams['font.size'] == 10\n"
    )
    environment = {**os.environ, "MPLBACKEND": "module://of_a_notebook"}
    environment["PYTHONPATH"] = str(tmp_path)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_curves_are_of_the_cell_that_is_asked_for(item):
    table = item.results.curves()
    for i, j in np.ndindex(2, 2):
        ax = item.curves(alpha=item.alphas[i], lam=item.lams[j])
        row = (
            table["run_id"]
            .to_pylist()
            .index(item.results.rows["run_id"][int(item.rows[i, j, 0, 0])].as_py())
        )
        returns = np.array(table["return"][row].as_py())
        drawn = ax.lines[-2]  # the last line is random play
        np.testing.assert_allclose(drawn.get_ydata(), (returns + 1) / 2)
        plt.close("all")
    with pytest.raises(UserError, match="the grid has no cell"):
        item.curves(alpha=5.0, lam=5.0)


def test_data_frames_hold_the_same_numbers(result, trace, item, search):
    frame = result.to_pandas()
    np.testing.assert_array_equal(frame["score"], result.normalized)
    assert frame["alpha"].tolist() == [run.alpha for run in result.runs]
    np.testing.assert_array_equal(trace.to_pandas()["gap"], trace.gap)
    assert sorted(item.to_pandas()["score"]) == sorted(item.runs().ravel())
    trials = search[0].to_pandas()
    assert len(trials) == len(search[0].record.trials)
    assert trials["score"].max() == search[0].record.searched


def test_a_grid_of_traces_has_its_temperatures():
    alphas, lams = np.array([0.1, 1.0])[:, None], np.array([0.5, 1.0, 2.0])
    grid = tabular.solve(
        tabular.garnet(4, 2, branching=2), "entropy", "kl", alphas, lams, iterations=3
    )
    frame = grid.to_pandas()
    assert list(frame.index.names) == ["iteration", "grid_0", "grid_1"]
    np.testing.assert_array_equal(frame["gap"], grid.gap.ravel())
    for (alpha, lam), cell in frame.groupby(["alpha", "lam"]):
        i, j = np.flatnonzero(alphas[:, 0] == alpha)[0], np.flatnonzero(lams == lam)[0]
        np.testing.assert_array_equal(cell["gap"], grid.gap[:, i, j])
    np.testing.assert_array_equal(grid.to_xarray()["lam"][-1], np.tile(lams, (2, 1)))
    ax = grid.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[:6] == [f"alpha {a:g}, lam {b:g}" for a in alphas[:, 0] for b in lams]
    for line, gap in zip(ax.lines, grid.gap.reshape(4, 6).T, strict=False):
        np.testing.assert_allclose(line.get_ydata(), gap, atol=1e-10)
    many = tabular.solve(
        tabular.garnet(4, 2, branching=2), alpha=np.linspace(0.1, 1, 13), iterations=2
    )
    assert "(13 cells)" in many.plot().get_legend().get_texts()[0].get_text()


def test_datasets_hold_the_same_numbers(result, trace, item):
    scores = result.to_xarray()["score"].sel(alpha=0.1, seed=1)
    assert float(scores) == result.normalized[3]
    np.testing.assert_array_equal(trace.to_xarray()["policy"], trace.policies)
    array = item.to_xarray()["score"].sel(alpha=0.1, lam=1.0, environment="Catch", seed=0)
    assert float(array) == item.runs()[1, 1, 0, 0]


def test_a_trace_comes_back(trace, tmp_path):
    loaded = mirrorax.load(trace.save(tmp_path / "trace.npz"))
    for name in ("policies", "values", "gap", "returns", "promised_rate"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(trace, name))
    assert loaded.optimum.error == trace.optimum.error
    with pytest.raises(UserError, match=r"ends in \.npz"):
        trace.save(tmp_path / "trace.txt")
    (tmp_path / "other.npz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not a saved trace"):
        mirrorax.load(tmp_path / "other.npz")


def test_a_landscape_comes_back_and_is_an_export_of_its_runs(item, store, tmp_path):
    path = item.save(tmp_path / "map.parquet")
    loaded = mirrorax.load(path)
    for name in ("alphas", "lams", "seeds", "state", "stochastic", "greedy"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(item, name))
    assert (loaded.label, loaded.environments) == (item.label, item.environments)
    assert loaded.curves() is not None
    plt.close("all")
    assert mirrorax.load(path, "all").equals(mirrorax.load(store[1], "all"))
    with pytest.raises(UserError, match=r"ends in \.parquet"):
        item.save(tmp_path / "map.npz")
    with pytest.raises(UserError, match="cannot write"):
        item.save(tmp_path / "no" / "map.parquet")


def test_a_landscape_keeps_the_scale_that_other_runs_gave_it(tmp_path):
    """Bounds of returns that are estimated depend on all runs that were read together."""
    options = {"seeds": 1, "steps": 320, **SMALL}
    for k, drift in enumerate(("kl", "forward_kl")):
        run = mirrorax.train("GaussianBandit-misc", "entropy", drift, alpha=[0.01, 0.1], **options)
        run.save(tmp_path / f"run{k}")
    both = mirrorax.landscapes(tmp_path)
    assert {item.environments[0].bounds_source for item in both} == {"estimated"}
    for k, item in enumerate(both):
        loaded = mirrorax.load(item.save(tmp_path / f"{k}.parquet"))
        np.testing.assert_allclose(loaded.runs(), item.runs(), rtol=1e-12)
        assert loaded.label == item.label


def test_a_search_opens_in_optuna(search, tmp_path):
    import optuna

    result, _ = search
    path = result.to_optuna(tmp_path / "search.db")
    (name,) = optuna.get_all_study_names(f"sqlite:///{path}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{path}")
    assert len(study.trials) == len(result.record.trials)
    assert study.best_value == result.record.searched
    for trial, item in zip(study.trials, result.record.trials, strict=True):
        values = tuple(trial.params[name] for name in result.specification.names)
        assert values == item.run.cell.values
        assert trial.user_attrs["seed"] == item.run.seed
        assert trial.params["potential"] == result.specification.arms[item.run.cell.arm].potential
    assert study.user_attrs["command"] == result.command
    with pytest.raises(UserError, match="exists; name a new file"):
        result.to_optuna(path)
    with pytest.raises(UserError, match="there is no folder"):
        result.to_optuna(tmp_path / "no" / "search.db")


def test_a_search_is_read_as_results_are(search, tmp_path):
    result, place = search
    assert mirrorax.load(place).num_rows == result.spent
    code = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"
    for command in (
        ["report", str(place), "--out", str(tmp_path / "s.html")],
        ["robustness", str(place)],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_an_optional_package_that_is_absent_is_named(result, search, tmp_path, monkeypatch):
    for name in ("pandas", "optuna"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="pip install pandas"):
        result.to_pandas()
    with pytest.raises(UserError, match="pip install optuna"):
        search[0].to_optuna(tmp_path / "search.db")


def test_a_trace_over_a_grid_is_drawn_with_a_line_for_each_cell():
    from mirrorax.tabular import deepsea, solve

    trace = solve(deepsea(3), alpha=np.array([[0.1], [1.0]]), lam=np.array([0.1, 1.0, 2.0]))
    ax = trace.plot()
    lines = [line for line in ax.lines if len(line.get_xdata()) == len(trace.gap)]
    assert len(lines) == 6
    assert "<img" in trace._repr_html_()


def test_curves_have_the_level_of_random_play_for_boards_of_any_size():
    """The ball's column is drawn uniformly, whatever a random paddle does: one in three."""
    result = mirrorax.train("Catch(5x3)", seeds=1, steps=512, curve_points=2, progress=False)
    (curve,) = result.learning_curves()
    assert curve.random == pytest.approx(1 / 3, abs=0.15)  # of 100 episodes
