"""On a board a long rollout looks its policy up in a table: the same run, bit for bit.

An update with a large batch asks its networks once at every state: the same update, rounded
differently.
"""

from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs import adapter
from mirrorax.envs.adapter import Environment, Step
from mirrorax.mdpo import replay, train
from mirrorax.mdpo.program import Program, make_program, make_values
from mirrorax.mdpo.schedules import Clock
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.update import init_learner, update_on_batches
from mirrorax.runs.chunk import make_chunk

BOARDS = ("Catch(4x3)", "Catch(5x4)", "DeepSea(3)", "DeepSea")


@pytest.mark.parametrize("name", BOARDS)
def test_memories_stay_within_their_bounds_and_reach_them(name):
    env = adapter.make(name)
    rng = np.random.default_rng(0)
    # Rightwards more often than not, or nobody reaches the last column of DeepSea.
    actions = rng.choice(env.num_actions, 2000, p=_rightwards(env.num_actions)).astype(np.int32)
    words = rng.integers(0, 2**32, (2000, env.reset_words), dtype=np.uint32)

    def play(state, drawn):
        action, words = drawn
        after = env.step(state, action, jnp.zeros(env.step_words, jnp.uint32))
        ended = after.terminated | after.truncated
        memories = jnp.stack([env.remember(state), env.remember(after.state)])
        fresh = env.reset(words)
        return jax.tree.map(lambda a, b: jnp.where(ended, a, b), fresh, after.state), memories

    first = env.reset(jnp.asarray(words[0]))
    _, memories = jax.lax.scan(play, first, (jnp.asarray(actions), jnp.asarray(words)))
    highest = np.asarray(memories, int).max(axis=(0, 1))
    assert tuple(highest + 1) == env.memory_bounds


def _rightwards(actions):
    return [0.1] * (actions - 1) + [1 - 0.1 * (actions - 1)]


def test_a_table_is_made_only_where_it_is_less_work(small):
    def rounds(**fields):
        return make_program(small(**fields)).table_rounds

    # 4 x 3 x 3 memories; 4 or 16 steps in each of 4 environments
    assert rounds(steps_counted="total") is None
    assert rounds(steps_counted="per_env") == 9
    assert rounds(steps_counted="per_env", env_steps_per_update=9) is None
    assert rounds(steps_counted="per_env", env_steps_per_update=10) == 9
    assert rounds(steps_counted="per_env", environment="Catch(10x5)") is None
    assert rounds(steps_counted="per_env", environment="CartPole") is None


@pytest.mark.parametrize("name", ["Catch(5x4)", "DeepSea"])
def test_the_table_holds_the_networks_logits(small, name):
    settings = small(
        environment=name, steps_counted="per_env", env_steps_per_update=64, buffer_size=999
    )
    program = make_program(settings)
    assert program.table_rounds
    rng = np.random.default_rng(7)
    actors = jnp.asarray(np.stack([program.actor.init(rng) for _ in range(3)]), jnp.float32)
    table = jax.jit(lambda a: train.rollout_policies(program, a))(actors)
    memories = jnp.asarray(list(np.ndindex(*program.env.memory_bounds)), jnp.uint8)
    seen = jax.vmap(program.env.observe, out_axes=-1)(memories)
    for lane in range(3):
        asked = program.actor(actors[lane], seen)
        np.testing.assert_allclose(table[lane, : len(memories)], asked.T, atol=1e-6)
        found = train.policy_logits(program, table[lane], memories)
        np.testing.assert_array_equal(found.T, table[lane, : len(memories)])


class AtEveryStep(Program):
    """A program that asks the network at every step of a rollout."""

    table_rounds = None


class AtEveryTransition(Program):
    """A program that asks the networks at every transition of a batch."""

    num_memories = None


def changed(program, kind):
    return kind(**{each.name: getattr(program, each.name) for each in fields(program)})


@pytest.mark.parametrize(
    ("name", "layout", "hidden"),
    [
        ("Catch(4x3)", "map", (64, 64)),
        ("DeepSea(3)", "map", (16, 16)),
        ("Catch(5x4)", "vmap", (8,)),
    ],
)
def test_a_run_with_the_table_is_the_run_without(small, some_keys, name, layout, hidden):
    settings = small(
        environment=name,
        steps_counted="per_env",
        steps=256 * 30,
        env_steps_per_update=64,
        buffer_size=999,
        hidden=hidden,
    )
    program = make_program(settings)
    without = changed(program, AtEveryStep)
    assert program.table_rounds
    columns = {"alpha": np.geomspace(0.001, 1, 5), "lam": np.linspace(0, 2, 5)}
    chunk = make_chunk(settings, columns, 8, some_keys(5))
    policies = []
    for each in (program, without):
        session = Session(chunk, layout=layout, program=each)
        session.run()
        policies.append(session.policies)
    np.testing.assert_array_equal(*policies)


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
    ours, other = (
        update(each, before, jnp.stack(rows), values, clock)[0]
        for each in (program, changed(program, AtEveryTransition))
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
