from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, QuadMesh

from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import cell_scores, environment_scores, frequency, top
from mirrorax.analysis.summary import summarise
from mirrorax.analysis.temperature import Minimal
from mirrorax.errors import UserError
from mirrorax.figures import bars, heatmap
from mirrorax.figures import frequency as frequency_figure
from mirrorax.figures.bars import draw_best
from mirrorax.figures.curves import LearningCurve, draw_curves
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import (
    HeatMap,
    centres,
    draw_heat_map,
    draw_panel,
    edges,
    heat_map,
    outline,
    ticks,
)
from mirrorax.figures.scaling import draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, save, style
from mirrorax.paper.regression import regression


def meshes(ax) -> list[QuadMesh]:
    return [c for c in ax.collections if isinstance(c, QuadMesh)]


def shown(ax) -> dict[tuple[float, float], float]:
    """Every cell a heat map shows, by its centre."""
    out = {}
    for mesh in meshes(ax):
        corners = mesh.get_coordinates()
        values = mesh.get_array()
        for i in range(corners.shape[0] - 1):
            for j in range(corners.shape[1] - 1):
                x = (corners[i, j, 0] + corners[i, j + 1, 0]) / 2
                y = (corners[i, j, 1] + corners[i + 1, j, 1]) / 2
                if not np.ma.getmaskarray(values)[i, j]:
                    out[round(float(x), 6), round(float(y), 6)] = float(values[i, j])
    return out


def test_every_cell_is_shown_at_its_place_with_its_score(small):
    item = landscapes(small)[0]
    data = heat_map(item)
    _, ax = new()
    assert draw_heat_map(data, ax) is ax
    cells = shown(ax)
    assert len(cells) == data.scores.size
    x, y = centres(item.lams), centres(item.alphas)
    d = cell_scores(item.runs())
    for i in range(len(y)):
        for j in range(len(x)):
            assert cells[round(float(x[j]), 6), round(float(y[i]), 6)] == d[i, j]
    assert {mesh.get_clim() for mesh in meshes(ax)} == {(0.0, 1.0)}
    assert "lambda" in ax.get_xlabel()


def test_a_hole_stays_empty(small):
    data = heat_map(landscapes(small)[0])
    holed = data.scores.copy()
    holed[2, 3] = np.nan
    _, ax = new()
    draw_heat_map(replace(data, scores=holed), ax)
    assert len(shown(ax)) == data.scores.size - 1


def test_zero_stands_apart():
    values = np.array([0.0, 0.1, 1.0])
    assert edges(values).tolist() == [0.0, 1.5, 2.5, 3.5]
    assert centres(values).tolist() == [0.5, 2.0, 3.0]
    assert edges(np.array([0.1, 1.0])).tolist() == [0.0, 1.0, 2.0]


def test_decades_are_labelled_and_crowded_labels_left_out(synthetic):
    places, texts, marks = ticks(synthetic.LAMS, 3.0)
    assert texts[0] == "0"
    assert "$10^{-4}$" in texts
    assert min(np.diff(places)) >= 3.0
    assert len(places) + len(marks) == 10  # zero and the nine decades of the grid
    assert ticks(np.array([0.0, 0.03, 5.0]))[1] == ["0", "0.03", "5"]


@pytest.mark.parametrize("width", [COLUMN, PAGE])
def test_no_labels_overlap(synthetic, width):
    rng = np.random.default_rng(0)
    scores = rng.random((29, 29))
    with style():
        figure, ax = new(width)
        draw_heat_map(HeatMap(scores, synthetic.ALPHAS, synthetic.LAMS, "a title"), ax)
        figure.draw_without_rendering()
        for axis in (ax.xaxis, ax.yaxis):
            boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
            for one, two in itertools.pairwise(boxes):
                assert not one.overlaps(two)


def test_the_contour_is_the_border_of_the_good_cells():
    good = np.zeros((3, 3), bool)
    good[1, 1] = good[1, 2] = True
    lines = outline(good, np.arange(3) + 0.5, np.arange(3) + 0.5)
    assert len(lines) == 6  # two cells side by side
    assert ((1.0, 1.0), (1.0, 2.0)) in lines
    assert ((2.0, 1.0), (2.0, 2.0)) not in lines
    scores = np.where(good, 0.95, 0.1)
    _, ax = new()
    draw_heat_map(HeatMap(scores, np.arange(1.0, 4), np.arange(1.0, 4)), ax, contour=0.9)
    drawn = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert all(len(c.get_segments()) == 6 for c in drawn)
    _, ax = new()
    draw_heat_map(HeatMap(scores, np.arange(1.0, 4), np.arange(1.0, 4)), ax, contour=None)
    assert not [c for c in ax.collections if isinstance(c, LineCollection)]


def test_cells_off_the_grid_are_one_line_of_text(small):
    item = landscapes(small)[0]
    state = item.state.copy()
    state[1, [0, 1, 2, 4, 5, 6]] = 0  # of one alpha, one lambda is left
    sparse = replace(item, state=state)
    data = heat_map(sparse)
    assert data.scores.shape == (len(item.alphas) - 1, len(item.lams))
    assert data.left_out == 1
    _, ax = new()
    draw_heat_map(data, ax)
    assert ax.get_title().endswith("\n1 cell off this grid")


