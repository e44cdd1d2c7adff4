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

from mirrorax.mdpo.advantages import estimate_advantages, normalized, regularized_reward
from mirrorax.mdpo.losses import ActorTerms
from mirrorax.mdpo.optimizers import descend
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.replay import unpack
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.update import METRICS, Learner, Metrics, where
from mirrorax.regularizers import Drift, Potential
from mirrorax.regularizers.functionals import DriftFunctional, drift_of_samples, log_ratio
from mirrorax.runs.settings import Settings


class Rollout(NamedTuple):
    """The last rollout of a run, and the random words that shuffle it."""

    rows: Num[Array, "*lanes time envs row"]
    #: one for each transition of each epoch
    words: UInt32[Array, "*lanes words"]


class Samples(NamedTuple):
    """A rollout as rows, ready to be shuffled, with what is estimated before the first epoch."""

    rows: Num[Array, "samples row"]
    old_logits: Float[Array, "samples actions"]
    advantage: Float[Array, " samples"]
    target: Float[Array, " samples"]


def last_rollout(
    settings: Settings,
    kept: Num[Array, "time lanes envs row"],
    words: UInt32[Array, "lanes words"],
    k: Int[Array, ""],
) -> Rollout:
    """Return what every lane learns from: all that is kept is its last rollout."""
    return Rollout(jnp.moveaxis(kept, 1, 0), words)


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
    rows: Num[Array, "time envs row"],
    alpha: Float[Array, ""],
    values: Values,
) -> tuple[Samples, Float[Array, ""]]:
    """Return the samples of a rollout, and the mean of h over its states under its policy."""
    settings, shape = program.settings, rows.shape[:2]
    flat = rows.reshape(-1, rows.shape[-1])
    batch = unpack(program.env, flat)
    x = batch.observation
    logits = program.actor(learner.actor, x).T
    h = jnp.asarray(program.potential_at(x).value_from_logits(logits))
    reward = values.reward_scale * batch.reward
    if settings.actor_q == "regularized":
        reward = regularized_reward(reward, h, alpha)

    def by_env(x: Array) -> Array:
        return x.reshape(shape)

    estimates = jax.vmap(
        partial(estimate_advantages, gamma=values.gamma, gae_lambda=settings.gae_lambda),
        in_axes=1,
        out_axes=1,
    )(
        by_env(reward),
        by_env(program.critic(learner.critics[0], x)[0]),
        by_env(program.critic(learner.critics[0], batch.next_observation)[0]),
        by_env(batch.follows),
        by_env(batch.ended),
    )
    advantage, target = (x.reshape(-1) for x in estimates)
    return Samples(flat, logits, advantage, target), jnp.mean(h)


def update(
    program: Program,
    learner: Learner,
    rollout: Rollout,
    values: Values,
    clock: Clock,
) -> tuple[Learner, Metrics]:
    """Improve the actor, then the value network, in epochs over the shuffled rollout.

    Sorting the random words of an epoch shuffles it. A run whose loss, gradient or parameters are
    not finite stays as it was before the update.
    """
    settings = program.settings
    alpha = program.alpha_schedule.temperature(learner.alpha, values, clock)
    lam = program.lam_schedule.temperature(learner.lam, values, clock)
    left = 1 - clock.progress if settings.anneal_learning_rate else 1.0
    samples, mean_h = estimate(program, learner, rollout.rows, alpha, values)
    shuffled = jnp.argsort(rollout.words.reshape(-1, len(samples.rows)), axis=1)

    def minibatches(epochs: int) -> Int[Array, "steps batch"]:
        return shuffled[:epochs].reshape(-1, settings.batch_size)

    def improve(theta: Array, samples: Samples) -> Any:
        batch = unpack(program.env, samples.rows)
        advantage = samples.advantage
        if settings.normalize_advantages:
            advantage = normalized(advantage)
        return actor_loss(
            program.actor(theta, batch.observation),
            samples.old_logits.T,
            batch.action,
            advantage,
            alpha,
            lam,
            program.potential_at(batch.observation),
            program.drift,
        )

    def regress(phi: Array, samples: Samples) -> Any:
        value = program.critic(phi, unpack(program.env, samples.rows).observation)[0]
        return value_loss(value, samples.target), jnp.mean(value)

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
