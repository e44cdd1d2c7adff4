"""The reference of a learned lambda's target, against formulas of its own."""

import numpy as np
import pytest
from scipy.stats import entropy

from mirrorax.errors import UserError
from mirrorax.regularizers import drift
from mirrorax.regularizers.drifts import reference_drift


@pytest.mark.parametrize("n", [2, 3, 18])
def test_the_reference_of_each_drift(n):
    u = np.full(n, 1 / n)
    half = (np.eye(n)[0] + u) / 2
    expected = {
        "kl": np.log(n) - entropy(half),
        "forward_kl": np.log(2) - np.log(1 + 1 / n) / n + (1 - 1 / n) * np.log(n) - np.log(n),
        "bregman(lp(2))": (1 - 1 / n) / 4,
        "bregman(max)": 0.5,
        "squared_tv": (1 - 1 / n) ** 2 / 4,
    }
    for name, value in expected.items():
        assert reference_drift(drift(name), n) == pytest.approx(value, rel=1e-9), name
    assert reference_drift(drift("forward_kl"), n) == pytest.approx(entropy(u, half))


def test_without_a_drift_there_is_no_target():
    with pytest.raises(UserError, match="zero has 0 for half a step"):
        reference_drift(drift("zero"), 3)
