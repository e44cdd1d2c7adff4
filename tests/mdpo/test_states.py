"""A large batch asks its networks once at every state of a board: the same update."""

from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs.adapter import Environment, Step
from mirrorax.mdpo import replay
from mirrorax.mdpo.program import Program, make_program, make_values
from mirrorax.mdpo.schedules import Clock
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.update import init_learner, update_on_batches
from mirrorax.runs.chunk import make_chunk


class AtEveryTransition(Program):
    """A program that asks the networks at every transition of a batch."""

    num_memories = None


def random_rows(env, count, rng):
    """Make replay rows between any two states of a board."""
    before, after = (
        np.stack([rng.integers(0, bound, count) for bound in env.memory_bounds], axis=-1)
        for _ in range(2)
    )
    terminated, ended = rng.random(count) < 0.2, rng.random(count) < 0.3
    return jax.vmap(lambda *each: replay.pack(env, *each))(
        *(jnp.asarray(memory, jnp.uint8) for memory in (before, after)),
        jnp.asarray(rng.integers(0, env.num_actions, count), jnp.int32),
        jnp.asarray(rng.normal(size=count), jnp.float32),
        terminated,
        terminated | ended,
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"clipping": "joint", "max_grad_norm": 0.1},
        {"drift": "bregman(max)", "twin_critics": False, "critic_target": "paper"},
        {
            "environment": "DeepSea(3)",
            "critic_target": "printed",
            "temperature_units": "q_spread",
            "batches_per_update": 2,
            "drift_from": "update",
        },
        {"actor_q": "unregularized", "alpha_schedule": "learned", "critic_epochs": 2},
        {"potential": "to(uniform, chi_square)", "activation": "relu"},
    ],
    ids=lambda settings: ", ".join(settings),
)
def test_an_update_that_asks_at_every_state_is_the_one_that_asks_at_every_transition(
    small, settings
):
    settings = small(batch_size=64, initialization="uniform", **settings)
    program, rng = make_program(settings), np.random.default_rng(0)
    rows = [random_rows(program.env, 64, rng) for _ in range(settings.batches_per_update)]
    columns = {"alpha": 0.3, "lam": 0.7, "w": 0.5, "actor_lr": 0.01, "critic_lr": 0.01}
    values = make_values({name: [value] for name, value in columns.items()}, 1)
    values = jax.tree.map(lambda x: x[0], values)
    critics, targets = (
        jnp.asarray(np.stack([program.critic.init(rng) for _ in range(program.num_critics)]))
        for _ in range(2)
    )
    actor = jnp.asarray(program.actor.init(rng))
    before = init_learner(program, actor, critics, values)._replace(targets=targets)
    update = jax.jit(update_on_batches, static_argnums=0)
    clock = Clock(jnp.int32(2), jnp.int32(10))
    assert program.num_memories
    changed = {each.name: getattr(program, each.name) for each in fields(program)}
    ours, other = (
        update(each, before, jnp.stack(rows), values, clock)[0]
        for each in (program, AtEveryTransition(**changed))
    )
    assert np.abs(ours.actor - before.actor).max() > 0.01
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6)


def test_states_are_asked_once_only_where_a_batch_is_larger_and_sums_keep_their_order(
    small, monkeypatch
):
    def memories(**fields):
        return make_program(small(**fields)).num_memories

    assert memories(batch_size=37) == 36  # 4 x 3 x 3
    assert memories(batch_size=36) is None
    assert memories(environment="CartPole", batch_size=100) is None
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert memories(batch_size=37) is None


@dataclass(frozen=True)
class Share(Environment):
    """The share of games that were won so far: of no game at all, a state that never is, NaN."""

    name = "Share"
    num_actions = 2
    return_bounds = (0.0, 1.0)
    max_steps = 5
    memory_bounds = (6, 7)
    first: int = 1

    def reset(self, noise):
        return jnp.int32(0), jnp.int32(self.first)

    def step(self, state, action, noise):
        won, played = state[0] + action, state[1] + 1
        return Step((won, played), action / 5.0, played >= 6, jnp.bool_(False))

    def remember(self, state):
        return jnp.stack(state).astype(jnp.uint8)

    def observe(self, memory):
        won, played = memory.astype(jnp.float32)
        return jnp.stack([won / played, played / 6])


@pytest.mark.parametrize(("first", "diverges"), [(1, False), (0, True)])
def test_a_state_without_an_observation_matters_where_it_is_reached(
    small, some_keys, first, diverges
):
    program = make_program(small(batch_size=64), env=Share(first))
    assert program.num_memories == 42
    session = Session(make_chunk(program.settings, {}, 2, some_keys(2)), program=program)
    session.advance(3)
    assert (session.diverged_at >= 0).tolist() == [diverges] * 2
