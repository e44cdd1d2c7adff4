"""The shares of alpha, lambda and their interaction on surfaces whose shares are known."""

import numpy as np
import pytest

from mirrorax.analysis.interplay import interplay
from mirrorax.analysis.tuned import sensitivities
from mirrorax.errors import UserError

EVERY = np.ones((2, 2), dtype=bool)


def surface(a, b, c, rows=8, columns=6):
    """Orthogonal parts with the variances a, b and c."""
    x, y = np.linspace(-1, 1, rows), np.linspace(-1, 1, columns)
    x, y = x / x.std(), y / y.std()
    return np.sqrt(a) * x[:, None] + np.sqrt(b) * y[None, :] + np.sqrt(c) * x[:, None] * y[None, :]


def draw(mean, noise, seeds, rng):
    return mean[..., None, None] + noise * rng.standard_normal((*mean.shape, 1, seeds))


@pytest.mark.parametrize("parts", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.3, 0.2)])
def test_without_noise_the_shares_are_those_of_the_surface(parts):
    result = interplay(np.repeat(surface(*parts)[..., None, None], 3, axis=-1))
    shares = [result.alpha.value, result.lam.value, result.interaction.value]
    np.testing.assert_allclose(shares, parts, atol=1e-12)
    assert result.variance == pytest.approx(1.0)
    assert result.noise < 1e-30
    assert result.interaction.interval.low == pytest.approx(parts[2], abs=1e-6)


@pytest.mark.parametrize("spread", ["even", "uneven"])
def test_noise_does_not_bias_the_variances(spread):
    """The mean over many studies is the truth, where the plain variances are far off."""
    rng = np.random.default_rng(0)
    mean = surface(0.02, 0.01, 0.005)
    noise = np.full(mean.shape, 0.3)
    if spread == "uneven":
        noise = 0.6 * rng.random(mean.shape)
    results = []
    for _ in range(400):
        runs = mean[..., None, None] + noise[..., None, None] * rng.standard_normal(
            (*mean.shape, 1, 2)
        )
        results.append(interplay(runs))
    variance = np.array([r.variance for r in results])
    error = variance.std() / np.sqrt(len(variance))
    assert variance.mean() == pytest.approx(0.035, abs=4 * error)
    plain = np.mean([draw(mean, 0.3, 2, rng).mean(axis=(-1, -2)).var() for _ in range(50)])
    assert plain > 1.5 * 0.035  # what it would be without the correction


def test_intervals_hold_the_truth_and_shrink_with_seeds():
    rng = np.random.default_rng(1)
    mean, truth = surface(0.03, 0.02, 0.01), 1 / 6
    held, widths = [], {}
    for seeds in (2, 8):
        widths[seeds] = []
        for _ in range(150):
            interval = interplay(draw(mean, 0.2, seeds, rng)).interaction.interval
            held.append(truth in interval)
            widths[seeds].append(interval.high - interval.low)
    assert np.mean(held) >= 0.93
    assert np.mean(widths[8]) < 0.7 * np.mean(widths[2])


def test_the_sign_of_the_interaction():
    mean = surface(0.01, 0.01, 0.01)
    x = np.repeat(mean[..., None, None], 2, axis=-1)
    assert interplay(x).tilt > 0 > interplay(x[::-1]).tilt
    either = np.ones((4, 4))
    either[:2, :2] = 0  # bad only where both are small: one makes up for the other
    assert interplay(np.repeat(either[..., None, None], 2, axis=-1)).tilt < 0


def test_a_flat_grid_has_no_shares_and_its_interval_excludes_nothing():
    rng = np.random.default_rng(2)
    result = interplay(draw(np.zeros((6, 6)), 0.1, 3, rng))
    interval = result.interaction.interval
    assert interval.high - interval.low > 0.5
    same = interplay(np.full((4, 4, 1, 2), 0.5))
    assert np.isnan(same.alpha.value)
    assert "flat" in same.why


def test_one_seed_has_no_interval_and_says_so():
    result = interplay(surface(1, 1, 1)[..., None, None])
    assert result.alpha.interval is None
    assert "one seed" in result.why


def test_holes_are_left_out_with_their_emptiest_line():
    runs = np.repeat(surface(1, 1, 0)[..., None, None], 2, axis=-1)
    runs[3, 1:] = np.nan
    result = interplay(runs)
    assert result.shape == (7, 6)
    assert result.interaction.value == pytest.approx(0, abs=1e-12)
    with pytest.raises(UserError, match="at least two alphas"):
        interplay(runs[:1])


def test_a_score_over_environments_is_their_mean():
    rng = np.random.default_rng(3)
    runs = surface(1, 1, 1, 5, 4)[..., None, None] + rng.random((5, 4, 3, 4))
    mean = runs.mean(axis=2, keepdims=True)
    both = interplay(runs), interplay(mean)
    assert both[0].noise > 0
    # The plain variances agree; the noise that is taken off is estimated from other numbers.
    a, b = (r.variance + r.noise * (1 - 1 / 20) for r in both)
    assert a == pytest.approx(b)


def test_sensitivity_of_a_grid_by_hand():
    """Two environments that want opposite alphas, and one algorithm that does not care."""
    picky = np.zeros((2, 2, 2, 2))
    picky[0, :, 0] = 1  # the first wants a small alpha
    picky[1, :, 1] = 1  # the second a large one
    easy = np.ones((2, 2, 2, 2))
    first, second = sensitivities([picky, easy], [EVERY, EVERY])
    assert (first.tuned, first.fixed, first.price) == (1, 0.5, 0.5)
    assert first.price_held_out == 0.5
    assert first.dimensionality == 1  # alpha alone has to be tuned
    assert second.price == 0
    assert second.dimensionality == 0


def test_both_temperatures_may_have_to_be_tuned():
    runs = np.zeros((3, 3, 2, 1))
    runs[0, 0, 0] = runs[2, 2, 1] = 1
    runs[1, 1] = 0.6
    (result,) = sensitivities([runs], [np.ones((3, 3), dtype=bool)])
    assert result.fixed_cell == (1, 1)
    assert result.dimensionality == 2


def test_percentiles_are_those_of_all_algorithms():
    rng = np.random.default_rng(4)
    runs = [rng.random((6, 6, 2, 3)), 10 * rng.random((6, 6, 2, 3))]
    pooled = np.concatenate([r.mean(axis=-1).reshape(-1, 2) for r in runs])
    low, high = np.percentile(pooled, [5, 95], axis=0)
    expected = ((runs[0].mean(axis=-1) - low) / (high - low)).max(axis=(0, 1)).mean()
    every = np.ones((6, 6), dtype=bool)
    assert sensitivities(runs, [every, every])[0].tuned == pytest.approx(expected)
