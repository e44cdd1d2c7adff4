"""Fixtures of the tests that look at results: one small study, drawn from a made-up truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from mirrorax.runs.results import Results, as_results

GRID = np.array([0.0, 0.01, 0.03, 0.1])
REFERENCE = """
name = "before"
thresholds = [0.9, 0.95]
environments = ["CartPole", "Acrobot", "Catch", "DeepSea"]
cells = 784

[[rows]]
label = "A"
potential = "entropy"
drift = "bregman(max)"
rbst = [0.14, 0.07]

[[rows]]
label = "C"
potential = "entropy"
drift = "kl"
rbst = [0.0747, 0.0327]

[settings]
steps = 16_000_000
"""


def with_curves(table, returns, updates) -> Results:
    """Return the runs of a flat table with learning curves: a list or None for each run."""
    results = as_results(table)
    kind = pa.list_(pa.float64())
    times = [None if each is None else updates for each in returns]
    rows = results.rows.append_column("curve.return", pa.array(returns, kind))
    return replace(results, rows=rows.append_column("curve.update", pa.array(times, kind)))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def small(synthetic):
    """Two algorithms, two environments, a 6 x 7 grid with zeros, 3 seeds, 4 evaluations."""
    return synthetic.study(
        [{}, {"drift": "bregman(max)"}],
        np.random.default_rng(7),
        environments=("CartPole", "Acrobot"),
        alphas=np.array([0.0, 0.001, 0.01, 0.03, 0.1, 1.0]),
        lams=np.array([0.0, 1e-4, 1e-2, 1.0, 5.0, 50.0, 5e4]),
        seeds=3,
        evaluations=4,
    )


@pytest.fixture(scope="session")
def full(synthetic):
    return synthetic.study(
        [{}, {"drift": "bregman(max)"}, {"drift": "forward_kl"}],
        np.random.default_rng(3),
        alphas=GRID,
        lams=GRID,
        seeds=3,
        evaluations=2,
    )