def test_large_cells_hold_their_values():
    grid = np.array([0.1, 1.0])
    _, ax = new()
    draw_heat_map(HeatMap(np.array([[0.25, np.nan], [0.5, 1.0]]), grid, grid), ax)
    assert sorted(text.get_text() for text in ax.texts) == ["0.25", "0.50", "1.00"]


def test_ticks_have_at_most_three_digits():
    values = np.array([0.0, 0.00025, 0.316227766017, 5e4])
    assert ticks(values)[1] == ["0", "2.5e-4", "0.316", "5e4"]
    assert ticks(np.array([1e-4, 0.1, 1e4]))[1] == ["$10^{-4}$", "0.1", "$10^{4}$"]


def test_a_panel_shares_one_scale(small):
    item = landscapes(small)[0]
    figure, _ = new(PAGE)
    figure.clear()
    maps = [heat_map(item, environment=e.label) for e in item.environments]
    axes = draw_panel(maps, figure)
    assert [ax.get_title() for ax in axes] == ["CartPole", "Acrobot"]
    for k, ax in enumerate(axes):
        expected = environment_scores(item.runs())[..., k]
        assert sorted(shown(ax).values()) == sorted(expected.ravel().tolist())
        assert meshes(ax)[0].get_clim() == (0.0, 1.0)
    with pytest.raises(UserError, match="no heat map"):
        draw_panel([], figure)


def test_long_titles_of_a_panel_do_not_meet(small):
    title = "(tsallis(0.5), bregman(tsallis(0.5)))"
    maps = [replace(heat_map(landscapes(small)[0]), title=title)] * 4
    with style():
        figure, _ = new(PAGE, PAGE * 0.4)
        figure.clear()
        axes = draw_panel(maps, figure)
        figure.draw_without_rendering()
    boxes = [ax.title.get_window_extent() for ax in axes]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


def test_long_names_stay_within_every_picture(synthetic, rng):
    drift = "bregman(to(uniform, bregman(to(uniform, bregman(tsallis(1.23456789))))))"
    items = landscapes(synthetic.study([{}, {"drift": drift}], rng, seeds=2))
    table = summarise(items)
    with style():
        for module in (bars, frequency_figure, heatmap):
            for name, figure in module.pictures(table):
                figure.draw_without_rendering()
                inside = figure.get_tightbbox().padded(-0.01)
                width, height = figure.get_size_inches()
                assert min(inside.x0, inside.y0) >= 0, name
                assert inside.x1 <= width, name
                assert inside.y1 <= height, name


def test_the_frequency_curves_are_the_counts(small, rng):
    curves = []
    for item in landscapes(small):
        curves.append(frequency_curve(item.label, item.runs(), cells=item.cells(), start=0.2))
    _, ax = new()
    draw_frequency(curves, ax)
    for item, curve, line in zip(landscapes(small), curves, ax.get_lines(), strict=True):
        d = cell_scores(item.runs())[item.cells()]
        np.testing.assert_array_equal(line.get_ydata(), frequency(d, line.get_xdata()))
        assert line.get_label() == item.label
        assert np.all(curve.low <= curve.high)
    assert len(ax.collections) == 2  # bands
    _, ax = new()
    many = [replace(curves[k % 2], label=f"{k}") for k in range(11)]
    draw_frequency(many, ax)
    assert len({line.get_color() for line in ax.get_lines()}) == 11
    _, ax = new()
    draw_frequency([replace(curves[k % 2], label=f"{k}") for k in range(66)], ax)
    looks = {(line.get_color(), str(line._dash_pattern)) for line in ax.get_lines()}
    assert len(looks) == 66  # no two look alike
    with pytest.raises(UserError, match="no curve"):
        draw_frequency([], ax)


def test_a_single_seed_has_no_band(small, rng):
    item = landscapes(small)[0]
    curve = frequency_curve("one", item.runs()[..., :1])
    assert np.isnan(curve.low).all()
    _, ax = new()
    draw_frequency([curve], ax)
    assert len(ax.collections) == 0


def test_bars_are_means_and_standard_deviations(rng):
    tops = {
        "const.": {"a": top(rng.random(100), 0.1), "b": top(rng.random(100), 0.1)},
        "linear": {"a": top(rng.random(50), 0.1), "b": None},
    }
    _, ax = new()
    draw_best(tops, ax)
    tall = [bar.get_y() + bar.get_height() for box in ax.containers[:4] for bar in _bars(box)]
    shown = (tops["const."]["a"], tops["linear"]["a"], tops["const."]["b"])
    expected = [each.mean for each in shown]
    np.testing.assert_allclose(tall, expected)
    assert [t.get_text() for t in ax.texts] == ["no runs"]
    with pytest.raises(UserError, match="no bar"):
        draw_best({"x": {"a": None}}, ax)


def _bars(container):
    return container.patches if hasattr(container, "patches") else []


