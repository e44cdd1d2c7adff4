"""The exact solver with a lambda that keeps the drift at a target."""

import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.regularizers import drift
from mirrorax.regularizers.drifts import reference_drift
from mirrorax.tabular import LearnedLam, garnet, solve


@pytest.mark.parametrize("name", ["kl", "forward_kl", "bregman(tsallis(1.5))", "squared_tv"])
def test_the_drift_of_early_steps_is_kept_at_its_target(name):
    mdp = garnet(8, 3, branching=3, gamma=0.95, seed=1)
    v = 0.002
    trace = solve(mdp, "zero", name, 0.0, LearnedLam(v, rate=0.5), 60)
    d = drift(name)
    moved = np.asarray(d.value(trace.policies[1:], trace.policies[:-1])).mean(-1)
    share = moved / (v * reference_drift(d, 3))
    # Once lambda has been found, and before the policy is decided and has nowhere to go.
    assert np.median(np.abs(np.log(share[12:25]))) < 0.25
    assert (np.diff(np.log(trace.lams)) <= 0.5 + 1e-12).all()


def test_it_converges_and_lambda_falls_where_nothing_is_left_to_do():
    mdp = garnet(6, 2, branching=2, gamma=0.9, seed=2)
    trace = solve(mdp, "entropy", "kl", 0.1, LearnedLam(0.05), 80)
    assert trace.gap[-1] < 1e-6 * trace.gap[0]
    assert trace.lams[-1] < 1e-3 * trace.lams.max()
    assert trace.promised_rate is None


def test_every_temperature_of_a_grid_finds_its_own():
    mdp = garnet(6, 2, branching=2, gamma=0.9, seed=3)
    alphas = np.array([0.01, 0.1, 1.0])
    grid = solve(mdp, "entropy", "kl", alphas, LearnedLam(0.01), 20)
    for k, alpha in enumerate(alphas):
        alone = solve(mdp, "entropy", "kl", alpha, LearnedLam(0.01), 20)
        np.testing.assert_allclose(grid.lams[:, k], alone.lams, rtol=1e-9)


def test_an_annealed_target_ends_with_smaller_steps():
    mdp = garnet(6, 2, branching=2, gamma=0.9, seed=4)
    plain, falling = (
        solve(mdp, "zero", "kl", 0.0, LearnedLam(0.002, annealed=a), 40).policy_change
        for a in (False, True)
    )
    assert falling[30:36].mean() < plain[30:36].mean()


@pytest.mark.parametrize("fields", [{"v": 0.0}, {"v": 2}, {"v": 0.1, "rate": 0}])
def test_mistakes(fields):
    with pytest.raises(UserError, match="is not allowed"):
        LearnedLam(**fields)
    mdp = garnet(3, 2, branching=2, gamma=0.9, seed=5)
    with pytest.raises(UserError, match="needs a drift that grows"):
        solve(mdp, "entropy", "zero", 0.1, LearnedLam(0.1), 3)
