"""The compiled program: rollouts, updates and evaluation of all lanes.

Rollouts are batched over the lanes. Updates go lane by lane on a CPU, where a lane's activations
then stay in the cache, and all at once on a GPU. The batches are gathered first, so that the loop
over lanes never sees the replay buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import (
    Environment,
    Step,
    memories_at,
    observations,
    place_of,
    play,
    uniform,
)
from mirrorax.mdpo import on_policy, replay
from mirrorax.mdpo.program import Layout, Program
from mirrorax.mdpo.replay import Stepped, as_rows, first_step
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.update import (
    Learner,
    Metrics,
    init_learner,
    metric_names,
    update_on_batches,
    where,
)
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
        metrics={name: jnp.zeros(len(keys)) for name in metric_names(program)}
        if program.with_curves
        else {},
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


#: what a rollout asks for its actions: the actor's parameters, cut into layers once and not at
#: every step, or a table of its logits at every memory
Policy = Any


def sample_actions(
    logits: Float[Array, "actions batch"], uniform: Float[Array, " batch"]
) -> Int[Array, " batch"]:
    """Draw actions from softmax(logits) by inverting the cumulative distribution.

    One uniform number in [0, 1) per action: the action is the number of partial sums of the
    unnormalised probabilities that `uniform` times their total reaches.
    """
    weights = jnp.exp(logits - jnp.max(logits, axis=0, keepdims=True))
    sums = [weights[0]]
    for weight in weights[1:]:
        sums.append(sums[-1] + weight)
    point = uniform * sums[-1]
    action = jnp.zeros(point.shape, jnp.int32)
    for partial_sum in sums[:-1]:
        action = action + (point >= partial_sum)
    return action


def actor_logits(
    program: Program, parameters: Any, memory: Num[Array, "envs memory"]
) -> Float[Array, "actions envs"]:
    """Return the logits of an actor, its parameters cut into layers, at some memories."""
    return program.actor.network.apply(parameters, observations(program.env, memory))


def rollout_policies(program: Program, actors: Float[Array, "lanes p"]) -> Policy:
    """Return what the rollouts of all lanes ask for their actions while the actors stand still."""
    layers = jax.vmap(program.actor.for_small_batches)(actors)
    rounds = program.table_rounds
    if rounds is None:
        return layers
    wide = program.settings.num_envs
    # As many memories at a time as a step of a rollout has, and for each lane its own, so that the
    # same products give the same bits: the barrier hides that all lanes ask for the same.
    first = jax.lax.optimization_barrier(jnp.zeros(actors.shape[0], jnp.int32))  # type: ignore[no-untyped-call]

    def ask(layers: Any, first: Int[Array, ""]) -> Float[Array, "envs actions"]:
        memory = memories_at(program.env, first + jnp.arange(wide))
        return actor_logits(program, layers, memory).T

    def body(i: Array, table: Array) -> Array:
        logits = jax.vmap(ask)(layers, first + i * wide)
        return jax.lax.dynamic_update_slice_in_dim(table, logits, i * wide, axis=1)

    shape = (actors.shape[0], rounds * wide, program.env.num_actions)
    return jax.lax.fori_loop(0, rounds, body, jnp.zeros(shape))


def policy_logits(
    program: Program, policy: Policy, memory: Num[Array, "envs memory"]
) -> Float[Array, "actions envs"]:
    """Return the logits of one lane's policy at some memories."""
    if program.table_rounds is None:
        return actor_logits(program, policy, memory)
    return policy[place_of(program.env, memory)].T


def draw_words(
    program: Program, keys: Array, k: Int[Array, ""]
) -> tuple[UInt32[Array, "lanes time words envs"], UInt32[Array, "lanes words"]]:
    """Draw all random numbers of update k at once: those of the rollout, then of the batches."""
    settings = program.settings
    shape = (settings.rollout_length, program.words_per_step, settings.num_envs)
    count = math.prod(shape)
    draw = partial(jax.random.bits, shape=(count + program.words_per_batches,))
    words = jax.vmap(lambda key: draw(jax.random.fold_in(key, k)))(keys)
    return words[:, :count].reshape(-1, *shape), words[:, count:]


