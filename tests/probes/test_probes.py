"""Critics on tiny environments whose Q is known, each about one thing and blind to the others.

The probes of values and actions have gamma 0, so that nothing is bootstrapped; the probe of
discounting never ends; those of the two kinds of end have a gamma so near 1 that discounting hardly
counts. The policy is frozen and nearly uniform, so that every action is tried.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs.adapter import Environment, Step, integer
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.session import Session
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

#: largest distance of a learned value from the known one
TOLERANCE = 0.05
NEVER = jnp.bool_(False)
ALWAYS = jnp.bool_(True)


class Probe(Environment):
    """What the probes have in common: two actions, states that are numbers, seen as one-hot."""

    num_actions, return_bounds = 2, (0.0, 1.0)
    max_steps = 10**6

    def remember(self, state):
        return state[None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(self.states) == memory[0]).astype(jnp.float32)


@dataclass(frozen=True)
class Cycle(Probe):
    """Two states in turn, for ever; the first pays 1, the second nothing."""

    name = "Cycle"
    states = 2

    def reset(self, noise):
        return jnp.int32(0)

    def step(self, state, action, noise):
        return Step(1 - state, 1.0 - state.astype(jnp.float32), NEVER, NEVER)


@dataclass(frozen=True)
class Choice(Probe):
    """One state, one step: pays -1 or +1, by the action, and ends."""

    name = "Choice"
    states = 1

    def reset(self, noise):
        return jnp.int32(0)

    def step(self, state, action, noise):
        return Step(state, 2.0 * action.astype(jnp.float32) - 1.0, ALWAYS, NEVER)


@dataclass(frozen=True)
class Doors(Probe):
    """What lies behind the end of an episode, and whether it counts.

    Three doors pay nothing and end the episode, before the room (3): by truncation (0), by
    termination (1) and by both (2). Other episodes begin in the room, which pays 1 and leads to the
    cellar (4), where nothing is paid and every episode ends: all values there are 0, whatever ends
    and discounting do.
    """

    name = "Doors"
    states = 5
    reset_words = 1

    def reset(self, noise):
        return integer(noise[0], 4)

    def step(self, state, action, noise):
        return Step(
            jnp.where(state < 3, 3, 4),
            (state == 3).astype(jnp.float32),
            (state == 1) | (state == 2) | (state == 4),
            (state == 0) | (state == 2),
        )


def trained(env, gamma, actor_lr=1e-30, updates=600, **fields):
    """Train a little; return the critics' values and the policy's logits of every state."""
    settings = make_settings(
        environment="Catch",
        steps=updates * 32,
        num_envs=8,
        env_steps_per_update=32,
        batch_size=64,
        buffer_size=2048,
        hidden=(16,),
        tau=0.5,
        **fields,
    )
    program = make_program(settings, env)
    columns = {
        "alpha": [0.0],
        "lam": [0.0],
        "gamma": [gamma],
        "actor_lr": [actor_lr],
        "critic_lr": [0.01],
    }
    session = Session(
        make_chunk(settings, columns, 1, np.array([[1, 2]], np.uint32)), program=program
    )
    session.run()
    learner, seen = session._state.learner, jnp.eye(env.observation_size)
    q = [np.asarray(program.critic(critic, seen).T) for critic in learner.critics[0]]
    return q, np.asarray(program.actor(learner.actor[0], seen).T)


def check(critics, expected):
    for q in critics:
        np.testing.assert_allclose(q, np.broadcast_to(expected, q.shape), atol=TOLERANCE)


def test_discounting():
    """Q(first) = 1 + gamma Q(second), Q(second) = gamma Q(first)."""
    gamma = 0.5
    critics, _ = trained(Cycle(), gamma)
    check(critics, np.array([[1.0], [gamma]]) / (1 - gamma**2))


def test_values_depend_on_the_action():
    critics, _ = trained(Choice(), gamma=0.0)
    check(critics, [[-1.0, 1.0]])


def test_the_policy_takes_the_better_action():
    _, logits = trained(Choice(), gamma=0.0, actor_lr=0.01)
    odds = logits[0, 1] - logits[0, 0]
    assert odds > np.log(20)


GAMMA = 0.98  # a value with or without it differs by less than the tolerance


@pytest.mark.parametrize("bootstrap", [True, False])
def test_what_follows_a_truncation_counts_unless_it_shall_not_and_a_termination_never(bootstrap):
    """Where both are true it is a termination."""
    critics, _ = trained(Doors(), GAMMA, updates=1000, bootstrap_truncation=bootstrap)
    check(critics, [[GAMMA if bootstrap else 0.0], [0.0], [0.0], [1.0], [0.0]])
