"""On-policy MDPO(h, D): one update of one run, from the rollout of its own policy.

The actor's objective is equation (7) of the paper with Q replaced by an estimate of the advantage
of the action taken, weighted by the probability ratio r = pi_theta(a | s) / pi_k(a | s):

    minimise over theta:  E_{s, a ~ pi_k}[ -r A(s, a) + alpha h(pi_theta(s)) + lambda D ]

h and an ordinary drift D(pi_theta(s), pi_k(s)) are exact over the actions; a drift functional sees
r and A (`mirrorax.regularizers.functionals`). pi_k is the policy of the rollout. Advantages and the
targets of the value network are estimated once, before the first epoch. So the two networks are
trained one after the other, each in epochs over shuffled minibatches of the rollout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs.adapter import observations
from mirrorax.mdpo.advantages import estimate_advantages, normalized, regularized_reward
from mirrorax.mdpo.losses import ActorTerms
from mirrorax.mdpo.optimizers import descend
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.update import METRICS, Learner, Metrics, where
from mirrorax.regularizers import Drift, Potential
from mirrorax.regularizers.functionals import DriftFunctional, drift_of_samples, log_ratio


class Rollout(NamedTuple):
    """The steps of all environments of one run under one policy; nothing else is kept of them."""

    memory: Num[Array, "time envs memory"]
    #: of the state that the step led to: where an episode ended, its last one
    next_memory: Num[Array, "time envs memory"]
    action: Int[Array, "time envs"]
    reward: Float[Array, "time envs"]
    terminated: Bool[Array, "time envs"]
    truncated: Bool[Array, "time envs"]


class Samples(NamedTuple):
    """A rollout as rows, ready to be shuffled, with what is estimated before the first epoch."""

    memory: Num[Array, "rows memory"]
    action: Int[Array, " rows"]
    old_logits: Float[Array, "rows actions"]
    advantage: Float[Array, " rows"]
    target: Float[Array, " rows"]


def actor_loss(
    logits: Float[Array, "actions batch"],
    old_logits: Float[Array, "actions batch"],
    action: Int[Array, " batch"],
    advantage: Float[Array, " batch"],
    alpha: Float[Array, ""] | float,
    lam: Float[Array, ""] | float,
    potential: Potential,
    drift: Drift | DriftFunctional,
) -> tuple[Float[Array, ""], ActorTerms]:
    """Return the actor's objective on a batch, and its three terms."""
    gain = jnp.mean(jnp.exp(log_ratio(logits, old_logits, action)) * advantage)
    h = jnp.mean(potential.value_from_logits(logits.T))
    d = jnp.mean(drift_of_samples(drift, logits, old_logits, action, advantage))
    return -gain + alpha * h + lam * d, ActorTerms(gain, h, d)


def value_loss(value: Float[Array, " batch"], target: Float[Array, " batch"]) -> Float[Array, ""]:
    """minimise over phi:  E[(V_phi(s) - y)^2]."""
    return jnp.mean(jnp.square(value - target))


def estimate(
    program: Program,
    learner: Learner,
    rollout: Rollout,
    alpha: Float[Array, ""],
    values: Values,
) -> tuple[Samples, Float[Array, ""]]:
    """Return the rollout's samples, and the mean of h over its states under its policy."""
    settings, shape = program.settings, rollout.action.shape

    def rows(x: Array) -> Array:
        return x.reshape(-1, *x.shape[2:])

    def value(memory: Array) -> Array:
        return program.value(learner.critics[0], observations(program.env, rows(memory)))[0]

    logits = program.actor(learner.actor, observations(program.env, rows(rollout.memory))).T
    h = program.potential.value_from_logits(logits)
    reward = values.reward_scale * rollout.reward
    if settings.actor_q == "regularized":
        reward = regularized_reward(reward, h.reshape(shape), alpha)
    terminated = rollout.terminated
    if not settings.bootstrap_truncation:
        terminated = terminated | rollout.truncated
    estimates = jax.vmap(
        partial(estimate_advantages, gamma=values.gamma, gae_lambda=settings.gae_lambda),
        in_axes=1,
        out_axes=1,
    )(
        reward,
        value(rollout.memory).reshape(shape),
        value(rollout.next_memory).reshape(shape),
        terminated,
        rollout.truncated,
    )
    samples = Samples(
        rows(rollout.memory),
        rows(rollout.action),
        logits,
        rows(estimates.advantage),
        rows(estimates.target),
    )
    return samples, jnp.mean(h)


