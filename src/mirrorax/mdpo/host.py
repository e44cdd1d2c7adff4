"""Rollouts and evaluation of environments that are stepped on the host.

The policy, the replay buffer and the update are those of the compiled program; only the steps of
the environments happen outside. A step of all runs costs one call of the policy and one step of
every environment in Python, so this is slower: five times for CartPole, more for heavier ones.

A run depends on its own key alone: its environments are seeded from it, its actions and batches are
drawn as in the compiled program.
"""

from __future__ import annotations

import copy
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, UInt32

from mirrorax.envs.adapter import EPISODES, uniform
from mirrorax.envs.host import Gymnasium, Vector
from mirrorax.errors import UserError
from mirrorax.mdpo import replay
from mirrorax.mdpo.program import Layout, Program
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.train import TrainState, actor_logits, choose_actions, learn, sample_actions

#: Seeds of environments: of the training ones and of those that policies are evaluated in.
_TRAINING, _EVALUATION = 0, 1


def _seeds(key: UInt32[np.ndarray, "2"], purpose: int, count: int) -> Int[np.ndarray, " count"]:
    rng = np.random.default_rng([int(key[0]), int(key[1]), purpose])
    return rng.integers(0, 2**31, count)


@partial(jax.jit, static_argnames=("program",))
def _words(program: Program, keys: Array, k: Int[Array, ""]) -> UInt32[Array, "lanes words"]:
    """Draw the random numbers of an update: one for each action, then those of the batch."""
    settings = program.settings
    count = settings.rollout_length * settings.num_envs + program.words_per_batches
    return jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, k), (count,)))(keys)


@partial(jax.jit, static_argnames=("program",))
def _actions(
    program: Program,
    actors: Float[Array, "lanes p"],
    memory: Num[Array, "lanes envs memory"],
    words: UInt32[Array, "lanes envs"],
) -> Int[Array, "lanes envs"]:
    """Draw an action in each environment of each lane."""

    def lane(actor: Array, remembered: Array, drawn: Array) -> Array:
        logits = actor_logits(program, program.actor.unflatten(actor), remembered)
        return sample_actions(logits, uniform(drawn))

    return jax.vmap(lane)(actors, memory, words)


@partial(jax.jit, static_argnames=("program", "layout"), donate_argnames=("state",))
def _learn(
    program: Program,
    layout: Layout,
    state: TrainState,
    rollout: tuple[Array, Array, Array, Array, Array, Array],
    words: UInt32[Array, "lanes batch"],
    values: Values,
    total: Int[Array, ""],
    active: Int[Array, ""],
) -> TrainState:
    """Write a rollout into the replay buffer and do one update of every run."""
    length = program.settings.rollout_length
    start = state.k * length
    # [time, lanes, envs, ...] -> rows
    rows = jax.vmap(jax.vmap(jax.vmap(partial(replay.pack, program.env))))(*rollout)

    def write(t: Array, buffer: Array) -> Array:
        now = jax.lax.dynamic_index_in_dim(rows, t, axis=0, keepdims=False)
        return replay.write(buffer, now, start + t)

    buffer = jax.lax.fori_loop(0, length, write, state.buffer)
    clock = Clock(state.k, total)
    return learn(program, layout, state, state.env, buffer, words, values, clock, active)


