from __future__ import annotations

import numpy as np
import pytest

from mirrorax.analysis.landscape import full_grid, landscapes, map_grid
from mirrorax.analysis.summary import common_cells


@pytest.fixture
def make(synthetic, rng):
    def one(drift, alphas, lams):
        table = synthetic.block({"drift": drift}, "Catch", alphas, lams, 2, rng)
        return landscapes(table)[0]

    return one


def test_cells_are_compared_where_all_grids_meet(make):
    a = make("kl", np.array([0.0, 0.1, 0.2]), np.array([0.0, 1.0, 2.0]))
    b = make("bregman(max)", np.array([0.1, 0.2, 0.3]), np.array([1.0, 5.0]))
    mine, theirs = common_cells([a, b], [a.cells(), b.cells()])
    assert np.argwhere(mine).tolist() == [[1, 1], [2, 1]]
    assert np.argwhere(theirs).tolist() == [[0, 0], [1, 0]]
    far = make("forward_kl", np.array([5.0]), np.array([5.0]))
    assert not any(mask.any() for mask in common_cells([a, far], [a.cells(), far.cells()]))


def test_a_map_is_cropped_to_its_grid():
    given = np.zeros((10, 12), bool)
    given[np.ix_([0, 3, 5, 9], [1, 2, 7, 11])] = True
    given[4, 4] = given[0, 5] = True  # two cells that are elsewhere
    rows, columns = map_grid(given)
    assert np.flatnonzero(rows).tolist() == [0, 3, 5, 9]
    assert np.flatnonzero(columns).tolist() == [1, 2, 7, 11]


@pytest.mark.parametrize("seed", range(3))
def test_holes_and_strips_are_no_reason_to_crop(seed):
    some = np.random.default_rng(seed).random((20, 20)) < 0.6
    assert all(part.all() for part in map_grid(some))
    strips = np.zeros((29, 29), bool)
    strips[:3], strips[:, :3] = True, True
    assert all(part.all() for part in map_grid(strips))


def test_a_full_grid_has_no_holes():
    rows, columns = full_grid(np.eye(3, dtype=bool))
    assert rows.sum() * columns.sum() == 1
    holed = np.ones((4, 5), dtype=bool)
    holed[2, 3:] = False
    assert [int(part.sum()) for part in full_grid(holed)] == [3, 5]


def test_a_cropped_landscape_has_the_runs_of_its_cells(make):
    item = make("kl", np.array([0.0, 0.1, 0.2]), np.array([0.0, 1.0, 2.0]))
    part = item.crop(np.array([True, False, True]), np.array([False, True, True]))
    np.testing.assert_array_equal(part.runs(), item.runs()[::2, 1:])
    assert part.alphas.tolist() == [0.0, 0.2]
    assert part.lams.tolist() == [1.0, 2.0]
