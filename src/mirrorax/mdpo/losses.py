"""The objectives of MDPO(h, D), as functions of logits and values.

Batches are on the last axis ([actions, batch]); the regularisers see the actions on theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mirrorax.mdpo.replay import Batch
from mirrorax.regularizers import Drift, Potential
from mirrorax.runs.settings import Settings


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
