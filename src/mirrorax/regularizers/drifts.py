"""The drifts D(p, q): what keeps the new policy p near the old policy q.

A drift is non-negative, zero at p = q, and has zero gradient in p there (along the simplex): the
conditions of mirror learning. Bregman divergences are the drifts that come from a potential.

`value` works from probabilities and `value_from_logits` from logits, on the last axis. D(p, q) is
+inf where the mathematics says so (KL with p > 0 = q); from logits it is always finite.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jaxtyping import Float

from mirrorax.errors import UserError
from mirrorax.regularizers import names
from mirrorax.regularizers.potentials import NegativeEntropy, Potential
from mirrorax.regularizers.potentials import potential as as_potential
from mirrorax.simplex import (
    Array,
    as_real,
    exact_log,
    floored_log,
    is_zero,
    log_softmax,
    namespace,
    probability_floor,
)


@dataclass(frozen=True)
class Drift(abc.ABC):
    """A drift functional D(p, q) of a new policy p and an old policy q."""

    @final
    def value(
        self, p: Float[Array, "*batch actions"], q: Float[Array, "*#batch actions"]
    ) -> Float[Array, "*batch"]:
        """Return D(p, q)."""
        return self._value(*_paired(p, q))

    @final
    def value_from_logits(
        self, logits: Float[Array, "*batch actions"], old_logits: Float[Array, "*#batch actions"]
    ) -> Float[Array, "*batch"]:
        """Return D(softmax(logits), softmax(old_logits)), safe for logits of any size."""
        new, old = _paired(logits, old_logits)
        return self._value_from_log(log_softmax(new), log_softmax(old))

    @abc.abstractmethod
    def __str__(self) -> str:
        """Return the name that gives this drift back."""

    @abc.abstractmethod
    def _value(self, p: Any, q: Any) -> Any: ...

    @abc.abstractmethod
    def _value_from_log(self, logp: Any, logq: Any) -> Any: ...


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


def _bregman_value(potential: Potential, p: Any, q: Any) -> Any:
    # custom_jvp would hand numpy arrays to jax, which may halve their precision.
    compute = _differentiable_bregman if isinstance(p, jax.Array) else _bregman_extended
    return compute(potential, p, q)


def _bregman_extended(potential: Potential, p: Any, q: Any) -> Any:
    xp = namespace(p, q)
    value = potential._bregman(p, q, exact_log(p), exact_log(q))
    if not potential.steep:
        return value
    return xp.where((~is_zero(p) & is_zero(q)).any(-1), xp.inf, value)


_differentiable_bregman = jax.custom_jvp(_bregman_extended, nondiff_argnums=(0,))


@_differentiable_bregman.defjvp
def _bregman_jvp(potential: Potential, primals: Any, tangents: Any) -> Any:
    # dB = <grad h(p) - grad h(q), dp> - <Hess h(q) dq, p - q>
    (p, q), (dp, dq) = primals, tangents
    old_grad, old_change = jax.jvp(potential._grad, (q,), (dq,))
    change = (potential._grad(p) - old_grad) * dp - old_change * (p - q)
    return _differentiable_bregman(potential, p, q), change.sum(-1)


def _bregman_from_log(potential: Potential, logp: Any, logq: Any) -> Any:
    xp = namespace(logp, logq)
    return potential._bregman(xp.exp(logp), xp.exp(logq), logp, logq)


@final
@dataclass(frozen=True)
class Bregman(Drift):
    """B_h(p, q) = h(p) - h(q) - <grad h(q), p - q>, with h's documented subgradient."""

    potential: Potential

    def __post_init__(self) -> None:
        object.__setattr__(self, "potential", as_potential(self.potential))

    def __str__(self) -> str:
        return f"bregman({self.potential})"

    def _value(self, p: Any, q: Any) -> Any:
        return _bregman_value(self.potential, p, q)

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        return _bregman_from_log(self.potential, logp, logq)


@final
@dataclass(frozen=True)
class KL(Drift):
    """The reverse KL divergence sum p log(p / q), of the new policy from the old one.

    It is the Bregman divergence of the negative entropy, and is computed as that.
    """

    def __str__(self) -> str:
        return "kl"

    @property
    def potential(self) -> Potential:
        """The potential it is the Bregman divergence of."""
        return NegativeEntropy()

    def _value(self, p: Any, q: Any) -> Any:
        return _bregman_value(self.potential, p, q)

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        return _bregman_from_log(self.potential, logp, logq)


