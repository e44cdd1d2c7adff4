"""Training: the state of all lanes, and the compiled segment that does many updates of them.

Rollouts are batched over the lanes. Updates go lane by lane on a CPU, where a lane's activations
then stay in the cache, and all at once on a GPU. The batches are gathered first, so that the loop
over lanes never sees the replay buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Num, UInt32

from mirrorax.envs.adapter import Environment
from mirrorax.mdpo import on_policy, replay
from mirrorax.mdpo.program import Layout, Program
from mirrorax.mdpo.rollout import as_rows, first_step, rollout_policies, step_lane
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.update import METRICS, Learner, Metrics, init_learner, update_on_batches
from mirrorax.runs.settings import Settings


class Algorithm(NamedTuple):
    """What tells the algorithms apart: the data of an update, and what an update does with it."""

    #: of (settings, rows that are kept, random words, k): a pytree with the lanes first
    batches: Callable[[Settings, Array, Array, Array], Any]
    #: of (program, learner, data of one lane, values, clock): the learner and its metrics
    update: Callable[[Program, Learner, Any, Values, Clock], tuple[Learner, Metrics]]


ALGORITHMS = {
    "off_policy": Algorithm(replay.batches, update_on_batches),
    "on_policy": Algorithm(on_policy.last_rollout, on_policy.update),
}


class TrainState(NamedTuple):
    """Everything a segment needs to go on, and all that a checkpoint holds."""

    learner: Learner
    env: Any
    buffer: Num[Array, "slots lanes envs row"]
    k: Int[Array, ""]
    metrics: Metrics


def init_state(program: Program, keys: UInt32[np.ndarray, "lanes 2"], values: Values) -> TrainState:
    """Draw the networks and first states of every lane, each from its own key, on the host."""
    settings, env = program.settings, program.env
    actors, critics, words = [], [], []
    for first, second in np.asarray(keys, np.uint32):
        rng = np.random.default_rng([int(first), int(second)])
        drawn = program.actor.init(rng)
        actors.append(drawn if program.first_policy is None else program.first_policy)
        critics.append([program.critic.init(rng) for _ in range(program.num_critics)])
        if isinstance(env, Environment):
            shape = (settings.num_envs, env.reset_words)
            words.append(rng.integers(0, 2**32, shape, dtype=np.uint32))
    init = jax.vmap(partial(init_learner, program))
    learner = init(jnp.asarray(np.stack(actors)), jnp.asarray(np.asarray(critics)), values)
    # Environments that the host steps have no state here.
    hosted = not isinstance(env, Environment)
    return TrainState(
        learner=_own_arrays(learner),
        env=() if hosted else _first_states(env, jnp.asarray(np.stack(words))),
        buffer=replay.empty(settings, env, len(keys)),
        k=jnp.int32(0),
        metrics={name: jnp.zeros(len(keys)) for name in METRICS} if program.with_curves else {},
    )


@partial(jax.jit, static_argnames=("env",))
def _first_states(env: Environment, words: UInt32[Array, "lanes envs words"]) -> Any:
    """Reset every environment of every lane."""
    states = jax.vmap(jax.vmap(env.reset))(words)
    return _own_arrays(first_step(states, words.shape[:2]))


def _own_arrays(tree: Any) -> Any:
    """Copy arrays, because the segment takes them over; Python's numbers become plain arrays.

    Those would have a weak type at first, a strong one later, and compile the segment twice.
    """
    return jax.tree.map(lambda x: jnp.array(x, jnp.asarray(x).dtype), tree)


def _collect_and_learn(
    program: Program,
    layout: Layout,
    state: TrainState,
    keys: Array,
    values: Values,
    total: Array,
    active: Array,
) -> TrainState:
    """Update k of all lanes: a rollout, then the batches of each lane, then its update."""
    settings, length = program.settings, program.settings.rollout_length
    # All random numbers of the update in one draw: the rollout's, then the batches'.
    per_step = program.words_per_step * settings.num_envs
    draw = partial(jax.random.bits, shape=(length * per_step + program.words_per_batches,))
    words = jax.vmap(lambda key: draw(jax.random.fold_in(key, state.k)))(keys)
    shape = (words.shape[0], length, program.words_per_step, settings.num_envs)
    rollout_words = words[:, : length * per_step].reshape(shape)
    policies = rollout_policies(program, state.learner.actor)
    start = state.k * length

    def write(buffer: Array, last: Any, t: Array | int) -> Array:
        rows = jax.vmap(partial(as_rows, program))(last)
        return replay.write(buffer, rows, start + t)

    def body(t: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        last, buffer = carry
        now = jax.lax.dynamic_index_in_dim(rollout_words, t, axis=1, keepdims=False)
        # A step is written while the next one is taken; the first one finds its row written.
        buffer = write(buffer, last, t - 1)
        return jax.vmap(partial(step_lane, program))(policies, last, now), buffer

    env, buffer = jax.lax.fori_loop(0, length, body, (state.env, state.buffer))
    buffer = write(buffer, env, length - 1)
    drawn, clock = words[:, length * per_step :], Clock(state.k, total)
    return learn(program, layout, state, env, buffer, drawn, values, clock, active)


def learn(
    program: Program,
    layout: Layout,
    state: TrainState,
    env: Any,
    buffer: Num[Array, "slots lanes envs row"],
    words: UInt32[Array, "lanes words"],
    values: Values,
    clock: Clock,
    active: Int[Array, ""],
) -> TrainState:
    """Draw batches for each lane and update it; `env` and `buffer` are as a rollout left them."""
    algorithm = ALGORITHMS[program.settings.algorithm]
    batches = algorithm.batches(program.settings, buffer, words, state.k)
    if layout == "vmap":
        learner, metrics = jax.vmap(
            lambda learner, data, values: algorithm.update(program, learner, data, values, clock)
        )(state.learner, batches, values)
        return TrainState(learner, env, buffer, state.k + 1, metrics)

    def lane(i: Array, carry: tuple[Learner, Metrics]) -> tuple[Learner, Metrics]:
        pick = partial(jax.lax.dynamic_index_in_dim, index=i, axis=0, keepdims=False)
        old, data, traced = jax.tree.map(pick, (carry[0], batches, values))
        new = algorithm.update(program, old, data, traced, clock)
        put = partial(jax.lax.dynamic_update_index_in_dim, index=i, axis=0)
        return jax.tree.map(lambda whole, part: put(whole, part), carry, new)

    learner, metrics = jax.lax.fori_loop(0, active, lane, (state.learner, state.metrics))
    return TrainState(learner, env, buffer, state.k + 1, metrics)


@partial(jax.jit, static_argnames=("program", "layout"), donate_argnames=("state",))
def segment(
    program: Program,
    layout: Layout,
    state: TrainState,
    keys: Array,
    values: Values,
    total: Int[Array, ""],
    active: Int[Array, ""],
    updates: Int[Array, ""],
) -> TrainState:
    """Do some updates of all lanes. Their number is data: cutting a run anywhere changes nothing.

    Lanes from `active` on are padding: lane by lane they are never updated and cost little. The
    state's buffers are donated: it must not be used afterwards.
    """
    return jax.lax.fori_loop(
        0,
        updates,
        lambda _, carry: _collect_and_learn(program, layout, carry, keys, values, total, active),
        state,
    )
