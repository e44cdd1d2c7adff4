"""The drifts D(p, q): what keeps the new policy p near the old policy q.

A drift is non-negative, zero at p = q, and has zero gradient in p there (along the simplex): the
conditions of mirror learning. Bregman divergences are the drifts that come from a potential.

A drift is a formula of (p, q, log p, log q) and its slopes; the rest is derived. `value` works from
probabilities and `value_from_logits` from logits, on the last axis. D(p, q) is +inf where the
mathematics says so (KL with p > 0 = q); from logits it is always finite.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from mirrorax.errors import UserError
from mirrorax.regularizers import names
from mirrorax.regularizers.potentials import (
    NegativeEntropy,
    Potential,
    differentiable_value,
    kl_terms,
)
from mirrorax.regularizers.potentials import Zero as ZeroPotential
from mirrorax.regularizers.potentials import potential as as_potential
from mirrorax.simplex import (
    Array,
    Rows,
    Values,
    as_real,
    exact_log,
    floored_log,
    is_zero,
    log_softmax,
    namespace,
    probability_floor,
)


class Drift(abc.ABC):
    """A drift functional D(p, q) of a new policy p and an old policy q: a frozen dataclass."""

    name: str
    #: D is infinite where this holds for some action: "p > 0 = q" or "q > 0 = p"; None if nowhere
    infinite: str | None

    @final
    def value(self, p: Rows, q: Float[Array, "*#batch actions"]) -> Values:
        """Return D(p, q)."""
        p, q = _paired(p, q)
        return differentiable_value(self, p, q) if isinstance(p, jax.Array) else self._at(p, q)

    @final
    def value_from_logits(
        self, logits: Rows, old_logits: Float[Array, "*#batch actions"]
    ) -> Values:
        """Return D(softmax(logits), softmax(old_logits)), safe for logits of any size."""
        new, old = _paired(logits, old_logits)
        return self.value_from_log(log_softmax(new), log_softmax(old))

    @final
    def value_from_log(self, logp: Rows, logq: Rows) -> Values:
        """Return D(p, q) for finite log p and log q."""
        xp = namespace(logp, logq)
        return self._value(xp.exp(logp), xp.exp(logq), logp, logq)

    __str__ = names.spelled

    @final
    def _at(self, p: Any, q: Any) -> Any:
        xp = namespace(p, q)
        value = self._value(p, q, exact_log(p), exact_log(q))
        if self.infinite is None:
            return value
        positive, zero = (p, q) if self.infinite == "p > 0 = q" else (q, p)
        return xp.where((~is_zero(positive) & is_zero(zero)).any(-1), xp.inf, value)

    @abc.abstractmethod
    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        """Return D(p, q); logarithms of zero are finite."""

    @abc.abstractmethod
    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        """Return the gradients of D in p and in q, for jax arrays."""


def _paired(new: Any, old: Any) -> Any:
    """Broadcast leading axes, never the actions."""
    xp = namespace(new, old)
    new, old = as_real(xp, new, old)
    if new.shape[-1:] != old.shape[-1:] or not new.ndim:
        raise UserError(
            f"drift: shapes {new.shape} and {old.shape}; both must be [..., actions] with the same "
            "number of actions"
        )
    return xp.broadcast_arrays(new, old)


class Divergence(Drift):
    """The Bregman divergence of a potential. `KL` and `Zero` are such divergences, too."""

    potential: Potential

    @property
    def infinite(self) -> str | None:  # type: ignore[override]
        """D is infinite where the slope of the potential at q is infinite."""
        return "p > 0 = q" if self.potential.steep else None

    @final
    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return self.potential._bregman(p, q, logp, logq)

    @final
    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        # dB = <grad h(p) - grad h(q), dp> - <Hess h(q) (p - q), dq>
        grad = self.potential._grad
        old, change = jax.jvp(grad, (q,), (p - q,))
        return grad(p) - old, -change


@final
@dataclass(frozen=True)
class Bregman(Divergence):
    """B_h(p, q) = h(p) - h(q) - <grad h(q), p - q>, with h's documented subgradient."""

    potential: Potential

    name = "bregman"

    def __post_init__(self) -> None:
        object.__setattr__(self, "potential", as_potential(self.potential))