def update(
    program: Program,
    learner: Learner,
    rollout: Rollout,
    words: UInt32[Array, " words"],
    values: Values,
    clock: Clock,
) -> tuple[Learner, Metrics]:
    """Improve the actor, then the value network, in epochs over the shuffled rollout.

    `words` are random: one for each sample of each epoch. Sorting them shuffles an epoch. A run
    whose loss, gradient or parameters are not finite stays as it was before the update.
    """
    settings = program.settings
    alpha = program.alpha_schedule.temperature(learner.alpha, values, clock)
    lam = program.lam_schedule.temperature(learner.lam, values, clock)
    left = 1 - clock.progress if settings.anneal_learning_rate else 1.0
    samples, mean_h = estimate(program, learner, rollout, alpha, values)
    shuffled = jnp.argsort(words.reshape(-1, len(samples.action)), axis=1)

    def minibatches(epochs: int) -> Int[Array, "steps batch"]:
        return shuffled[:epochs].reshape(-1, settings.batch_size)

    def improve(theta: Array, batch: Samples) -> Any:
        x = observations(program.env, batch.memory)
        advantage = batch.advantage
        if settings.normalize_advantages:
            advantage = normalized(advantage)
        return actor_loss(
            program.actor(theta, x),
            batch.old_logits.T,
            batch.action,
            advantage,
            alpha,
            lam,
            program.potential,
            program.drift,
        )

    def regress(phi: Array, batch: Samples) -> Any:
        value = program.value(phi, observations(program.env, batch.memory))[0]
        return value_loss(value, batch.target), jnp.mean(value)

    train = partial(_descend_on, program.optimizer, samples)
    actor, actor_optimizer, healthy, actor_seen = train(
        improve,
        learner.actor,
        learner.actor_optimizer,
        minibatches(settings.actor_epochs),
        values.actor_lr * left,
    )
    critic_optimizer = jax.tree.map(lambda x: x[0], learner.critic_optimizer)
    value, critic_optimizer, value_healthy, value_seen = train(
        regress,
        learner.critics[0],
        critic_optimizer,
        minibatches(settings.critic_epochs),
        values.critic_lr * left,
    )
    # A norm is finite only if every parameter is.
    healthy = healthy & value_healthy & jnp.isfinite(optax.tree.norm((actor, value)))
    healthy = healthy & (learner.diverged_at < 0)
    diverged = (learner.diverged_at < 0) & ~healthy
    new = Learner(
        actor,
        actor_optimizer,
        value[None],
        jax.tree.map(lambda x: x[None], critic_optimizer),
        learner.targets,
        program.alpha_schedule.learn(learner.alpha, values, clock, mean_h),
        program.lam_schedule.learn(learner.lam, values, clock, mean_h),
        learner.diverged_at,
    )
    new = where(healthy, new, learner)._replace(
        diverged_at=jnp.where(diverged, clock.k, learner.diverged_at).astype(jnp.int32)
    )
    if not program.with_curves:
        return new, {}
    logp = jax.nn.log_softmax(samples.old_logits, axis=1)
    entropy = -jnp.mean(jnp.sum(jnp.exp(logp) * logp, axis=1))
    (loss, terms), actor_norm = actor_seen
    (regression, mean_value), value_norm = value_seen
    seen = (
        loss,
        regression,
        actor_norm,
        value_norm,
        mean_value,
        mean_h,
        terms.drift,
        entropy,
        alpha,
        lam,
    )
    return new, dict(zip(METRICS, seen, strict=True))


def _descend_on(
    optimizer: optax.GradientTransformation,
    samples: Samples,
    objective: Callable[[Array, Samples], Any],
    parameters: Float[Array, " p"],
    state: Any,
    minibatches: Int[Array, "steps batch"],
    learning_rate: Float[Array, ""],
) -> tuple[Float[Array, " p"], Any, Bool[Array, ""], Any]:
    """Take one step for each minibatch; return whether all was finite and what the last one saw."""

    def step(carry: tuple[Array, Any, Array], chosen: Array) -> tuple[Any, Any]:
        parameters, state, healthy = carry
        batch = jax.tree.map(lambda x: x.at[chosen].get(mode="promise_in_bounds"), samples)
        seen, gradient = jax.value_and_grad(objective, has_aux=True)(parameters, batch)
        norm = optax.tree.norm(gradient)
        healthy = healthy & jnp.isfinite(seen[0]) & jnp.isfinite(norm)
        parameters, state = descend(optimizer, parameters, gradient, state, learning_rate)
        return (parameters, state, healthy), (seen, norm)

    carry = (parameters, state, jnp.bool_(True))
    (parameters, state, healthy), seen = jax.lax.scan(step, carry, minibatches)
    return parameters, state, healthy, jax.tree.map(lambda x: x[-1], seen)
