"""The example of fine-tuning under a reference: what its frontiers claim, and that runs agree."""

import numpy as np
import pytest
import scripts

import mirrorax


@pytest.fixture(scope="module")
def example():
    return scripts.load("examples/fine_tuning.py")


@pytest.fixture(scope="module")
def reference():
    return np.random.default_rng(0).dirichlet(np.ones(5), 12)


@pytest.mark.parametrize("name", ["kl", "forward_kl", "chi_square", "bregman(lp(2))"])
def test_a_smaller_alpha_buys_reward_for_distance(example, reference, name):
    """From the reference's own reward to the best there is."""
    reward, distance = example.exact_frontier(name, reference, np.geomspace(1e-5, 1e3, 60))
    assert (np.diff(reward) <= 1e-9).all()
    assert (np.diff(distance) <= 1e-9).all()
    second = example.REWARDS[1]
    assert reward[-1] == pytest.approx((reference * second).sum(-1).mean(), abs=1e-3)
    assert distance[-1] < 1e-3
    assert reward[0] == pytest.approx(second.max(-1).mean(), abs=1e-3)


def test_at_the_same_kl_no_divergence_earns_more_than_kl(example, reference):
    """KL's frontier is the optimal one, because distance is measured in KL."""
    alphas = np.geomspace(1e-4, 1e3, 400)
    best, distance = example.exact_frontier("kl", reference, alphas)
    for name in example.DIVERGENCES[1:]:
        reward, far = example.exact_frontier(name, reference, alphas)
        assert (reward <= np.interp(far, distance[::-1], best[::-1]) + 2e-3).all()


def test_learned_policies_come_to_the_exact_frontier(example, tmp_path):
    mirrorax.register_environment("Prompts", example.Prompts)
    reference = example.train_reference(str(tmp_path / "first"), 8 * 1024)
    policies = example.learned_points("kl", str(tmp_path / "first"), (0.3, 1.0), 2, 12 * 1024)
    reward, distance = example.reward_and_distance(policies, reference)
    exact, far = example.exact_frontier("kl", reference, np.array([0.3, 1.0]))
    np.testing.assert_allclose(reward, np.stack([exact] * 2, axis=1), atol=0.02)
    np.testing.assert_allclose(distance, np.stack([far] * 2, axis=1), atol=0.05)
