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

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.mdpo.advantages import estimate_advantages, normalized
from mirrorax.mdpo.networks import descend
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.replay import Batch, unpack
from mirrorax.mdpo.schedules import Clock, Values
from mirrorax.mdpo.units import spread_of_advantages
from mirrorax.mdpo.update import (
    ActorTerms,
    Learner,
    Metrics,
    conclude,
    learning_rate_left,
    mean_entropy,
    observes_drift,
    report,
)
from mirrorax.regularizers import Drift, Potential
from mirrorax.regularizers.functionals import DriftFunctional, drift_of_samples, log_ratio
from mirrorax.runs.settings import Settings


class Rollout(NamedTuple):
    """The last rollout of a run, and the random words that shuffle it."""

    rows: Num[Array, "*lanes time envs row"]
    #: one for each transition of each epoch
    words: UInt32[Array, "*lanes words"]


class Samples(NamedTuple):
    """Steps of a rollout as rows, with what is estimated before the first epoch."""

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
    gamma: Float[Array, ""],
    reward_scale: Float[Array, ""],
) -> tuple[Samples, Float[Array, ""]]:
    """Return the samples of a rollout, and the mean of h over its states under its policy."""
    settings, shape = program.settings, rows.shape[:2]
    flat = rows.reshape(-1, rows.shape[-1])
    batch = unpack(program.env, flat)
    x = batch.observation

    logits = program.actor(learner.actor, x).T
    h = jnp.asarray(program.potential_at(x).value_from_logits(logits))
    reward = reward_scale * batch.reward
    if settings.actor_q == "regularized":
        reward = reward - alpha * h  # that of the regularised MDP
    follows, ended = batch.follows, batch.ended
    all_values = partial(values_of, program, learner)
    value = all_values(x)

    def last_next(x: Float[Array, "obs samples"]) -> Float[Array, " samples"]:
        # A whole minibatch of states, because fewer are rounded differently.
        last = all_values(x[:, -math.lcm(settings.batch_size, shape[1]) :])
        return jnp.concatenate([value[shape[1] :], last[-shape[1] :]])

    # Within an episode the next state is that of the next row. Where an episode ended, its last
    # state has a value only if time ran out: many rollouts have no such step.
    next_value = jax.lax.cond(
        jnp.any(ended & (follows > 0)), all_values, last_next, batch.next_observation
    )
    advantage = jax.vmap(
        partial(estimate_advantages, gamma=gamma, gae_lambda=settings.gae_lambda),
        in_axes=1,
        out_axes=1,
    )(*(x.reshape(shape) for x in (reward, value, next_value, follows, ended)))
    advantage = advantage.reshape(-1)
    return Samples(flat, logits, advantage, advantage + value), jnp.mean(h)


def values_of(
    program: Program, learner: Learner, x: Float[Array, "obs samples"]
) -> Float[Array, " samples"]:
    """Return V of every column, as many at a time as a minibatch has: these fit the cache."""
    parts = jnp.moveaxis(x.reshape(x.shape[0], -1, program.settings.batch_size), 1, 0)
    return jax.lax.map(lambda x: program.critic(learner.critics[0], x)[0], parts).reshape(-1)


def shuffles(words: UInt32[Array, " words"], samples: int) -> Int[Array, "epochs samples"]:
    """Return an order of the samples for each epoch: that of its random words.

    The lowest bits of a word are replaced by its place, so that one array is sorted and not two:
    XLA is seven times as fast at that. The other bits decide. Samples in which they are equal, a
    pair or so of 2048, keep their order.
    """
    bits = (samples - 1).bit_length()
    places = jnp.arange(samples, dtype=jnp.uint32)[None]
    tagged = (words.reshape(-1, samples) >> bits << bits) | places
    return (jnp.sort(tagged, axis=1) & jnp.uint32((1 << bits) - 1)).astype(jnp.int32)