def test_scaling_shows_points_line_band_and_what_is_censored():
    x = [5, 50, 100, 500, 1000]
    values = [1e-4 * m * (1 + 0.1 * (k % 2)) for k, m in enumerate(x)]
    points = [
        Minimal("e", float(m), y, False, (y / 2 if m > 5 else 0.0, y))
        for m, y in zip(x, values, strict=True)
    ]
    points += [
        Minimal("none", 20.0, 1.0, True, (0.0, np.inf)),
        Minimal("zero", 7.0, 0.0, False, (0.0, 1e-4)),
    ]
    for log in (False, True):
        _, ax = new()
        fitted = power_law if log else regression
        draw_scaling({0.75: points}, ax, temperature="alpha", log=log, fit=fitted)
        dots = ax.get_lines()[0]
        assert len(dots.get_xdata()) == (5 if log else 6)
        if log:  # whiskers to the next lower value, a triangle where there is none
            triangles = [line for line in ax.get_lines() if line.get_marker() == 11]
            assert [triangle.get_xdata()[0] for triangle in triangles] == [5.0, 7.0]
            whiskers = [
                each.get_segments() for each in ax.collections if hasattr(each, "get_segments")
            ]
            got = {(x, low, high) for (((x, low), (_, high)),) in whiskers}
            assert got == {(p.max_return, *p.between) for p in points[1:5]}
        *_, arrows, line = ax.get_lines()
        assert arrows.get_xdata() == [20.0]
        fit = fitted(points)
        np.testing.assert_allclose(line.get_ydata(), fit.line(np.asarray(line.get_xdata())))
        assert "1 never" in dots.get_label()
        assert ("1 at zero" in dots.get_label()) == log
        assert (ax.get_xscale() == "log") == log
    _, ax = new()
    draw_scaling({0.75: points[:2]}, ax, temperature="lam")
    assert "too few points" in ax.get_lines()[0].get_label()
    _, ax = new()
    draw_scaling({0.75: points}, ax, temperature="lam", sure=False)
    assert "one seed: no interval" in ax.get_lines()[0].get_label()
    assert not [each for each in ax.collections if not hasattr(each, "get_segments")]  # no band
    for log in (False, True):
        figure, ax = new()
        draw_scaling({0.75: points[5:6]}, ax, temperature="lam", log=log)
        figure.draw_without_rendering()
        assert [t.get_text() for t in ax.texts] == ["no value to show"]
    with pytest.raises(UserError, match="no minimal temperature"):
        draw_scaling({0.75: []}, ax, temperature="lam")


def test_scaling_keeps_its_place_when_a_threshold_has_no_point():
    reached = [Minimal("e", float(m), 1e-3 * m, False, (5e-4 * m, 1e-3 * m)) for m in (5, 50, 500)]
    never = [Minimal("e", float(m), 1.0, True, (0.0, np.inf)) for m in (5, 50, 500)]
    with style():
        figure, axes = new(PAGE, COLUMN, ncols=2)
        for ax in axes:
            draw_scaling({0.75: reached, 0.85: never}, ax, temperature="alpha")
        figure.draw_without_rendering()
    left, right = (ax.get_position() for ax in axes)
    assert left.width == pytest.approx(right.width)
    assert left.width > 0.3
    assert right.x1 < 1


def test_learning_curves_are_means_over_seeds(rng):
    steps = np.linspace(0, 1e6, 12)
    scores = rng.random((5, 12))
    one = LearningCurve("one", steps, scores[:1])
    _, ax = new()
    draw_curves([LearningCurve("five", steps, scores), one], ax)
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), scores.mean(axis=0))
    assert ax.get_lines()[1].get_label() == "one (one seed: no band)"
    assert len(ax.collections) == 1
    _, ax = new()
    draw_curves([one, replace(one, label="two", random=0.2)], ax)
    assert [line.get_label() for line in ax.get_lines()][:2] == ["one", "two"]
    assert ax.get_legend().get_title().get_text() == "one seed: no band"  # said once
    assert [text.get_text() for text in ax.texts] == ["random policy, two"]
    with pytest.raises(UserError, match="12 scores for 3 times"):
        draw_curves([LearningCurve("x", steps[:3], scores)], ax)


def test_files_in_three_formats_and_no_trace_in_global_state(small, tmp_path):
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    with style():
        figure, ax = new()
        draw_heat_map(heat_map(landscapes(small)[0]), ax)
        first = save(figure, tmp_path / "map")
        figure, ax = new()
        draw_heat_map(heat_map(landscapes(small)[0]), ax)
        again = save(figure, tmp_path / "again")
    assert [path.suffix for path in first] == [".png", ".svg", ".pdf"]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in first[1].read_bytes()
    assert first[0].read_bytes() == again[0].read_bytes()
    assert first[2].read_bytes() == again[2].read_bytes()  # no date inside
    assert dict(mpl.rcParams) == before
    with pytest.raises(UserError, match="png, svg, pdf"):
        save(figure, tmp_path / "map", ["bmp"])
    with pytest.raises(UserError, match="there is no folder"):
        save(figure, tmp_path / "nowhere" / "map")
