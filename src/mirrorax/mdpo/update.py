"""One update of one run on one batch: Algorithm 1 of the paper, after the sampling.

First the objectives of MDPO(h, D), as functions of logits and values, then the update that descends
them. Batches are on the last axis ([actions, batch]); the regularisers see the actions on theirs.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Num

from mirrorax.mdpo.networks import descend
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.replay import Asked, Batch, asked, unpack
from mirrorax.mdpo.schedules import Clock, Schedule, Values
from mirrorax.mdpo.units import spread_of_q
from mirrorax.regularizers import Drift, Potential
from mirrorax.runs.settings import Settings

Metrics = dict[str, Float[Array, "*lanes"]]

#: what an update reports, where learning curves are recorded
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


class ActorTerms(NamedTuple):
    """The means over the batch of the three terms of the actor's objective."""

    q: Float[Array, ""]
    h: Float[Array, ""]
    drift: Float[Array, ""]


def actor_loss(
    logits: Float[Array, "actions batch"],
    old_logits: Float[Array, "actions batch"],
    q: Float[Array, "actions batch"],
    alpha: Float[Array, ""],
    lam: Float[Array, ""],
    potential: Potential,
    drift: Drift,
) -> tuple[Float[Array, ""], ActorTerms]:
    """Equation (7) of the paper, the policy improvement objective.

    minimise over theta:  E_s[ <pi_theta(s), -Q(s)> + alpha h(pi_theta(s))
                               + lambda D(pi_theta(s), pi_k(s)) ]
    """
    mean_q = jnp.mean(jnp.sum(jax.nn.softmax(logits, axis=0) * q, axis=0))
    h = jnp.mean(potential.value_from_logits(logits.T))
    d = jnp.mean(drift.value_from_logits(logits.T, old_logits.T))
    return -mean_q + alpha * h + lam * d, ActorTerms(mean_q, h, d)


def critic_target(
    settings: Settings,
    potential: Potential,
    batch: Batch,
    next_logits: Float[Array, "actions batch"],
    next_q: Float[Array, "actions batch"],
    logits: Float[Array, "actions batch"],
    alpha: Float[Array, ""],
    gamma: Float[Array, ""],
    reward_scale: Float[Array, ""],
) -> Float[Array, " batch"]:
    """What the critics regress on; pi is the improved policy pi_{k+1}, Q' the smaller target.

    `sac`      r + gamma (1 - d) (E[Q'(s', .)] - alpha h(pi(s')))
    `paper`    r - alpha h(pi(s)) + gamma (1 - d) E[Q'(s', .)]    (the definition of Q_alpha)
    `printed`  r + gamma (1 - d) E[Q'(s', .)] - alpha h(pi(s'))   (Algorithm 1 as printed)

    In the first, h of the present state is not part of Q; in the second it is. The last is not
    discounted with its state, and h counts after termination too. With an unregularized `actor_q`
    there is no h in any of them.
    """
    reward = reward_scale * batch.reward
    value = jnp.sum(jax.nn.softmax(next_logits, axis=0) * next_q, axis=0)
    follows = gamma * batch.follows
    if settings.actor_q == "unregularized":
        return reward + follows * value
    if settings.critic_target == "paper":
        return reward - alpha * potential.value_from_logits(logits.T) + follows * value
    penalty = alpha * potential.value_from_logits(next_logits.T)
    if settings.critic_target == "sac":
        return reward + follows * (value - penalty)
    return reward + follows * value - penalty


class CriticTerms(NamedTuple):
    """The critics' losses and the mean of their values at the actions taken."""

    loss: Float[Array, " critics"]
    q: Float[Array, ""]


def critic_loss(
    q: Float[Array, "critics actions batch"],
    action: Int[Array, " batch"],
    target: Float[Array, " batch"],
) -> tuple[Float[Array, ""], CriticTerms]:
    """The sum of the critics' losses: each critic's gradient is that of its own.

    minimise over phi:  L_Q = E[(Q_phi(s, a) - y)^2]   (Algorithm 1, policy evaluation)
    """
    # A sum over a handful of actions, which is cheaper than a gather and its scatter.
    taken = (jnp.arange(q.shape[1])[:, None] == action[None]).astype(q.dtype)[None]
    value = jnp.sum(q * taken, axis=1)
    loss = jnp.mean(jnp.square(value - target[None]), axis=-1)
    return jnp.sum(loss), CriticTerms(loss, jnp.mean(value))


