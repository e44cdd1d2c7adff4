"""The trainer against the exact solver, on boards small enough for both."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax import tabular
from mirrorax.mdpo.session import Session
from mirrorax.regularizers import potential
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

GAMMA = 0.9
ALPHA = 0.2

BOARDS = {
    "Catch(5x3)": lambda: tabular.catch(5, 3, gamma=GAMMA),
    "DeepSea(4)": lambda: tabular.deepsea(4, gamma=GAMMA),
}


def run(name, updates, columns, sharper=1.0, **fields):
    settings = make_settings(
        environment=name,
        steps=updates * 64,
        env_steps_per_update=64,
        batch_size=128,
        buffer_size=6400,
        hidden=(48,),
        tau=0.8,
        **fields,
    )
    columns = {"gamma": [GAMMA], "alpha": [ALPHA], **columns}
    session = Session(make_chunk(settings, columns, 1, np.array([[1, 2]], np.uint32)))
    learner = session._state.learner
    session._state = session._state._replace(
        learner=learner._replace(actor=sharper * learner.actor)
    )
    session.run()
    return session


def softmax(logits):
    p = np.exp(np.asarray(logits, float) - np.asarray(logits, float).max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def visited(mdp, policy):
    """Weights of the states a policy comes through, without discount."""
    weight, now = np.zeros(mdp.num_states), mdp.initial * mdp.alive
    while now.sum() > 1e-12:
        weight += now
        now = np.einsum("s,sa,sat->t", now, policy, mdp.transitions) * mdp.alive
    return weight / weight.sum()


def exact_values(mdp, policy, alpha):
    """Return the exact Q of every target the critics can be configured for."""
    values = tabular.evaluate(mdp, policy, "entropy", alpha)
    # As printed, h of the next state is charged without discount, and after the end too: the plain
    # Q of an MDP that pays so much less for the transition.
    charge = alpha * mdp.transitions @ potential("entropy").value(policy)
    printed = dataclasses.replace(mdp, rewards=mdp.rewards - charge)
    return {
        "sac": values.q_sac,
        "paper": values.q,
        "printed": tabular.evaluate(printed, policy).q,
        "unregularized": tabular.evaluate(mdp, policy).q,
    }


@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("Catch(5x3)", "unregularized"),
        ("DeepSea(4)", "sac"),
        ("DeepSea(4)", "paper"),
        ("DeepSea(4)", "printed"),
    ],
)
def test_with_a_fixed_policy_the_critics_reach_the_exact_q_of_their_target(name, reading):
    """Root mean square error over the visited states and actions below 0.03.

    The policy is one that is certain in some states and not in others, and alpha is 1: the values
    of the four targets are then further apart than four times that.
    """
    mdp = BOARDS[name]()
    columns = {"actor_lr": [1e-30], "critic_lr": [0.005], "alpha": [1.0]}
    plain = reading == "unregularized"
    field = {"actor_q": reading} if plain else {"critic_target": reading}
    session = run(name, 2000, columns, sharper=4.0, initialization="uniform", **field)
    seen = jnp.asarray(mdp.observations, jnp.float32).T
    policy = softmax(session.program.actor(session._state.learner.actor[0], seen).T)
    weight = visited(mdp, policy)[:, None] * policy

    def distance(found, expected):
        return np.sqrt((weight * (found - expected) ** 2).sum())

    expected = exact_values(mdp, policy, 1.0)
    for critic in session._state.learner.critics[0]:
        found = np.asarray(session.program.critic(critic, seen).T, float)
        assert distance(found, expected[reading]) < 0.03
    for other in expected.keys() - {reading}:
        assert distance(expected[other], expected[reading]) > 0.12, other


@pytest.mark.parametrize(
    ("name", "h", "d"),
    [("Catch(5x3)", "entropy", "kl"), ("DeepSea(4)", "lp(2)", "bregman(lp(2))")],
)
def test_training_approaches_the_exact_regularised_optimum(name, h, d):
    """The regularised value of the learned policy is within 3% of the range of returns."""
    mdp = BOARDS[name]()
    columns = {"lam": [0.5], "actor_lr": [0.01], "critic_lr": [0.01]}
    session = run(name, 5000, columns, potential=h, drift=d)
    seen = jnp.asarray(mdp.observations, jnp.float32).T
    policy = softmax(session.program.actor(session._state.learner.actor[0], seen).T)
    found = mdp.initial @ tabular.evaluate(mdp, policy, h, ALPHA).v
    best = mdp.initial @ tabular.optimum(mdp, potential(h), ALPHA).v
    low, high = session.program.env.return_bounds
    assert found <= best + 1e-6
    assert best - found < 0.03 * (high - low)