@final
@dataclass(frozen=True)
class KL(Divergence):
    """The reverse KL divergence sum p log(p / q), of the new policy from the old one."""

    name = "kl"
    potential = NegativeEntropy()


@final
@dataclass(frozen=True)
class ForwardKL(Drift):
    """The forward KL divergence sum q log(q / p), of the old policy from the new one."""

    name = "forward_kl"
    infinite = "q > 0 = p"

    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return kl_terms(q, p, logq, logp).sum(-1)

    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        ratio = q / jnp.maximum(p, probability_floor(p.dtype))
        return 1 - ratio, floored_log(q) - floored_log(p)


@final
@dataclass(frozen=True)
class SquaredTV(Drift):
    """The square of the total variation distance sum abs(p - q) / 2; no Bregman divergence."""

    name = "squared_tv"
    infinite = None

    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return (namespace(p, q).abs(p - q).sum(-1) / 2) ** 2

    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        slope = jnp.abs(p - q).sum(-1, keepdims=True) / 2 * jnp.sign(p - q)
        return slope, -slope


@final
@dataclass(frozen=True)
class ChiSquare(Drift):
    """The chi-square divergence sum (p - q)^2 / q, of the new policy from the old one."""

    name = "chi_square"
    infinite = "p > 0 = q"

    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        # From logarithms: no digits are lost where p is close to q.
        xp, t = namespace(p, q), logp - logq
        close = xp.abs(t) < 1
        near = q * xp.expm1(xp.where(close, t, 0)) ** 2
        floored = xp.maximum(logq, math.log(probability_floor(q.dtype)))
        return xp.where(close, near, xp.exp(2 * logp - floored) - 2 * p + q).sum(-1)

    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        # A zero q counts as the floor. The bound keeps the square of the ratio finite in float32.
        ratio = jnp.minimum(p / jnp.maximum(q, probability_floor(q.dtype)), 1e15)
        return 2 * (ratio - 1), 1 - ratio**2


@final
@dataclass(frozen=True)
class Zero(Divergence):
    """D = 0: no trust region."""

    name = "zero"
    potential = ZeroPotential()


def reference_drift(drift: Drift, actions: int) -> float:
    """Return the drift of a large step; a learned lambda keeps the drift at the fraction `v` of it.

        max over actions a of D((e_a + u) / 2, u)

    The step goes from the uniform policy u half-way to e_a, the policy that always takes a. Its
    drift is finite and positive for every built-in drift but zero, even for forward KL, which is
    infinite at the vertices. With n actions it is (1 - 1/n) / 4 for bregman(lp(2)), 1/2 for
    bregman(max) and (1 - 1/n)^2 / 4 for squared_tv.
    """
    uniform = np.full(actions, 1 / actions)
    decided = (np.eye(actions) + uniform) / 2
    value = float(np.max(np.asarray(drift.value(decided, uniform), np.float64)))
    if not (np.isfinite(value) and value > 0):
        raise UserError(
            f"lam_schedule: a learned lambda needs a drift that grows with the step; "
            f"{drift} has {value:g} for half a step from the uniform policy"
        )
    return value


def drift(name: str | Drift) -> Drift:
    """Return the drift with this name; a `Drift` is returned unchanged."""
    if isinstance(name, Drift):
        return name
    parsed = names.parse(name, "drift")
    if names.sees_advantages(parsed):
        raise UserError(
            f"drift: {str(parsed)!r} sees the advantages of actions taken, and is no function of "
            "two policies; it is for training with algorithm = 'on_policy'"
        )
    built: Drift = names.build(parsed)
    return built