class Learner(NamedTuple):
    """What an update changes: networks, optimisers, schedules."""

    actor: Float[Array, "*lanes p"]
    actor_optimizer: Any
    critics: Float[Array, "*lanes critics q"]
    critic_optimizer: Any
    targets: Float[Array, "*lanes critics q"]
    alpha: Any
    lam: Any
    #: the update at which the run diverged and was frozen, -1 while it has not
    diverged_at: Int[Array, "*lanes"]
    #: what the unit of the temperatures has seen; () where it needs nothing
    unit: Any = ()


def init_learner(
    program: Program, actor: Float[Array, " p"], critics: Float[Array, "critics q"], values: Values
) -> Learner:
    """Return the learner of one run before its first update."""
    init = program.optimizer.init
    return Learner(
        actor=actor,
        actor_optimizer=init(actor),
        critics=critics,
        critic_optimizer=init(critics) if _joint(program) else jax.vmap(init)(critics),
        targets=critics,
        alpha=program.alpha_schedule.init(values),
        lam=program.lam_schedule.init(values),
        diverged_at=jnp.int32(-1),
        unit=() if program.unit is None else program.unit.init(),
    )


def _joint(program: Program) -> bool:
    """Whether the critics' gradients are clipped by their norm together, not one by one."""
    return program.settings.clipping == "joint"


def update(
    program: Program,
    learner: Learner,
    rows: Num[Array, "batch row"],
    values: Values,
    clock: Clock,
    anchor: Float[Array, " p"] | None = None,
) -> tuple[Learner, Metrics]:
    """Improve the actor, then regress the critics under the improved policy, then move the targets.

    `anchor` holds the parameters of pi_k, from which the drift is measured; the learner's own
    unless given.
    """
    settings, d = program.settings, program.drift
    assert isinstance(d, Drift)  # the settings have no other off-policy
    batch = unpack(program.env, rows)
    h, h_next = map(program.potential_at, (batch.observation, batch.next_observation))
    x, x_next = asked(program, rows, batch)

    def pi(theta: Array, x: Asked) -> Float[Array, "actions batch"]:
        return x.ask(program.actor, theta)

    def critic(phi: Array, x: Asked) -> Float[Array, "critics actions batch"]:
        return jax.vmap(partial(x.ask, program.critic))(phi)

    alpha = program.alpha_schedule.temperature(learner.alpha, values, clock)
    lam = program.lam_schedule.temperature(learner.lam, values, clock)
    left = learning_rate_left(program, clock)
    step = partial(descend, program.optimizer)
    healthy = learner.diverged_at < 0

    # theta^(i+1) = theta^(i) - eta grad L(theta, theta_k), equation (7).
    actor, optimizer = learner.actor, learner.actor_optimizer
    q = jnp.min(critic(learner.critics, x), axis=0)
    unit, reward_scale, size, divisor = learner.unit, values.reward_scale, None, None
    if program.unit is not None:
        unit = program.unit.observe_rewards(unit, reward_scale * batch.reward)
        unit = program.unit.observe_spread(unit, spread_of_q(q))
        size, divisor = program.unit.size(unit, reward_scale), program.unit.divisor(unit)
        alpha, lam, reward_scale = size * alpha, size * lam, reward_scale / divisor
    old_logits = pi(actor if anchor is None else anchor, x)
    first_terms = None
    for _ in range(settings.actor_epochs):

        def objective(theta: Array) -> Any:
            return actor_loss(pi(theta, x), old_logits, q, alpha, lam, h, d)

        (loss, terms), gradient = jax.value_and_grad(objective, has_aux=True)(actor)
        actor_norm = optax.tree.norm(gradient)
        healthy &= jnp.isfinite(loss) & jnp.isfinite(actor_norm)
        actor, optimizer = step(actor, gradient, optimizer, values.actor_lr * left)
        first_terms = first_terms or terms

    # L_Q(phi) = E[(Q_phi(s, a) - y)^2], with pi_{k+1} and alpha_k in y.
    target = critic_target(
        settings,
        h if settings.critic_target == "paper" else h_next,
        batch,
        next_logits=pi(actor, x_next),
        next_q=jnp.min(critic(learner.targets, x_next), axis=0),
        logits=pi(actor, x),  # the compiler drops it where the target does not read it
        alpha=alpha,
        gamma=values.gamma,
        reward_scale=reward_scale,
    )
    critics, critic_optimizer = learner.critics, learner.critic_optimizer
    critic_step = step if _joint(program) else jax.vmap(step, in_axes=(0, 0, 0, None))
    for _ in range(settings.critic_epochs):

        def regression(phi: Array) -> Any:
            return critic_loss(critic(phi, x), batch.action, target)

        (error, fit), gradients = jax.value_and_grad(regression, has_aux=True)(critics)
        critic_norms = jax.vmap(optax.tree.norm)(gradients)
        healthy &= jnp.isfinite(error) & jnp.all(jnp.isfinite(critic_norms))
        critics, critic_optimizer = critic_step(
            critics, gradients, critic_optimizer, values.critic_lr * left
        )

    # phi_target <- tau phi_target + (1 - tau) phi: tau is the weight of the OLD target.
    targets = settings.tau * learner.targets + (1 - settings.tau) * critics
    assert first_terms is not None
    observed = {"h": first_terms.h}
    if observes_drift(program):
        observed["drift"] = jnp.mean(d.value_from_logits(pi(actor, x).T, old_logits.T))
    new = learner._replace(
        actor=actor,
        actor_optimizer=optimizer,
        critics=critics,
        critic_optimizer=critic_optimizer,
        targets=targets,
        unit=unit,
    )
    new = conclude(program, learner, new, healthy, observed, values, clock)
    if not program.with_curves:
        return new, {}
    return new, report(
        {
            "actor_loss": loss,
            "critic_loss": jnp.mean(fit.loss),
            "actor_grad_norm": actor_norm,
            "critic_grad_norm": optax.tree.norm(critic_norms),
            "mean_q": fit.q,
            "h": first_terms.h,
            "drift": terms.drift,
            "entropy": mean_entropy(old_logits),
            "alpha": alpha,
            "lam": lam,
        },
        size,
        divisor,
    )


