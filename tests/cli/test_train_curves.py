"""The picture of a training run: points of a grid are told apart, or summed up and said so."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mirrorax.figures.style import PALETTE
from mirrorax.runs.chunk import chunk_of_runs
from mirrorax.runs.settings import make_settings
from mirrorax.training import plan_runs
from mirrorax.training.result import TrainResult

POINTS = 6


def made(seeds=3, **grid):
    """A result of made-up curves of Catch, whose returns are between -1 and 1."""
    settings = make_settings(environment="Catch", steps=256 * 60)
    runs = plan_runs(settings, grid, seeds)
    rng = np.random.default_rng(0)
    scale = np.array([run.reward_scale for run in runs])[:, None]
    scores = rng.uniform(0, 1, (len(runs), POINTS))
    returns = (2 * scores - 1) * scale
    result = TrainResult(
        chunk=chunk_of_runs(settings, runs, 32),
        returns=returns[:, -1:],
        greedy_returns=returns[:, -1:],
        diverged_at=np.full(len(runs), -1),
        wall_seconds=1.0,
        bounds=(-1.0, 1.0),
        provenance={"lanes": 32, "device": "cpu"},
        curves={"return": returns, "update": np.tile(10.0 * np.arange(1, 7), (len(runs), 1))},
        policies=np.zeros((len(runs), 1)),
    )
    return scores, result


def drawn(result):
    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    ax = result.plot(figure.add_subplot())
    figure.canvas.draw()
    named = {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}
    return ax, named


def test_every_run_and_the_mean_of_one_point():
    scores, result = made(alpha=0.05, seeds=4)
    ax, named = drawn(result)
    assert list(named) == ["mean of 4 runs"]
    *_, random = ax.lines
    assert len(ax.lines) == 4 + 1 + 1
    np.testing.assert_allclose(random.get_ydata(), 0.2)  # of random play, below the score of 1
    np.testing.assert_allclose(named["mean of 4 runs"].get_ydata(), scores.mean(0))
    np.testing.assert_allclose(named["mean of 4 runs"].get_xdata(), 2560 * np.arange(1, 7))


def test_a_line_for_each_point_of_a_grid_named_by_what_tells_it_apart():
    scores, result = made(alpha=[0.01, 0.1], lam=[0.5], reward_scale=[1.0, 5.0, 20.0])
    ax, named = drawn(result)
    expected = {
        f"alpha {alpha:g}, reward_scale {scale:g}": scores[3 * k : 3 * k + 3].mean(0)
        for k, (alpha, scale) in enumerate((a, s) for a in (0.01, 0.1) for s in (1, 5, 20))
    }
    assert list(named) == list(expected)
    for label, mean in expected.items():
        np.testing.assert_allclose(named[label].get_ydata(), mean)
    assert len({line.get_color() for line in named.values()}) == len(named)
    # Each run is there too, thin, in the colour of its point.
    thin = [line for line in ax.lines if line not in named.values()][:-1]  # the last: random play
    assert len(thin) == len(scores)
    for index, line in enumerate(thin):
        np.testing.assert_allclose(line.get_ydata(), scores[index])
        assert line.get_color() == list(named.values())[index // 3].get_color()


@pytest.mark.parametrize("alphas", [len(PALETTE), len(PALETTE) + 1])
def test_more_points_than_colours_are_summed_up_and_said_so(alphas):
    scores, result = made(alpha=np.linspace(0.01, 0.5, alphas).tolist(), seeds=3)
    ax, named = drawn(result)
    if alphas == len(PALETTE):
        assert len(named) == len(PALETTE)
        return
    means = scores.reshape(alphas, 3, POINTS).mean(1)
    np.testing.assert_allclose(named["their median"].get_ydata(), np.median(means, axis=0))
    best = int(np.argmax(means[:, -1]))
    label = f"the best in the end: alpha {result.runs[3 * best].alpha:g}"
    np.testing.assert_allclose(named[label].get_ydata(), means[best])
    assert ax.collections[0].get_label() == f"the middle 80% of {alphas} points"
