"""What people see and keep in Python: short reprs, tables, pictures, files that come back."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import mirrorax
from mirrorax import tabular
from mirrorax.analysis import landscapes
from mirrorax.errors import UserError
from mirrorax.store import read_results

SMALL = {"num_envs": 4, "env_steps_per_update": 16, "batch_size": 16, "buffer_size": 160}
SMALL |= {"hidden": (8,), "eval_episodes": 2}


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
        **{**SMALL, "hidden": [8]},
    )
    place = tmp_path_factory.mktemp("sweep") / "store"
    summary = mirrorax.sweep(study, place, workers=1, progress=False)
    assert (summary.done, summary.failed) == (4, 0)
    return study, place


def test_a_study_built_in_python_runs_and_resumes(store):
    study, place = store
    assert mirrorax.load(place).num_rows == 4
    again = mirrorax.sweep(study, place, workers=1, progress=False)
    assert (again.done, again.total) == (4, 4)
    with pytest.raises(UserError, match="workers: 0"):
        mirrorax.sweep(study, place, workers=0)
    with pytest.raises(UserError, match="pairs"):
        mirrorax.Study.of(environments=["Catch"], pairs=[["entropy", "k1"]], alpha=0.1, lam=0.1)


def test_everything_is_shown_in_a_few_lines(result, trace, store):
    (item,) = landscapes(read_results(store[1]))
    for value in (result, trace, item):
        assert len(repr(value).splitlines()) <= 9
        assert len(repr(value)) < 700
        assert value._repr_html_().count("<tr>") == len(repr(value).splitlines()) - 1
    assert f"{result.mean:.3f}" in repr(result)
    assert f"{trace.gap[-1]:.3e}" in repr(trace)
    assert f"{item.runs().max():.3f}" in repr(item)
    assert "2 alpha x 2 lam" in repr(item)


def test_pictures_return_their_axis(result, trace, store):
    (item,) = landscapes(read_results(store[1]))
    _, axes = plt.subplots(1, 3)
    assert result.plot(axes[0]) is axes[0]
    assert trace.plot(axes[1]) is axes[1]
    assert item.heatmap(axes[2]) is axes[2]
    assert len(axes[0].lines) == 2 + 4
    np.testing.assert_allclose(axes[1].lines[0].get_ydata()[0], trace.gap[0])
    assert item.heatmap() is not None
    plt.close("all")


def test_data_frames_hold_the_same_numbers(result, trace, store):
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    np.testing.assert_array_equal(frame["score"], result.normalized)
    assert frame["alpha"].tolist() == [run.alpha for run in result.runs]
    np.testing.assert_array_equal(trace.to_pandas()["gap"], trace.gap)
    (item,) = landscapes(read_results(store[1]))
    assert sorted(item.to_pandas()["score"]) == sorted(item.runs().ravel())


def test_datasets_hold_the_same_numbers(result, trace, store):
    pytest.importorskip("xarray")
    scores = result.to_xarray()["score"].sel(alpha=0.1, seed=1)
    assert float(scores) == result.normalized[3]
    np.testing.assert_array_equal(trace.to_xarray()["policy"], trace.policies)
    (item,) = landscapes(read_results(store[1]))
    array = item.to_xarray()
    assert float(array.sel(alpha=0.1, lam=1.0)[0, 0]) == item.runs()[1, 1, 0, 0]


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


def test_an_optional_package_that_is_absent_is_named(result, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        result.to_pandas()