@jax.custom_jvp
def _forward_kl(p: Any, q: Any) -> Any:
    return _bregman_extended(NegativeEntropy(), q, p)


@_forward_kl.defjvp
def _forward_kl_jvp(primals: Any, tangents: Any) -> Any:
    (p, q), (dp, dq) = primals, tangents
    ratio = q / jnp.maximum(p, probability_floor(p.dtype))
    change = (1 - ratio) * dp + (floored_log(q) - floored_log(p)) * dq
    return _forward_kl(p, q), change.sum(-1)


@final
@dataclass(frozen=True)
class ForwardKL(Drift):
    """The forward KL divergence sum q log(q / p), of the old policy from the new one."""

    def __str__(self) -> str:
        return "forward_kl"

    def _value(self, p: Any, q: Any) -> Any:
        if isinstance(p, jax.Array):
            return _forward_kl(p, q)
        return _bregman_extended(NegativeEntropy(), q, p)

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        return _bregman_from_log(NegativeEntropy(), logq, logp)


@final
@dataclass(frozen=True)
class SquaredTV(Drift):
    """The square of the total variation distance sum abs(p - q) / 2: a drift, not a Bregman one."""

    def __str__(self) -> str:
        return "squared_tv"

    def _value(self, p: Any, q: Any) -> Any:
        return (namespace(p, q).abs(p - q).sum(-1) / 2) ** 2

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        xp = namespace(logp, logq)
        return self._value(xp.exp(logp), xp.exp(logq))


def _chi_square_terms(p: Any, q: Any, logp: Any, logq: Any) -> Any:
    """Return (p - q)^2 / q entry by entry, from logarithms: no digits are lost where p = q."""
    xp, t = namespace(p, q), logp - logq
    close = xp.abs(t) < 1
    near = q * xp.expm1(xp.where(close, t, 0)) ** 2
    floored = xp.maximum(logq, math.log(probability_floor(q.dtype)))
    return xp.where(close, near, xp.exp(2 * logp - floored) - 2 * p + q)


def _chi_square_value(p: Any, q: Any) -> Any:
    xp = namespace(p, q)
    value = _chi_square_terms(p, q, exact_log(p), exact_log(q)).sum(-1)
    return xp.where((~is_zero(p) & is_zero(q)).any(-1), xp.inf, value)


_differentiable_chi_square = jax.custom_jvp(_chi_square_value)


@_differentiable_chi_square.defjvp
def _chi_square_jvp(primals: Any, tangents: Any) -> Any:
    (p, q), (dp, dq) = primals, tangents
    # Bounded, so that its square is finite in float32: a zero q counts as a small one.
    ratio = jnp.minimum(p / jnp.maximum(q, probability_floor(q.dtype)), 1e15)
    change = 2 * (ratio - 1) * dp + (1 - ratio**2) * dq
    return _differentiable_chi_square(p, q), change.sum(-1)


@final
@dataclass(frozen=True)
class ChiSquare(Drift):
    """The chi-square divergence sum (p - q)^2 / q, of the new policy from the old one."""

    def __str__(self) -> str:
        return "chi_square"

    def _value(self, p: Any, q: Any) -> Any:
        compute = _differentiable_chi_square if isinstance(p, jax.Array) else _chi_square_value
        return compute(p, q)

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        xp = namespace(logp, logq)
        return _chi_square_terms(xp.exp(logp), xp.exp(logq), logp, logq).sum(-1)


@final
@dataclass(frozen=True)
class Zero(Drift):
    """D = 0: no trust region."""

    def __str__(self) -> str:
        return "zero"

    def _value(self, p: Any, q: Any) -> Any:
        return namespace(p, q).zeros_like((p + q)[..., 0])

    def _value_from_log(self, logp: Any, logq: Any) -> Any:
        return namespace(logp, logq).zeros_like((logp + logq)[..., 0])


def drift(name: str | Drift) -> Drift:
    """Return the drift a name stands for; a drift is returned as it is."""
    if isinstance(name, Drift):
        return name
    parsed = names.parse_drift(name)
    if names.sees_advantages(parsed):
        raise UserError(
            f"drift: {str(parsed)!r} sees the advantages of actions taken, and is no function of "
            "two policies; it is for training with algorithm = 'on_policy'"
        )
    built: Drift = names.build(parsed)
    return built
