"""The pictures of regularisers show the numbers they should."""

from __future__ import annotations

import numpy as np
import pytest
import scripts
from matplotlib.figure import Figure

PICTURES = scripts.load("docs/simplex_pictures.py")


@pytest.mark.parametrize("name", ["entropy", "lp(2)", "max", "zero"])
def test_potentials_draw(name):
    ax = Figure().add_subplot()
    assert PICTURES.potential_on_simplex(name, ax, resolution=20) is ax
    assert ax.get_title().startswith(f"h = {name}, ")


@pytest.mark.parametrize("name", ["kl", "forward_kl", "squared_tv", "zero"])
def test_drifts_draw_with_the_old_policy_in_its_place(name):
    ax = Figure().add_subplot()
    q = np.array([0.5, 0.3, 0.2])
    assert PICTURES.drift_on_simplex(name, q, ax, resolution=20) is ax
    dot = next(line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(np.ravel(dot.get_data()), q @ PICTURES.CORNERS)
    assert ax.get_title() == f"D = {name}"
