"""Training: the state of a lane, one update of it, and the compiled segment that does many.

Everything is written for one lane. Lanes are added in `segment`: rollouts are batched over them;
updates are mapped lane by lane on a CPU, where a lane's activations then stay in the cache, or
batched on a GPU. The batches are gathered first, so that the map never sees the replay buffer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import Environment, uniform
from mirrorax.mdpo import losses, networks, optimizer, replay
from mirrorax.mdpo.networks import Layer, sample_actions
from mirrorax.mdpo.program import Layout, Program
from mirrorax.mdpo.schedules import Clock, Values

#: what a rollout asks for its actions: the actor's layers, or its logits at every memory
Policy = tuple[Layer, ...] | Float[Array, "*lanes memories actions"]
Metrics = dict[str, Float[Array, "*lanes"]]


class Learner(NamedTuple):
    """What an update changes: networks, optimisers, schedules."""

    actor: Float[Array, "*lanes p"]
    actor_moments: optimizer.Moments
    critics: Float[Array, "*lanes critics q"]
    critic_moments: optimizer.Moments
    targets: Float[Array, "*lanes critics q"]
    alpha: Any
    lam: Any
    #: the update at which the lane diverged and was frozen, -1 while it has not
    diverged_at: Int[Array, "*lanes"]


class TrainState(NamedTuple):
    """Everything a segment needs to go on, and all that a checkpoint holds."""

    learner: Learner
    env: Any
    buffer: Num[Array, "slots lanes envs row"]
    k: Int[Array, ""]
    metrics: Metrics


METRICS = (
    "actor_loss",
    "critic_loss",
    "actor_grad_norm",
    "critic_grad_norm",
    "mean_q",
    "h",
    "drift",
    "entropy",
    "alpha",
    "lam",
)


def init_state(program: Program, keys: UInt32[np.ndarray, "lanes 2"], values: Values) -> TrainState:
    """Draw the networks and first states of every lane, each from its own key, on the host."""
    settings, env = program.settings, program.env
    count, envs = len(keys), settings.num_envs
    actors, critics, words = [], [], []
    for first, second in np.asarray(keys, np.uint32):
        rng = np.random.default_rng([int(first), int(second)])
        how = settings.initialization
        actors.append(networks.initialize(program.actor, rng, how))
        critics.append(
            [networks.initialize(program.critic, rng, how) for _ in range(program.num_critics)]
        )
        words.append(rng.integers(0, 2**32, (envs, env.reset_words), dtype=np.uint32))
    actor, critic = jnp.asarray(np.stack(actors)), jnp.asarray(np.asarray(critics))
    shape = (settings.replay_slots, count, envs, replay.width(env))
    metrics = dict.fromkeys(METRICS, jnp.zeros(count)) if program.with_curves else {}
    return TrainState(
        learner=Learner(
            actor=actor,
            actor_moments=optimizer.zeros_like(actor),
            critics=critic,
            critic_moments=optimizer.zeros_like(critic),
            targets=jnp.array(critic),
            alpha=_own_arrays(jax.vmap(program.alpha_schedule.init)(values)),
            lam=_own_arrays(jax.vmap(program.lam_schedule.init)(values)),
            diverged_at=jnp.full(count, -1, jnp.int32),
        ),
        env=_first_states(env, jnp.asarray(np.stack(words))),
        buffer=jnp.zeros(shape, env.memory_dtype),
        k=jnp.int32(0),
        metrics={name: jnp.array(value) for name, value in metrics.items()},
    )


@partial(jax.jit, static_argnames=("env",))
def _first_states(env: Environment, words: UInt32[Array, "lanes envs words"]) -> Any:
    """Reset every environment of every lane."""
    return _own_arrays(jax.vmap(jax.vmap(env.reset))(words))


def _own_arrays(tree: Any) -> Any:
    """Copy arrays, for the segment takes them over; Python's numbers become plain arrays.

    Those would have a weak type at first, a strong one later, and compile the segment twice.
    """
    return jax.tree.map(lambda x: jnp.array(x, jnp.asarray(x).dtype), tree)


def rollout_policies(program: Program, actors: Float[Array, "lanes p"]) -> Policy:
    """Return what the rollouts of all lanes ask for their actions while the actors stand still."""
    layers = jax.vmap(program.actor.layers)(actors)
    rounds, bounds = program.table_rounds, program.env.memory_bounds
    if rounds is None or bounds is None:
        return layers
    wide = program.settings.num_envs
    # As many memories at a time as a step of a rollout has, and for each lane its own, so that the
    # same products give the same bits: the barrier hides that all lanes ask for the same.
    first = jax.lax.optimization_barrier(jnp.zeros(actors.shape[0], jnp.int32))  # type: ignore[no-untyped-call]

    def ask(layers: tuple[Layer, ...], first: Int[Array, ""]) -> Float[Array, "envs actions"]:
        places = jnp.unravel_index(first + jnp.arange(wide), bounds)
        memory = jnp.stack(places, axis=-1).astype(program.env.memory_dtype)
        return policy_logits(program, layers, memory).T

    def body(i: Array, table: Array) -> Array:
        found = jax.vmap(ask)(layers, first + i * wide)
        return jax.lax.dynamic_update_slice_in_dim(table, found, i * wide, axis=1)

    shape = (actors.shape[0], rounds * wide, program.env.num_actions)
    return jax.lax.fori_loop(0, rounds, body, jnp.zeros(shape))


def policy_logits(
    program: Program, policy: Policy, memory: Num[Array, "envs memory"]
) -> Float[Array, "actions envs"]:
    """Return the logits of one lane's policy at some memories."""
    if isinstance(policy, tuple):
        observation = jax.vmap(program.env.observe, out_axes=-1)(memory)
        return program.actor.forward(policy, observation)[0]
    entries = tuple(memory.astype(jnp.int32).T)
    place = jnp.ravel_multi_index(entries, program.env.memory_bounds or (), mode="clip")
    return policy[place].T


