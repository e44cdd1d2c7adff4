"""Points of the simplex and names of regularisers that several test modules draw from."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis.extra.numpy import arrays

from mirrorax.paper.axes import PAIRS

#: the pairs (h, D) of the paper's Table 1, in its order
TABLE_1 = list(PAIRS.values())
POTENTIALS = [
    "entropy",
    "tsallis(0.1)",
    "tsallis(0.5)",
    "tsallis(1)",
    "tsallis(1.000001)",
    "tsallis(1.5)",
    "lp(1)",
    "lp(1.3)",
    "lp(2)",
    "lp(5)",
    "max",
    "zero",
]
SMOOTH = [name for name in POTENTIALS if name != "max"]
DRIFTS = [
    *("kl", "forward_kl", "chi_square", "squared_tv", "zero"),
    *(f"bregman({h})" for h in POTENTIALS),
]


def simplex(n: int, smallest: float = 0.0):
    """A strategy for probability vectors of n entries, none below `smallest` / n."""
    weights = arrays(float, n, elements=st.floats(0, 1, allow_subnormal=False))

    def normalise(w):
        w = w + smallest
        return w / w.sum()

    return weights.filter(lambda w: w.sum() > 1e-3).map(normalise)


def dirichlet(seed: int, rows: int, n: int, concentration: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(n, concentration), rows)