def learning_rate_left(program: Program, clock: Clock) -> Float[Array, ""] | float:
    """Return what part of the learning rates update k uses."""
    return 1 - clock.progress if program.settings.anneal_learning_rate else 1.0


def observes_drift(program: Program) -> bool:
    """Whether a schedule learns from the drift of an update."""
    return "drift" in (program.alpha_schedule.observes, program.lam_schedule.observes)


def conclude(
    program: Program,
    learner: Learner,
    new: Learner,
    healthy: Bool[Array, ""],
    observed: Metrics,
    values: Values,
    clock: Clock,
) -> Learner:
    """Return the new learner, its schedules moved on by what they observe.

    A run whose losses, gradients or parameters are not finite stays as it was before the update,
    for good.
    """
    # A norm is finite only if every parameter is.
    healthy &= jnp.isfinite(optax.tree.norm((new.actor, new.critics)))
    diverged = (learner.diverged_at < 0) & ~healthy

    def learned(schedule: Schedule, state: Any) -> Any:
        return schedule.learn(state, values, clock, observed[schedule.observes])

    new = new._replace(
        alpha=learned(program.alpha_schedule, learner.alpha),
        lam=learned(program.lam_schedule, learner.lam),
    )
    return where(healthy, new, learner)._replace(
        diverged_at=jnp.where(diverged, clock.k, learner.diverged_at).astype(jnp.int32)
    )


def mean_entropy(logits: Float[Array, "actions batch"]) -> Float[Array, ""]:
    """Return the mean entropy of policies."""
    logp = jax.nn.log_softmax(logits, axis=0)
    return -jnp.mean(jnp.sum(jnp.exp(logp) * logp, axis=0))


def report(
    metrics: Metrics,
    size: Array | None,
    divisor: Array | None,
    with_unit: tuple[str, ...] = ("mean_q", "alpha", "lam"),
) -> Metrics:
    """Return metrics, those that have a unit in rewards, whatever the unit of the learner."""
    assert tuple(metrics) == METRICS
    if size is None or divisor is None:
        return metrics
    in_rewards = {name: divisor * metrics[name] for name in with_unit}
    return {**metrics, **in_rewards, "unit": divisor * size}


def metric_names(program: Program) -> tuple[str, ...]:
    """Return the names of what an update reports."""
    return METRICS if program.unit is None else (*METRICS, "unit")


def update_on_batches(
    program: Program,
    learner: Learner,
    rows: Num[Array, "batches batch row"],
    values: Values,
    clock: Clock,
) -> tuple[Learner, Metrics]:
    """Update on several batches, one after the other; report what the last one saw.

    The drift is measured from the policy at the start of each batch or of them all, as the setting
    `drift_from` says.
    """
    anchor = learner.actor if program.settings.drift_from == "update" else None

    def on_batch(learner: Learner, rows: Array) -> tuple[Learner, Metrics]:
        return update(program, learner, rows, values, clock, anchor)

    learner, metrics = jax.lax.scan(on_batch, learner, rows)
    return learner, jax.tree.map(lambda x: x[-1], metrics)


def where(condition: Bool[Array, "*c"], yes: Any, no: Any) -> Any:
    """Choose between two pytrees along the condition's leading axes."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(
            condition.reshape(condition.shape + (1,) * (b.ndim - condition.ndim)), a, b
        )

    return jax.tree.map(choose, yes, no)
