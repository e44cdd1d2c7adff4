"""A long rollout on a board looks its policy up in a table: the same run, bit for bit."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs import adapter
from mirrorax.mdpo import train
from mirrorax.mdpo.program import Program, make_program
from mirrorax.mdpo.session import Session
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


class Tableless(Program):
    """A program that asks the network at every step."""

    table_rounds = None


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
    without = Tableless(**{each.name: getattr(program, each.name) for each in fields(program)})
    assert program.table_rounds
    columns = {"alpha": np.geomspace(0.001, 1, 5), "lam": np.linspace(0, 2, 5)}
    chunk = make_chunk(settings, columns, 8, some_keys(5))
    policies = []
    for each in (program, without):
        session = Session(chunk, layout=layout, program=each)
        session.run()
        policies.append(session.policies)
    np.testing.assert_array_equal(*policies)
