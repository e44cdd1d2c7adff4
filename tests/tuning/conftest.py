"""Made-up results whose good temperatures are known."""

from __future__ import annotations

import numpy as np
import pytest

from mirrorax.tuning.evidence import ScoreMap

ALPHAS = np.geomspace(1e-4, 10, 21)
LAMS = np.geomspace(1e-3, 1e3, 25)


def bump(environment, alpha, lam, *, pair=("entropy", "kl"), width=0.5, height=1.0):
    """A map with one round peak of known place."""
    a = np.log10(ALPHAS / alpha)[:, None] / width
    b = np.log10(LAMS / lam)[None, :] / width
    scores = height * np.exp(-(a**2 + b**2))
    runs = np.full(scores.shape, 5)
    return ScoreMap(*pair, environment, ALPHAS, LAMS, scores, runs, noise=1e-4)


@pytest.fixture(scope="session")
def study(synthetic):
    """Runs of two pairs on the paper's four environments, a coarse grid, and two scheduled ones."""
    return synthetic.study(
        [{}, {"drift": "bregman(max)"}, {"alpha_schedule": "linear"}, {"actor_q": "unregularized"}],
        np.random.default_rng(3),
        alphas=np.array([0.0, 0.003, 0.01, 0.03, 0.1, 1.0]),
        lams=np.array([0.0, 1e-3, 0.1, 1.0, 5.0, 50.0, 5e3]),
        seeds=3,
        evaluations=4,
    )


@pytest.fixture(scope="session")
def make_bump():
    return bump