def step_lane(
    program: Program, policy: Policy, last: Stepped, words: UInt32[Array, "words envs"]
) -> Stepped:
    """Begin new episodes where the last step ended one; take one step in each environment."""
    env = program.environment
    cut = 1 + env.step_words
    state = where(last.after.ended, jax.vmap(env.reset, in_axes=-1)(words[cut:]), last.after.state)
    logits = policy_logits(program, policy, jax.vmap(env.remember)(state))
    action = sample_actions(logits, uniform(words[0]))
    after = jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, words[1:cut])
    # Weak types, as of `jnp.where(won, 1.0, 0.0)`, would compile the segment a second time.
    return jax.tree.map(lambda x: jnp.asarray(x, x.dtype), Stepped(state, action, after))


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
    length = program.settings.rollout_length
    rollout_words, words = draw_words(program, keys, state.k)
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
    return learn(program, layout, state, env, buffer, words, values, Clock(state.k, total), active)


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


#: Folded into a run's key, so that evaluation never shares a key with an update, which folds its
#: number. Only a run of more updates than this has one of that number: 32,343.
EVALUATION = 0x7E57
#: What such a long run folds instead: updates are counted in int32, so none has this number.
_BEYOND_UPDATES = 2**31


def purpose(updates: int) -> int:
    """Return what the key of a run of so many updates is folded with: the number of none."""
    return EVALUATION if updates <= EVALUATION else _BEYOND_UPDATES


_fold = jax.jit(jax.vmap(jax.random.fold_in, in_axes=(0, None)))


def evaluation_keys(keys: Array, updates: int) -> Array:
    """Return the keys that runs of so many updates are evaluated with, from their own."""
    folded: Array = _fold(keys, jnp.uint32(purpose(updates)))
    return folded


def choose_actions(
    program: Program,
    parameters: Any,
    memory: Num[Array, "episodes memory"],
    words: UInt32[Array, " episodes"],
    greedy: Bool[Array, " episodes"],
) -> Int[Array, " episodes"]:
    """Choose an action in each episode of a lane: the best one, or one drawn from the policy."""
    logits = actor_logits(program, parameters, memory)
    best = jnp.argmax(logits, axis=0).astype(jnp.int32)
    return jnp.where(greedy, best, sample_actions(logits, uniform(words)))


@partial(jax.jit, static_argnames=("program", "episodes"))
def evaluate(
    program: Program,
    episodes: int,
    actors: Float[Array, "lanes p"],
    keys: Array,
    reward_scale: Float[Array, " lanes"],
) -> tuple[Float[Array, "lanes episodes"], Float[Array, "lanes episodes"]]:
    """Return the returns of M stochastic and of M greedy episodes of every lane.

    `keys` are those of `evaluation_keys`. Returns are sums of scaled rewards, without discount. All
    lanes step together until the last episode of any of them has ended; a lane's episodes depend on
    its own key alone.
    """
    env = program.environment
    lanes, count = actors.shape[0], 2 * episodes
    greedy = jnp.arange(count) >= episodes
    layers = jax.vmap(program.actor.for_small_batches)(actors)

    def words(t: Array, number: int) -> Array:
        draw = partial(jax.random.bits, shape=(number, count))
        return jax.vmap(lambda key: draw(jax.random.fold_in(key, t)))(keys)

    def lane(parameters: Any, state: Any, drawn: Array) -> Step:
        memory = jax.vmap(env.remember)(state)
        action = choose_actions(program, parameters, memory, drawn[0], greedy)
        return jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, drawn[1:])

    def step(state: Any, t: Array) -> Step:
        return jax.vmap(lane)(layers, state, words(t, 1 + env.step_words))

    start = jax.vmap(jax.vmap(env.reset, in_axes=-1))(words(jnp.int32(0), env.reset_words))
    total = play(env.max_steps, start, step, (lanes, count)).total * reward_scale[:, None]
    return total[:, :episodes], total[:, episodes:]
