from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.temperature import Minimal, minimal_temperatures, smallest
from mirrorax.errors import UserError


@pytest.mark.parametrize(
    ("means", "value", "censored", "between"),
    [
        ([0.1, 0.8, 0.9, 0.2], 0.1, False, (0.0, 0.1)),
        ([0.8, 0.1, 0.9, 0.9], 0.2, False, (0.1, 0.2)),  # one lucky value decides nothing
        ([0.8, 0.8, 0.1, 0.1], 0.0, False, (0.0, 0.1)),
        ([0.1, 0.1, 0.1, 0.9], 0.3, True, (0.0, np.inf)),  # the last has no next
        ([0.1, 0.2, 0.3, 0.4], 0.3, True, (0.0, np.inf)),
        ([np.nan, 0.8, 0.8, np.nan], 0.1, False, (0.0, 0.1)),
    ],
)
def test_the_smallest_value_that_works_with_its_next(means, value, censored, between):
    grid = np.array([0.0, 0.1, 0.2, 0.3])
    assert smallest(np.array(means), grid, 0.75) == (value, censored, between)


def made(synthetic, matrix: np.ndarray, scale: float, alphas, lams) -> pa.Table:
    """A table whose normalised score in each cell is exactly the matrix's entry."""
    table = synthetic.block(
        {}, "CartPole", alphas, lams, 2, np.random.default_rng(0), reward_scale=scale, evaluations=1
    )
    i = np.searchsorted(alphas, table["alpha"].to_numpy())
    j = np.searchsorted(lams, table["lam"].to_numpy())
    returns = pa.array([[x] for x in matrix[i, j] * 500 * scale])
    for name in ("returns", "greedy_returns"):
        table = table.set_column(table.column_names.index(name), name, returns)
    return table


def test_each_temperature_is_read_along_the_strip_of_the_other(synthetic):
    alphas, lams = np.array([0.0, 0.1, 0.2, 0.4]), np.array([0.0, 1.0, 2.0, 4.0, 8.0])
    one = np.zeros((4, 5))
    one[2:, :2] = 1.0  # alpha from 0.2 where lam is low
    one[:2, 3:] = 1.0  # lam from 4 where alpha is low
    two = np.zeros((4, 5))
    table = pa.concat_tables(
        [made(synthetic, one, 1.0, alphas, lams), made(synthetic, two, 2.0, alphas, lams)]
    )
    (item,) = landscapes(table)
    got = minimal_temperatures(item, "alpha", 0.75, strip=2)
    assert got == (
        Minimal("CartPole", 500.0, 0.2, False, (0.1, 0.2)),
        Minimal("CartPole x 2", 1000.0, 0.4, True, (0.0, np.inf)),
    )
    got = minimal_temperatures(item, "lam", 0.75, strip=2)
    assert got[0] == Minimal("CartPole", 500.0, 4.0, False, (2.0, 4.0))
    assert got[1].censored
    # A wider strip mixes in cells that fail.
    assert minimal_temperatures(item, "alpha", 0.75, strip=5)[0].censored


def test_values_that_solve_the_task_alone_say_nothing_of_the_other_temperature(synthetic):
    alphas, lams = np.array([0.0, 0.1, 0.2]), np.array([0.0, 1.0, 2.0, 4.0])
    alone = np.zeros((3, 4))
    alone[1:, :] = 1.0  # alpha 0.1 and 0.2 need no lambda
    alone[0, 2:] = 1.0  # without alpha, lambda must be 2
    (item,) = landscapes(made(synthetic, alone, 1.0, alphas, lams))
    (got,) = minimal_temperatures(item, "lam", 0.6, strip=3)
    assert got == Minimal("CartPole", 500.0, 2.0, False, (1.0, 2.0))
    # Nothing is needed at all: that is known.
    (item,) = landscapes(made(synthetic, np.ones((3, 4)), 1.0, alphas, lams))
    (got,) = minimal_temperatures(item, "lam", 0.6, strip=3)
    assert got == Minimal("CartPole", 500.0, 0.0, False, (0.0, 1.0))
    # Without a run at alpha = 0 the task is always solved by alpha alone.
    (item,) = landscapes(made(synthetic, np.ones((2, 4)), 1.0, alphas[1:], lams))
    (got,) = minimal_temperatures(item, "lam", 0.6, strip=2)
    assert not got.known
    # Half way: at alpha = 0 there is one run so far, and the others need no lambda.
    table = made(synthetic, alone, 1.0, alphas, lams)
    some = pc.or_(pc.greater(table["alpha"], 0.0), pc.equal(table["lam"], 0.0))
    (item,) = landscapes(table.filter(some))
    assert not minimal_temperatures(item, "lam", 0.6, strip=3)[0].known
    # Without lambda = 0 nobody knows what alpha does alone.
    (item,) = landscapes(made(synthetic, alone[:, 1:], 1.0, alphas, lams[1:]))
    (got,) = minimal_temperatures(item, "lam", 0.6, strip=3)
    assert got == Minimal("CartPole", 500.0, 1.0, False, (0.0, 1.0))


def test_a_w_of_zero_is_not_an_alpha_of_zero(synthetic):
    ws, lams = np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 2.0])
    table = synthetic.block(
        {"alpha_schedule": "learned"}, "CartPole", ws, lams, 2, np.random.default_rng(0)
    )
    full = pa.array([[500.0] * len(row) for row in table["returns"].to_pylist()])
    for name in ("returns", "greedy_returns"):
        table = table.set_column(table.column_names.index(name), name, full)
    (item,) = landscapes(table)
    assert item.axis == "w"
    (got,) = minimal_temperatures(item, "lam", 0.75, strip=2)
    assert not got.known  # whatever w is, a learned alpha may have done it


def test_bad_choices_are_refused(small):
    item = landscapes(small)[0]
    with pytest.raises(UserError, match="alpha, lam"):
        minimal_temperatures(item, "beta", 0.75)
    with pytest.raises(UserError, match="strip"):
        minimal_temperatures(item, "alpha", 0.75, strip=0)
