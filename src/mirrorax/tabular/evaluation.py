"""Exact values: of a policy, by a linear solve, and of the best policy, by value iteration.

There are two definitions of the regularised Q. The paper's (after Lan, 2023) charges alpha h in the
state where the action is taken, Soft Actor-Critic's only from the next state on:

    Q(s, a)     = r(s, a) - alpha h(pi(s)) + gamma E[V(s')],  V(s) = <pi(s), Q(s)>
    Q_sac(s, a) = r(s, a) + gamma E[V(s')],  V(s) = <pi(s), Q_sac(s)> - alpha h(pi(s))

V is the same. The two Q differ by a constant in each state, which does not change a mirror step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float64

from mirrorax.formatting import Shown
from mirrorax.regularizers.potentials import Potential
from mirrorax.regularizers.potentials import potential as as_potential
from mirrorax.tabular.inputs import check_policy, temperature
from mirrorax.tabular.mdp import MDP, check_mdp
from mirrorax.tabular.mirror import best_response

ActionValues: TypeAlias = Float64[np.ndarray, "*batch states actions"]


@dataclass(frozen=True, repr=False)
class ExactValues(Shown):
    """The exact values of a policy in a regularised MDP."""

    v: Float64[np.ndarray, "*batch states"]
    q: ActionValues  # the paper's definition
    q_sac: ActionValues  # Soft Actor-Critic's


def uniform_policy(mdp: MDP) -> Float64[np.ndarray, "*batch states actions"]:
    """Return the policy that takes every action with the same probability."""
    check_mdp(mdp)
    return np.full(mdp.rewards.shape, 1 / mdp.num_actions)


def evaluate(
    mdp: MDP, policy: Any, potential: Potential | str = "zero", alpha: Any = 0.0
) -> ExactValues:
    """Return V_alpha and Q_alpha of a policy, exactly: V solves (I - gamma P) V = r - alpha h.

    `policy` is [..., states, actions]; it and `alpha` may have leading axes of their own (a grid
    of temperatures), which broadcast with those of the MDP.
    """
    check_mdp(mdp)
    h, alpha = as_potential(potential), temperature("alpha", alpha)
    policy = check_policy(policy, mdp.rewards.shape[-2:])
    charge = alpha[..., None] * h.value(policy) * mdp.alive
    acting = policy * mdp.alive[..., None]  # where an episode has ended, nothing is done
    reward = np.einsum("...a,...a->...", acting, mdp.rewards)
    # P = sum over a of pi(a | s) p(. | s, a), as a product of a row and a matrix for each state.
    moves = np.matmul(acting[..., None, :], mdp.transitions)[..., 0, :]
    system = np.multiply(moves, -mdp.gamma * mdp.alive[..., None, :], out=moves)
    diagonal = np.arange(mdp.num_states)
    system[..., diagonal, diagonal] += 1
    right = np.broadcast_to(reward - charge, system.shape[:-1])
    v = np.linalg.solve(system, right[..., None])[..., 0]
    q_sac = backup(mdp, v)
    return ExactValues(v, q_sac - charge[..., None], q_sac)


def backup(mdp: MDP, v: Any) -> ActionValues:
    """Return r(s, a) + gamma E[V(s')]; zero at terminal states."""
    future = np.matmul(mdp.matrix, (v * mdp.alive)[..., None])[..., 0]
    q = mdp.rewards + mdp.gamma * future.reshape(*future.shape[:-1], *mdp.rewards.shape[-2:])
    return q * mdp.alive[..., None]


def to_sac(q: Any, policy: Any, potential: Potential | str, alpha: Any) -> ActionValues:
    """Convert the paper's Q to Soft Actor-Critic's: add alpha h(pi(s))."""
    return np.asarray(q, float) + _charge(policy, potential, alpha)


def to_paper(q_sac: Any, policy: Any, potential: Potential | str, alpha: Any) -> ActionValues:
    """Convert Soft Actor-Critic's Q to the paper's: subtract alpha h(pi(s))."""
    return np.asarray(q_sac, float) - _charge(policy, potential, alpha)


def _charge(policy: Any, potential: Potential | str, alpha: Any) -> Any:
    h = as_potential(potential).value(np.asarray(policy, float))
    return (temperature("alpha", alpha)[..., None] * h)[..., None]


@dataclass(frozen=True, repr=False)
class Optimum(Shown):
    """The best regularised policy and its value, with the bound on the value's error."""

    v: Float64[np.ndarray, "*batch states"]
    policy: Float64[np.ndarray, "*batch states actions"]
    error: float


def optimum(mdp: MDP, potential: Potential | str = "zero", alpha: Any = 0.0) -> Optimum:
    """Return V* of the regularised MDP by regularised value iteration.

        V(s) <- max over p of <p, r(s) + gamma E[V(s')]> - alpha h(p)

    The operator contracts by gamma to its only fixed point, and the distance to it is at most
    gamma / (1 - gamma) times the last change: the iteration stops when this bound is small. It
    starts close to the fixed point, after a few rounds of policy iteration.
    """
    h, alpha = as_potential(potential), temperature("alpha", alpha)
    policy = np.broadcast_to(
        uniform_policy(mdp),
        (*np.broadcast_shapes(mdp.batch, alpha.shape), *mdp.rewards.shape[-2:]),
    )
    per_state = alpha[..., None]
    for _ in range(50):
        policy, before = best_response(evaluate(mdp, policy, h, alpha).q, h, per_state), policy
        # Policy iteration converges quadratically: after a change of 1e-9 the next is rounding.
        if np.abs(policy - before).max() <= 1e-9:
            break
    v = evaluate(mdp, policy, h, alpha).v
    factor = mdp.gamma / (1 - mdp.gamma)
    # The change cannot fall below the rounding of V itself.
    target = max(1e-11, 8 * np.finfo(float).eps * float(np.abs(v).max()) * (1 + factor))
    while True:
        q = backup(mdp, v)
        policy = best_response(q, h, per_state)
        following = np.einsum("...a,...a->...", policy, q) - per_state * h.value(policy)
        following *= mdp.alive
        error = factor * float(np.abs(following - v).max())
        v = following
        if error <= target:
            return Optimum(v, policy, error)