def rollout_step(
    program: Program,
    policy: Policy,
    state: Any,
    words: UInt32[Array, "words envs"],
) -> tuple[Any, Num[Array, "envs row"]]:
    """Take one step in each environment of a lane; return the states and the replay rows."""
    env, settings = program.env, program.settings
    memory = jax.vmap(env.remember)(state)
    logits = policy_logits(program, policy, memory)
    action = sample_actions(logits, uniform(words[0]))
    cut = 1 + env.step_words
    after = jax.vmap(env.step, in_axes=(0, 0, -1))(state, action, words[1:cut])
    done = after.terminated | after.truncated
    stops = after.terminated if settings.bootstrap_truncation else done
    rows = jax.vmap(partial(replay.pack, env))(
        memory, jax.vmap(env.remember)(after.state), action, after.reward, stops
    )
    fresh = jax.vmap(env.reset, in_axes=-1)(words[cut:])
    return _where(done, fresh, after.state), rows


def _where(condition: Bool[Array, "*c"], yes: Any, no: Any) -> Any:
    """Choose between two pytrees along the condition's leading axes."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(
            condition.reshape(condition.shape + (1,) * (b.ndim - condition.ndim)), a, b
        )

    return jax.tree.map(choose, yes, no)


def update(
    program: Program,
    learner: Learner,
    rows: Num[Array, "batch row"],
    values: Values,
    clock: Clock,
) -> tuple[Learner, Metrics]:
    """One update of one lane on one batch: Algorithm 1 after the sampling.

    The actor is improved first, against the policy of the start of the update; then the critics
    regress on a target under the improved policy; then the targets follow.
    """
    settings, h, d = program.settings, program.potential, program.drift
    batch = replay.unpack(program.env, rows)
    x = batch.observation
    left = 1 - clock.progress if settings.anneal_learning_rate else 1.0
    step = clock.k.astype(jnp.float32)
    alpha = program.alpha_schedule.temperature(learner.alpha, values, clock)
    lam = program.lam_schedule.temperature(learner.lam, values, clock)

    # One forward pass of the critics serves the actor's objective and their own gradient.
    critic_forward = jax.vmap(program.critic.forward, in_axes=(0, None))
    critic_layers = jax.vmap(program.critic.layers)(learner.critics)
    q_all, critic_inputs = critic_forward(critic_layers, x)
    q = jnp.min(q_all, axis=0)

    # theta^(i+1) = theta^(i) - eta grad L(theta, theta_k), equation (7).
    actor, actor_moments = learner.actor, learner.actor_moments
    objective = jax.value_and_grad(losses.actor_loss, has_aux=True)
    healthy = jnp.bool_(True)
    for epoch in range(settings.actor_epochs):
        layers = program.actor.layers(actor)
        logits, inputs = program.actor.forward(layers, x)
        if epoch == 0:
            old_logits = logits
        (actor_loss, terms), slope = objective(logits, old_logits, q, alpha, lam, h, d)
        gradient = program.actor.backward(layers, inputs, slope)
        actor_norm2 = jnp.vdot(gradient, gradient)
        healthy = healthy & jnp.isfinite(actor_loss) & jnp.isfinite(actor_norm2)
        actor, actor_moments = optimizer.adam(
            actor,
            gradient * optimizer.clip_factor(actor_norm2, settings.max_grad_norm),
            actor_moments,
            values.actor_lr * left,
            step * settings.actor_epochs + (epoch + 1),
            settings.adam_eps,
        )
        if epoch == 0:
            first_terms = terms

    # L_Q(phi) = E[(Q_phi(s, a) - y)^2], with pi_{k+1} and alpha_k in y.
    next_logits = program.actor(actor, batch.next_observation)
    next_q = jnp.min(
        jax.vmap(program.critic, in_axes=(0, None))(learner.targets, batch.next_observation), axis=0
    )
    now = program.actor(actor, x) if settings.critic_target == "paper" else None
    target = losses.critic_target(
        settings, h, batch, next_logits, next_q, now, alpha, values.gamma, values.reward_scale
    )
    critics, critic_moments = learner.critics, learner.critic_moments
    for epoch in range(settings.critic_epochs):
        if epoch > 0:
            critic_layers = jax.vmap(program.critic.layers)(critics)
            q_all, critic_inputs = critic_forward(critic_layers, x)
        critic_slope, critic_terms = losses.critic_slope(q_all, batch.action, target)
        gradients = jax.vmap(program.critic.backward)(critic_layers, critic_inputs, critic_slope)
        norm2 = jax.vmap(jnp.vdot)(gradients, gradients)
        healthy = healthy & jnp.all(jnp.isfinite(norm2)) & jnp.all(jnp.isfinite(critic_terms.loss))
        joint = jnp.sum(norm2) if settings.clipping == "joint" else norm2[:, None]
        critics, critic_moments = optimizer.adam(
            critics,
            gradients * optimizer.clip_factor(joint, settings.max_grad_norm),
            critic_moments,
            values.critic_lr * left,
            step * settings.critic_epochs + (epoch + 1),
            settings.adam_eps,
        )

    # phi_target <- tau phi_target + (1 - tau) phi: tau is the weight of the OLD target.
    targets = settings.tau * learner.targets + (1 - settings.tau) * critics
    new = Learner(
        actor,
        actor_moments,
        critics,
        critic_moments,
        targets,
        program.alpha_schedule.learn(learner.alpha, values, clock, first_terms.h),
        program.lam_schedule.learn(learner.lam, values, clock, first_terms.h),
        learner.diverged_at,
    )
    # A squared norm is finite only if every parameter is.
    size2 = jnp.vdot(actor, actor) + jnp.vdot(critics, critics)
    healthy = healthy & jnp.isfinite(size2)
    running = learner.diverged_at < 0
    new = _where(running & healthy, new, learner)
    new = new._replace(
        diverged_at=jnp.where(running & ~healthy, clock.k, learner.diverged_at).astype(jnp.int32)
    )
    if not program.with_curves:
        return new, {}
    logp = jax.nn.log_softmax(old_logits, axis=0)
    seen = (
        actor_loss,
        jnp.mean(critic_terms.loss),
        jnp.sqrt(actor_norm2),
        jnp.sqrt(jnp.sum(norm2)),
        critic_terms.q,
        first_terms.h,
        terms.drift,
        -jnp.mean(jnp.sum(jnp.exp(logp) * logp, axis=0)),
        alpha,
        lam,
    )
    return new, dict(zip(METRICS, seen, strict=True))


def _one_update(
    program: Program,
    layout: Layout,
    state: TrainState,
    keys: Array,
    values: Values,
    total: Array,
    active: Array,
) -> TrainState:
    """A rollout of all lanes, a batch for each, an update of each."""
    settings, length = program.settings, program.settings.rollout_length
    clock = Clock(state.k, total)
    # All random numbers of the update in one draw: the rollout's, then the batch's.
    per_step = program.words_per_step * settings.num_envs
    draw = partial(jax.random.bits, shape=(length * per_step + settings.batch_size,))
    words = jax.vmap(lambda key: draw(jax.random.fold_in(key, state.k)))(keys)
    lanes = words.shape[0]
    shape = (lanes, length, program.words_per_step, settings.num_envs)
    rollout_words = words[:, : length * per_step].reshape(shape)
    policies = rollout_policies(program, state.learner.actor)
    start = state.k * length

    def body(t: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        env, buffer = carry
        now = jax.lax.dynamic_index_in_dim(rollout_words, t, axis=1, keepdims=False)
        env, rows = jax.vmap(partial(rollout_step, program))(policies, env, now)
        return env, replay.write(buffer, rows, start + t)

    env, buffer = jax.lax.fori_loop(0, length, body, (state.env, state.buffer))
    drawn = words[:, length * per_step :]
    return learn(program, layout, state, env, buffer, drawn, values, clock, active)


def learn(
    program: Program,
    layout: Layout,
    state: TrainState,
    env: Any,
    buffer: Num[Array, "slots lanes envs row"],
    words: UInt32[Array, "lanes batch"],
    values: Values,
    clock: Clock,
    active: Int[Array, ""],
) -> TrainState:
    """Draw a batch for each lane and update each; `env` and `buffer` are as a rollout left them."""
    written = (state.k + 1) * program.settings.rollout_length
    batches = replay.sample(buffer, words, written)

    if layout == "vmap":
        one = partial(update, program, clock=clock)
        learner, metrics = jax.vmap(one)(state.learner, batches, values)
        return TrainState(learner, env, buffer, state.k + 1, metrics)

    def lane(i: Array, carry: tuple[Learner, Metrics]) -> tuple[Learner, Metrics]:
        pick = partial(jax.lax.dynamic_index_in_dim, index=i, axis=0, keepdims=False)
        old, rows, traced = jax.tree.map(pick, (carry[0], batches, values))
        new = update(program, old, rows, traced, clock)
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

    Lanes from `active` on are padding: mapped lane by lane they are never updated and cost little.
    The state's buffers are donated: it must not be used afterwards.
    """
    return jax.lax.fori_loop(
        0,
        updates,
        lambda _, carried: _one_update(program, layout, carried, keys, values, total, active),
        state,
    )
