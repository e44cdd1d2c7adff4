from __future__ import annotations

import numpy as np
import pytest

from mirrorax.analysis.region import decades, region
from mirrorax.errors import UserError

ALPHAS = np.array([0.0, 1e-3, 1e-2, 1e-1, 1.0])
LAMS = np.array([0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0])


def drawn(*rows: str) -> np.ndarray:
    """A landscape drawn by hand: # is good, . is bad, ? has no score; rows are alphas > 0."""
    inner = np.array([[{"#": 1.0, ".": 0.0, "?": np.nan}[c] for c in row] for row in rows])
    return np.pad(inner, ((1, 0), (1, 0)), constant_values=1.0)  # zeros are good, and not counted


def test_decades_of_a_logarithmic_grid():
    np.testing.assert_allclose(decades(np.array([0.01, 0.1, 1.0, 10.0])), 1.0)
    assert decades(np.array([1.0, 2.0, 10.0])).sum() == pytest.approx(
        np.log10(10) + np.log10(2) / 2 + np.log10(5) / 2
    )
    assert decades(np.array([3.0])).tolist() == [1.0]


def test_a_perfect_l():
    scores = drawn("....##.", "....##.", "######.", ".......")
    found = region(scores, ALPHAS, LAMS, 0.9)
    assert found.good.sum() == 10
    assert found.share == pytest.approx(10 / 28)
    assert found.components == (10,)
    assert found.alpha_band.tolist() == [0.1]
    assert found.lam_band.tolist() == [1.0, 10.0]
    assert found.alpha_decades == pytest.approx(1.0)
    assert found.lam_decades == pytest.approx(2.0)
    assert found.area == pytest.approx(10.0)
    assert found.explained == found.filled == found.likeness == 1.0


def test_a_blob_in_the_middle_is_no_l():
    scores = drawn(".......", "...##..", "...##..", ".......")
    found = region(scores, ALPHAS, LAMS, 0.9)
    assert found.components == (4,)
    assert found.alpha_band.size == found.lam_band.size == 0
    assert found.alpha_decades == found.lam_decades == 0.0
    assert found.explained == 0.0
    assert found.likeness == 0.0


def test_one_band_alone_runs_all_along():
    scores = drawn("...#...", "...#...", "...#...", "...#...")
    found = region(scores, ALPHAS, LAMS, 0.9)
    assert found.lam_band.tolist() == [0.1]
    assert found.likeness == 1.0


def test_pieces_touching_at_a_corner_are_two():
    scores = drawn("##.....", "##.....", "..###..", ".......")
    assert region(scores, ALPHAS, LAMS, 0.9).components == (4, 3)


def test_nothing_good_is_zero_and_not_an_l():
    found = region(drawn(".......", ".......", ".......", "......."), ALPHAS, LAMS, 0.9)
    assert found.share == found.area == 0.0
    assert found.components == ()
    assert np.isnan(found.likeness)
    assert np.isnan(found.explained)


def test_holes_count_neither_as_good_nor_as_bad():
    scores = drawn("?...##.", "....##.", "###?##.", ".......")
    found = region(scores, ALPHAS, LAMS, 0.9)
    assert found.share == pytest.approx(9 / 26)
    assert found.likeness == 1.0


def test_what_cannot_be_described_is_refused():
    with pytest.raises(UserError, match="no cell has a score"):
        region(np.full((5, 8), np.nan), ALPHAS, LAMS)
    with pytest.raises(UserError, match="does not fit"):
        region(np.ones((4, 8)), ALPHAS, LAMS)
    with pytest.raises(UserError, match="both temperatures positive"):
        region(np.ones((1, 8)), ALPHAS[:1], LAMS)
