"""Critics on questions whose answer is known, each about one thing."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs.adapter import Environment, Step, integer
from mirrorax.mdpo.config import make_settings
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.session import Session

CONSTANT, FIRST, SECOND, CHOICE, LIMIT, LAST, RICH = range(7)
GAMMA = 0.5


@dataclass(frozen=True)
class Questions(Environment):
    """Six one-state questions that never meet, and a state that is only ever looked at.

    CONSTANT  pays 1 and ends                                        Q = 1
    FIRST     pays 0, leads to SECOND, which pays 1 and ends         Q = gamma, then 1
    CHOICE    pays -1 or +1, by the action, and ends                 Q = -1, +1
    LIMIT     pays 1 and is cut off by time, in the same state       Q = 1 / (1 - gamma)
    LAST      pays 0 and ends, its next observation that of RICH     Q = 0
    RICH      pays 4 and ends                                        Q = 4
    """

    name = "Questions"
    num_actions, return_bounds, max_steps = 2, (0.0, 1.0), 2
    reset_words, step_words = 1, 0
    memory_size, memory_dtype = 1, "uint8"
    observation_size = 7

    def reset(self, noise):
        starts = jnp.asarray([CONSTANT, FIRST, CHOICE, LIMIT, LAST, RICH])
        return starts[integer(noise[0], 6)]

    def step(self, state, action, noise):
        pays = jnp.asarray([1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 4.0])[state]
        pays = jnp.where(state == CHOICE, 2.0 * action - 1, pays).astype(jnp.float32)
        after = jnp.asarray([CONSTANT, SECOND, SECOND, CHOICE, LIMIT, RICH, RICH])[state]
        terminated = (state != FIRST) & (state != LIMIT)
        return Step(after, pays, terminated, state == LIMIT)

    def remember(self, state):
        return state[None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(7) == memory[0]).astype(jnp.float32)


def trained(settings, program, columns):
    session = Session(settings, np.array([[1, 2]], np.uint32), columns, lanes=1, program=program)
    session.run()
    seen = jnp.eye(7)
    q = [program.critic(p, seen).T for p in session._state.learner.critics[0]]
    return np.asarray(q), np.asarray(program.actor(session._state.learner.actor[0], seen).T)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_critics_find_the_known_values(bootstrap):
    settings = make_settings(
        environment="probes:Questions",
        steps=800 * 64,
        env_steps_per_update=64,
        batch_size=128,
        buffer_size=4096,
        hidden=(32,),
        bootstrap_truncation=bootstrap,
        tau=0.5,
    )
    program = make_program(settings, Questions())
    columns = {"alpha": [0.0], "lam": [0.0], "gamma": [GAMMA], "critic_lr": [0.01]}
    q, logits = trained(settings, program, columns)
    best = logits[CHOICE].argmax()
    assert best == 1, "the policy takes the action that pays"
    limit = 1 / (1 - GAMMA) if bootstrap else 1.0
    expected = np.zeros((7, 2))
    expected[[CONSTANT, FIRST, SECOND, LIMIT, LAST, RICH]] = np.array(
        [[1], [GAMMA], [1], [limit], [0], [4]]
    )
    expected[CHOICE] = -1, 1
    # The policy soon takes one action in CHOICE; its other value was learned while it explored.
    for critic in q:
        np.testing.assert_allclose(critic, expected, atol=0.1)
