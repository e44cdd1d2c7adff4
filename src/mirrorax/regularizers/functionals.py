"""Drift functionals that see the advantage of the action taken: PPO's clipping, DPO, your own.

Mirror learning (Kuba, Schroeder de Witt and Foerster, 2022) lets a drift depend on advantages:

    D(pi, pi_k | s) = E over a ~ pi_k of f(r, A(s, a)),    r = pi(a | s) / pi_k(a | s).

Such a functional is one function f(r, A) with f >= 0, f(1, A) = 0 and slope zero in r at r = 1. It
is estimated at the actions of a rollout. An ordinary drift D(p, q) is computed exactly, over all
actions. `drift_of_samples` computes either, so an objective can use both in the same way.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mirrorax.regularizers import names
from mirrorax.regularizers.drifts import Drift
from mirrorax.regularizers.functions import Check, UserFunction, first_failure, registered

Samples: TypeAlias = Float[Array, "*batch"]


@dataclass(frozen=True)
class DriftFunctional(abc.ABC):
    """A drift that sees the probability ratio and the advantage of the action taken."""

    #: read by `names.sees_advantages`, which does not import this module
    sees_advantages = True

    @abc.abstractmethod
    def value(self, log_ratio: Samples, advantage: Samples) -> Samples:
        """Return f(r, A) for log r and A, entry by entry."""

    __str__ = names.spelled


@final
@dataclass(frozen=True)
class PPOClip(names.Parametric, DriftFunctional):
    """f(r, A) = max((r - clip(r, 1 - eps, 1 + eps)) A, 0): zero inside the clip range.

    With lambda = 1 the objective r A - f is PPO's min(r A, clip(r) A) (Schulman et al., 2017; as a
    drift: Kuba et al., 2022).
    """

    eps: float

    name = "ppo_clip"

    def value(self, log_ratio: Samples, advantage: Samples) -> Samples:
        """Return what clipping takes away from r A."""
        ratio = jnp.exp(log_ratio)
        beyond = ratio - jnp.clip(ratio, 1 - self.eps, 1 + self.eps)
        return jax.nn.relu(beyond * advantage)


@final
@dataclass(frozen=True)
class DPO(names.Parametric, DriftFunctional):
    """The drift of Discovered Policy Optimisation (Lu et al., 2022, arXiv:2210.05639).

    f(r, A) = relu((r - 1) A - a tanh((r - 1) A / a))    where A >= 0
              relu(log(r) A - b tanh(log(r) A / b))      where A < 0

    The paper has a = 2 and b = 0.6.
    """

    a: float = 2.0
    b: float = 0.6

    name = "dpo"

    def value(self, log_ratio: Samples, advantage: Samples) -> Samples:
        """Return f entry by entry."""
        gain = jnp.where(advantage >= 0, jnp.expm1(log_ratio), log_ratio) * advantage
        scale = jnp.where(advantage >= 0, self.a, self.b)
        return jax.nn.relu(gain - scale * jnp.tanh(gain / scale))


@final
@dataclass(frozen=True)
class FunctionFunctional(DriftFunctional):
    """A user's function f(ratio, advantage) of two numbers; see `register_functional`."""

    name: str
    function: Callable[[jax.Array, jax.Array], jax.Array] = field(repr=False)

    def value(self, log_ratio: Samples, advantage: Samples) -> Samples:
        """Call the function for every entry."""
        each = UserFunction("drift", self.name, self.function, "a ratio and an advantage")
        return jnp.vectorize(each)(jnp.exp(log_ratio), advantage)


def register_functional(
    name: str, function: Callable[[jax.Array, jax.Array], jax.Array] | None = None
) -> Any:
    """Name a drift functional f(ratio, advantage), for the algorithm `on_policy`.

    The function takes two numbers, the probability ratio and the advantage of the action taken, and
    returns a number, computed with `jax.numpy`. Call this function or use it as a decorator, like
    `register_potential`. `check_functional` tests the conditions of mirror learning.
    """
    return registered("drift", name, function, FunctionFunctional)


def any_drift(name: str | Drift | DriftFunctional) -> Drift | DriftFunctional:
    """Return the drift or drift functional with this name; an object is returned unchanged."""
    if isinstance(name, Drift | DriftFunctional):
        return name
    built: Drift | DriftFunctional = names.build(names.parse(name, "drift"))
    return built


def drift_of_samples(
    drift: Drift | DriftFunctional,
    logits: Float[Array, "actions batch"],
    old_logits: Float[Array, "actions batch"],
    action: Int[Array, " batch"],
    advantage: Float[Array, " batch"],
) -> Float[Array, " batch"]:
    """Return the drift of every sample; a functional is evaluated at the action taken."""
    if isinstance(drift, Drift):
        return jnp.asarray(drift.value_from_logits(logits.T, old_logits.T))
    return drift.value(log_ratio(logits, old_logits, action), advantage)


def log_ratio(
    logits: Float[Array, "actions batch"],
    old_logits: Float[Array, "actions batch"],
    action: Int[Array, " batch"],
) -> Float[Array, " batch"]:
    """Return log pi(a | s) - log pi_k(a | s) of the actions taken."""
    change = jax.nn.log_softmax(logits, axis=0) - jax.nn.log_softmax(old_logits, axis=0)
    # A sum over a handful of actions, which is cheaper than a gather and its scatter.
    taken = jnp.arange(logits.shape[0])[:, None] == action[None]
    return jnp.sum(jnp.where(taken, change, 0), axis=0)


def check_functional(functional: DriftFunctional, *, samples: int = 300, seed: int = 0) -> Check:
    """Test the conditions of mirror learning: f >= 0, f(1, A) = 0, slope zero in r at r = 1.

    The slope is tested by a small step to each side, because automatic differentiation does not see
    a kink at r = 1.
    """
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        ratio = jnp.asarray(np.exp(rng.normal(0, 1, samples)))
        advantage = jnp.asarray(rng.normal(0, 3, samples))

        def value(ratio: Any) -> Any:
            return np.asarray(functional.value(jnp.log(ratio), advantage))

        apart, together = value(ratio), value(jnp.ones(samples))
        sides = [1 + sign * 1e-6 for sign in (-1, 1)]
        slopes = [np.abs(value(jnp.full(samples, r))) / 1e-6 for r in sides]
    size, at = 1 + np.abs(np.asarray(advantage)), {"r": ratio, "A": advantage}
    return first_failure(
        functional,
        ("being a number", ~np.isfinite(apart) | ~np.isfinite(together), at),
        ("f(r, A) >= 0", apart < -1e-12 * size, at),
        ("f(1, A) = 0", np.abs(together) > 1e-12 * size, at),
        ("no slope in r at r = 1", np.maximum(*slopes) > 1e-3 * size, at),
    )
