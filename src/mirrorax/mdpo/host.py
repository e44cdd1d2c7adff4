"""Rollouts and evaluation of environments that are stepped on the host.

The policy, the replay buffer and the update are those of the compiled program; only the steps of
the environments happen outside. A step of all runs costs one call of the policy and one step of
every environment in Python, so this is slower: five times for CartPole, more for heavier ones.

A run depends on its own key alone: its environments are seeded from it, its actions and batches are
drawn as in the compiled program.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Num, UInt32

from mirrorax.envs.adapter import EPISODES, Step, uniform
from mirrorax.envs.host import Gymnasium, Hosted
from mirrorax.errors import UserError
from mirrorax.mdpo import replay
from mirrorax.mdpo.program import Layout, Program
from mirrorax.mdpo.replay import Stepped, as_rows
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.train import (
    TrainState,
    actor_logits,
    choose_actions,
    draw_words,
    learn,
    sample_actions,
)

#: Seeds of environments: of the training ones and of those that policies are evaluated in.
_TRAINING, _EVALUATION = 0, 1


def _seeds(key: UInt32[np.ndarray, "2"], purpose: int, count: int) -> Int[np.ndarray, " count"]:
    rng = np.random.default_rng([int(key[0]), int(key[1]), purpose])
    return rng.integers(0, 2**31, count)


def _start(environments: list[Hosted], seeds: Int[np.ndarray, " count"]) -> Any:
    """Return the memories of the first states, [environment, memory]."""
    return np.stack([*map(Hosted.reset, environments, seeds.tolist())])


_words = jax.jit(draw_words, static_argnames=("program",))


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
    rollout: Stepped,
    words: UInt32[Array, "lanes batch"],
    values: Values,
    total: Int[Array, ""],
    active: Int[Array, ""],
) -> TrainState:
    """Write a rollout, [time, lanes, envs], into the buffer and do one update of every run."""
    length = program.settings.rollout_length
    start = state.k * length
    rows = jax.vmap(jax.vmap(partial(as_rows, program)))(rollout)

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
        self._environments = [[Hosted(program.env) for _ in range(count)] for _ in keys]
        seeds = [_seeds(key, _TRAINING, count) for key in keys]
        self._memory = np.stack([*map(_start, self._environments, seeds)])

    def update(
        self, layout: Layout, state: TrainState, keys: Array, values: Values, total: int
    ) -> TrainState:
        """Do one update of every run."""
        settings, lanes, runs = self._program.settings, len(keys), len(self._environments)
        length, envs = settings.rollout_length, settings.num_envs
        drawn, words = _words(self._program, keys, state.k)
        # Lanes beyond the runs are padding: they remember nothing and are never updated.
        shape = (length, lanes, envs)
        size, kind = self._env.memory_size, self._env.memory_dtype
        states = np.zeros((2, *shape, size), kind)
        rest: Any = (np.zeros(shape, each) for each in (np.int32, np.float32, bool, bool))
        rollout: Any = Stepped(states[0], next(rest), Step(states[1], *rest))
        memory = np.zeros((lanes, envs, size), kind)
        memory[:runs] = self._memory
        for t in range(length):
            rollout.before[t] = memory
            chosen = np.asarray(
                _actions(self._program, state.learner.actor, jnp.asarray(memory), drawn[:, t, 0])
            )
            rollout.action[t] = chosen
            for run, environments in enumerate(self._environments):
                for place, env in enumerate(environments):
                    step = env.step(chosen[run, place])
                    for array, value in zip(rollout.after, step, strict=True):
                        array[t, run, place] = value
                    memory[run, place] = env.reset() if step.ended else step.state
        self._memory = memory[:runs]
        return _learn(
            self._program,
            layout,
            state,
            rollout,
            words,
            values,
            jnp.int32(total),
            jnp.int32(runs),
        )

    def select(self, rows: list[int]) -> Host:
        """Return the environments of some runs, as they are now, leaving these alone."""
        other = copy.copy(self)
        try:
            other._environments = [copy.deepcopy(self._environments[row]) for row in rows]
        except Exception:  # whatever an environment raises that cannot be copied
            raise UserError(
                f"environment: the state of {self._env.name} cannot be copied, so its runs cannot "
                "be stopped and trained on, nor searched; train once with all the steps"
            ) from None
        other._memory = self._memory[rows]
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


@contextmanager
def _several(env: Gymnasium, count: int) -> Iterator[list[Hosted]]:
    environments = [Hosted(env) for _ in range(count)]
    try:
        yield environments
    finally:
        for each in environments:
            each.close()


def _play(
    env: Gymnasium, environments: list[Hosted], seeds: Int[np.ndarray, " count"], choose: Any
) -> Float[np.ndarray, " count"]:
    """Return the returns of one episode in each environment.

    Where an episode has ended the environment is not stepped any more: a step in Python is what
    costs the time.
    """
    memory = _start(environments, seeds)
    total, running = np.zeros(len(seeds)), np.ones(len(seeds), bool)
    for t in range(env.max_steps):
        actions = choose(memory, t)
        for place in np.flatnonzero(running).tolist():
            step = environments[place].step(actions[place])
            memory[place], running[place] = step.state, not step.ended
            total[place] += step.reward
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
    totals = []
    with _several(program.env, 2 * episodes) as environments:
        for run, key in enumerate(keys):

            def choose(memory: np.ndarray, t: int, run: int = run) -> Any:
                chosen = _evaluation_actions(
                    program, episodes, actors[run], jax_keys[run], jnp.asarray(memory), jnp.int32(t)
                )
                return np.asarray(chosen)

            total = _play(program.env, environments, _seeds(key, _EVALUATION, 2 * episodes), choose)
            totals.append(total * float(reward_scale[run]))
    returns = np.stack(totals)
    return returns[:, :episodes], returns[:, episodes:]


@lru_cache(maxsize=64)
def random_return(env: Gymnasium, episodes: int = EPISODES) -> float:
    """Return the mean return of the policy that chooses every action alike."""
    rng = np.random.default_rng(0)

    def choose(memory: np.ndarray, t: int) -> Any:
        return rng.integers(0, env.num_actions, episodes)

    with _several(env, episodes) as environments:
        total = _play(env, environments, rng.integers(0, 2**31, episodes), choose)
    return float(total.mean())
