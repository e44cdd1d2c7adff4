"""The replay buffer: nothing is lost, mixed up or made up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.envs import boards, physics
from mirrorax.mdpo import replay
from mirrorax.runs.settings import make_settings


@pytest.mark.parametrize("env", [boards.Catch(10, 5), boards.DeepSea(8), physics.CartPole()])
def test_a_row_reads_back_to_the_transition(env):
    rng = np.random.default_rng(0)
    count = 50
    if env.memory_dtype == "uint8":
        limits = [5, 10, 5] if env.memory_size == 3 else [8, 8]
        memories = [rng.integers(0, limits, (count, len(limits))).astype(np.uint8) for _ in "ab"]
    else:
        memories = [rng.standard_normal((count, 4)).astype(np.float32) for _ in "ab"]
    action = rng.integers(0, env.num_actions, count).astype(np.int32)
    reward = rng.standard_normal(count).astype(np.float32)
    stops, cut = rng.random((2, count)) < 0.3
    rows = jax.vmap(lambda *parts: replay.pack(env, *parts))(
        *map(jnp.asarray, (*memories, action, reward, stops, stops | cut))
    )
    assert rows.shape == (count, replay.width(env))
    batch = replay.unpack(env, rows)
    np.testing.assert_array_equal(batch.action, action)
    np.testing.assert_array_equal(batch.reward, reward)
    np.testing.assert_array_equal(batch.follows, 1.0 - stops)
    np.testing.assert_array_equal(batch.ended, stops | cut)
    for seen, memory in zip((batch.observation, batch.next_observation), memories, strict=True):
        np.testing.assert_array_equal(seen, jax.vmap(env.observe)(jnp.asarray(memory)).T)


@pytest.mark.parametrize("slots", [7, 16])
def test_the_ring_wraps_and_each_lane_draws_from_its_own_newest(slots):
    lanes, envs = 3, 4
    buffer = jnp.full((slots, lanes, envs, 1), -1.0)
    draw = jax.jit(replay.sample)
    words = jnp.asarray(np.random.default_rng(0).integers(0, 2**32, (lanes, 600)), jnp.uint32)
    for position in range(3 * slots + 2):
        tag = 1000.0 * position + jnp.arange(lanes * envs).reshape(lanes, envs, 1)
        buffer = replay.write(buffer, tag, jnp.int32(position))
        if position in (0, 2, slots - 1, slots, 3 * slots + 1):
            rows = np.asarray(draw(buffer, words, jnp.int32(position + 1)))[..., 0]
            kept = range(max(0, position - slots + 1), position + 1)
            for lane in range(lanes):
                expected = {1000.0 * t + lane * envs + e for t in kept for e in range(envs)}
                assert set(rows[lane]) == expected


@pytest.mark.parametrize(("name", "megabytes"), [("CartPole", 4), ("DeepSea", 8), ("Catch", 16)])
def test_memory_of_a_lane(name, megabytes):
    from mirrorax.envs.adapter import make

    env, settings = make(name), make_settings(environment=name)
    entries = settings.replay_slots * settings.num_envs * replay.width(env)
    assert settings.replay_slots * settings.num_envs == 100_000
    assert entries * np.dtype(env.memory_dtype).itemsize <= megabytes * 10**6