class Host:
    """The environments of the runs of a session."""

    def __init__(self, program: Program, keys: UInt32[np.ndarray, "runs 2"]) -> None:
        assert isinstance(program.env, Gymnasium)
        self._program, self._env = program, program.env
        count = program.settings.num_envs
        self._vectors: list[Vector] = []
        self._memory: list[np.ndarray] = []
        for key in keys:
            vector = self._env.vector(count)
            self._vectors.append(vector)
            self._memory.append(vector.reset(_seeds(key, _TRAINING, count).tolist()))

    def update(
        self, layout: Layout, state: TrainState, keys: Array, values: Values, total: int
    ) -> TrainState:
        """Do one update of every run."""
        settings, lanes, runs = self._program.settings, len(keys), len(self._vectors)
        length, envs = settings.rollout_length, settings.num_envs
        words = _words(self._program, keys, state.k)
        drawn = words[:, : length * envs].reshape(lanes, length, envs)
        # Lanes beyond the runs are padding: they remember nothing and are never updated.
        shape = (length, lanes, envs)
        size, kind = self._env.memory_size, self._env.memory_dtype
        before, after = (np.zeros((*shape, size), kind) for _ in range(2))
        actions, rewards = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
        stops, ends = np.zeros(shape, bool), np.zeros(shape, bool)
        memory = np.zeros((lanes, envs, size), kind)
        memory[:runs] = np.stack(self._memory)
        for t in range(length):
            before[t] = memory
            chosen = np.asarray(
                _actions(self._program, state.learner.actor, jnp.asarray(memory), drawn[:, t])
            )
            actions[t] = chosen
            for run, vector in enumerate(self._vectors):
                step = vector.step(chosen[run])
                after[t, run], memory[run], rewards[t, run] = step.after, step.memory, step.reward
                ended = step.terminated | step.truncated
                stops[t, run] = step.terminated if settings.bootstrap_truncation else ended
                ends[t, run] = ended
        self._memory = list(memory[:runs].copy())
        return _learn(
            self._program,
            layout,
            state,
            tuple(map(jnp.asarray, (before, after, actions, rewards, stops, ends))),
            words[:, length * envs :],
            values,
            jnp.int32(total),
            jnp.int32(runs),
        )

    def select(self, rows: list[int]) -> Host:
        """Return the environments of some runs, as they are now, leaving these alone."""
        other = copy.copy(self)
        try:
            other._vectors = [copy.deepcopy(self._vectors[row]) for row in rows]
        except Exception:  # whatever an environment raises that cannot be copied
            raise UserError(
                f"environment: the state of {self._env.name} cannot be copied, so its runs cannot "
                "be stopped and trained on, nor searched; train once with all the steps"
            ) from None
        other._memory = [self._memory[row].copy() for row in rows]
        return other


@partial(jax.jit, static_argnames=("program", "episodes"))
def _evaluation_actions(
    program: Program,
    episodes: int,
    actor: Float[Array, " p"],
    key: Array,
    memory: Num[Array, "count memory"],
    t: Int[Array, ""],
) -> Int[Array, " count"]:
    """Choose actions in the episodes of one run: the first half drawn, the others greedy."""
    words = jax.random.bits(jax.random.fold_in(key, t), (2 * episodes,))
    greedy = jnp.arange(2 * episodes) >= episodes
    return choose_actions(program, program.actor.unflatten(actor), memory, words, greedy)


def _play(env: Gymnasium, vector: Vector, seeds: Int[np.ndarray, " count"], choose: Any) -> Any:
    """Return the returns of one episode in each environment.

    Where an episode has ended the environment is not stepped any more: a step in Python is what
    costs the time.
    """
    memory = vector.reset(seeds.tolist())
    total, running = np.zeros(len(seeds)), np.ones(len(seeds), bool)
    for t in range(env.max_steps):
        actions = choose(memory, t)
        for place in np.flatnonzero(running).tolist():
            memory[place], reward, ended = vector.step_one(place, actions[place])
            total[place] += reward
            running[place] = not ended
        if not running.any():
            break
    return total


def evaluate(
    program: Program,
    episodes: int,
    actors: Float[Array, "lanes p"],
    keys: UInt32[np.ndarray, "runs 2"],
    jax_keys: Array,
    reward_scale: Float[Array, " lanes"],
) -> tuple[Float[np.ndarray, "runs episodes"], Float[np.ndarray, "runs episodes"]]:
    """Return the returns of stochastic and of greedy episodes of every run, one run at a time.

    Environments are seeded from the runs' `keys`; `jax_keys` are those of `evaluation_keys`.
    """
    assert isinstance(program.env, Gymnasium)
    vector = program.env.vector(2 * episodes)
    totals = []
    for run, key in enumerate(keys):

        def choose(memory: np.ndarray, t: int, run: int = run) -> Any:
            return np.asarray(
                _evaluation_actions(
                    program, episodes, actors[run], jax_keys[run], jnp.asarray(memory), jnp.int32(t)
                )
            )

        total = _play(program.env, vector, _seeds(key, _EVALUATION, 2 * episodes), choose)
        totals.append(total * float(reward_scale[run]))
    vector.close()
    returns = np.stack(totals)
    return returns[:, :episodes], returns[:, episodes:]


@lru_cache(maxsize=64)
def random_return(env: Gymnasium, episodes: int = EPISODES) -> float:
    """Return the mean return of the policy that chooses every action alike."""
    rng = np.random.default_rng(0)
    vector = env.vector(episodes)

    def choose(memory: np.ndarray, t: int) -> Any:
        return rng.integers(0, env.num_actions, episodes)

    total = _play(env, vector, rng.integers(0, 2**31, episodes), choose)
    vector.close()
    return float(total.mean())