def update(
    program: Program,
    learner: Learner,
    rollout: Rollout,
    values: Values,
    clock: Clock,
) -> tuple[Learner, Metrics]:
    """Improve the actor and the value network in epochs over the shuffled rollout.

    Neither sees what the other learns in these epochs: both may use the same minibatches.
    """
    settings, d = program.settings, program.drift
    alpha = program.alpha_schedule.temperature(learner.alpha, values, clock)
    lam = program.lam_schedule.temperature(learner.lam, values, clock)
    alpha_of_rewards, reward_scale = alpha, values.reward_scale
    unit, size, divisor = learner.unit, None, None
    if program.unit is not None:
        reward = unpack(program.env, rollout.rows.reshape(-1, rollout.rows.shape[-1])).reward
        unit = program.unit.observe_rewards(unit, reward_scale * reward)
        size, divisor = program.unit.size(unit, reward_scale), program.unit.divisor(unit)
        alpha_of_rewards, reward_scale = size * alpha, reward_scale / divisor
        if not settings.normalize_advantages:  # those have the unit 1
            alpha, lam = size * alpha, size * lam
    samples, mean_h = estimate(
        program, learner, rollout.rows, alpha_of_rewards, values.gamma, reward_scale
    )
    if program.unit is not None:
        unit = program.unit.observe_spread(unit, spread_of_advantages(samples.advantage))

    def improve(theta: Array, batch: Batch, samples: Samples) -> Any:
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
            d,
        )

    def regress(phi: Array, batch: Batch, samples: Samples) -> Any:
        value = program.critic(phi, batch.observation)[0]
        return value_loss(value, samples.target), jnp.mean(value)

    left = learning_rate_left(program, clock)
    old_critic = jax.tree.map(lambda x: x[0], (learner.critics, learner.critic_optimizer))
    pupils = [
        Pupil(improve, settings.actor_epochs, values.actor_lr * left),
        Pupil(regress, settings.critic_epochs, values.critic_lr * left),
    ]
    starts = [(learner.actor, learner.actor_optimizer), old_critic]
    orders = shuffles(rollout.words, len(samples.rows))
    healthy = learner.diverged_at < 0
    (actor, new_critic), healthy, seen = train(program, pupils, starts, samples, orders, healthy)
    critics, critic_optimizer = jax.tree.map(lambda x: x[None], new_critic)
    observed = {"h": mean_h}
    if observes_drift(program):
        assert isinstance(d, Drift)  # no other has a learned lambda
        x = unpack(program.env, samples.rows).observation
        logits = program.actor(actor[0], x).T
        observed["drift"] = jnp.mean(d.value_from_logits(logits, samples.old_logits))
    new = learner._replace(
        actor=actor[0],
        actor_optimizer=actor[1],
        critics=critics,
        critic_optimizer=critic_optimizer,
        unit=unit,
    )
    new = conclude(program, learner, new, healthy, observed, values, clock)
    if not program.with_curves:
        return new, {}
    ((loss, terms), actor_norm), ((regression, mean_value), value_norm) = seen
    return new, report(
        {
            "actor_loss": loss,
            "critic_loss": regression,
            "actor_grad_norm": actor_norm,
            "critic_grad_norm": value_norm,
            "mean_q": mean_value,
            "h": mean_h,
            "drift": terms.drift,
            "entropy": mean_entropy(samples.old_logits.T),
            "alpha": alpha,
            "lam": lam,
        },
        size,
        divisor,
        ("mean_q",) if settings.normalize_advantages else ("mean_q", "alpha", "lam"),
    )


class Pupil(NamedTuple):
    """A network that learns from minibatches: its objective, for how many epochs, how fast."""

    objective: Callable[[Array, Batch, Samples], Any]
    epochs: int
    learning_rate: Float[Array, ""]


def train(
    program: Program,
    pupils: list[Pupil],
    starts: list[tuple[Float[Array, " p"], Any]],
    samples: Samples,
    orders: Int[Array, "epochs samples"],
    healthy: Bool[Array, ""],
) -> tuple[list[tuple[Float[Array, " p"], Any]], Bool[Array, ""], list[Any]]:
    """Take one step of each network for each minibatch of its epochs.

    Return the networks with their optimisers, whether all was finite, and what each network's last
    minibatch saw: its objective and the norm of its gradient.
    """
    size = program.settings.batch_size
    minibatches = orders.reshape(len(orders), -1, size)
    networks, seen = list(starts), [None] * len(pupils)
    done = 0
    for end in sorted({pupil.epochs for pupil in pupils}):
        active = [i for i, pupil in enumerate(pupils) if pupil.epochs >= end]

        def step(carry: Any, chosen: Int[Array, " batch"], active: list[int] = active) -> Any:
            networks, healthy = carry
            part = jax.tree.map(lambda x: x.at[chosen].get(mode="promise_in_bounds"), samples)
            batch = unpack(program.env, part.rows)
            moved, saw = [], []
            for i, (parameters, state) in zip(active, networks, strict=True):
                objective = jax.value_and_grad(pupils[i].objective, has_aux=True)
                value, gradient = objective(parameters, batch, part)
                norm = optax.tree.norm(gradient)
                healthy &= jnp.isfinite(value[0]) & jnp.isfinite(norm)
                rate = pupils[i].learning_rate
                moved.append(descend(program.optimizer, parameters, gradient, state, rate))
                saw.append((value, norm))
            return (moved, healthy), saw

        chosen = minibatches[done:end].reshape(-1, size)
        carry = [networks[i] for i in active], healthy
        (moved, healthy), saw = jax.lax.scan(step, carry, chosen)
        for place, i in enumerate(active):
            networks[i] = moved[place]
            seen[i] = jax.tree.map(lambda x: x[-1], saw[place])
        done = end
    return networks, healthy, seen
