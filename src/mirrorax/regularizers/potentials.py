"""The convex potentials h: what the MDP is regularised with.

A potential is `value` and `grad`; the Bregman divergence, the mirror step and the targets of a
learned temperature are derived from them. All act on the last axis, on numpy and jax arrays.

`value` differentiates to `grad` under jax: the conventions at p = 0 and at ties therefore hold in
user code that differentiates through it. `value_from_logits` is computed from log-probabilities.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from mirrorax.regularizers import names
from mirrorax.simplex import (
    Rows,
    Values,
    action_index,
    as_real,
    exact_log,
    floored_log,
    log_softmax,
    namespace,
    probability_floor,
    total,
)


class Potential(abc.ABC):
    """A convex function h on the probability simplex: a frozen dataclass."""

    name: str
    #: how a separable h = sum phi(p_i) is built, for the exact mirror step: pairs (b, e) with
    #: phi'(p) = constant + sum of b * ln_e(p), where ln_e(p) = (p^e - 1) / e is the deformed
    #: logarithm and ln_0 = log. None where h is not of this family.
    powers: tuple[tuple[float, float], ...] | None = None
    #: the bound on abs(h) for a number of actions, where Appendix A of the paper states one
    paper_bound: Callable[[int], float] | None = None

    @final
    def value(self, p: Rows) -> Values:
        """Return h(p)."""
        (p,) = as_real(namespace(p), p)
        # custom_jvp would convert numpy arrays to jax, which may halve their precision.
        return differentiable_value(self, p) if isinstance(p, jax.Array) else self._at(p)

    @final
    def grad(self, p: Rows) -> Rows:
        """Return the gradient of h at p, or the documented subgradient where h has a kink."""
        (p,) = as_real(namespace(p), p)
        return self._grad(p)

    @final
    def value_from_logits(self, logits: Rows) -> Values:
        """Return h(softmax(logits)), safe for logits of any size."""
        (logits,) = as_real(namespace(logits), logits)
        return self._value_from_log(log_softmax(logits))

    @abc.abstractmethod
    def range(self, num_actions: int) -> tuple[float, float]:
        """Return the smallest and the largest value of h on the simplex of `num_actions`."""

    @final
    def bound(self, num_actions: int) -> float:
        """Return the paper's bound on abs(h), or the largest abs(h) if it states none."""
        if self.paper_bound is not None:
            return self.paper_bound(num_actions)
        return max(map(abs, self.range(num_actions)))

    __str__ = names.spelled

    @property
    @final
    def steep(self) -> bool:
        """Whether the slope of h is infinite at p = 0; B_h(p, q) then is, too, where p > 0 = q."""
        return any(exponent <= 0 for _, exponent in self.powers or ())

    @final
    def _slopes(self, p: Any) -> tuple[Any]:
        return (self._grad(p),)

    @abc.abstractmethod
    def _at(self, p: Any) -> Any: ...

    @abc.abstractmethod
    def _grad(self, p: Any) -> Any: ...

    @abc.abstractmethod
    def _value_from_log(self, logp: Any) -> Any: ...

    @abc.abstractmethod
    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        """Return B_h(p, q) in the form that is most accurate for this potential."""


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def differentiable_value(regulariser: Any, *arrays: jax.Array) -> jax.Array:
    """Return the value of a potential at p or of a drift at p and q, with its own derivatives."""
    return jnp.asarray(regulariser._at(*arrays))


@partial(differentiable_value.defjvp, symbolic_zeros=True)
def _jvp(regulariser: Any, primals: Any, tangents: Any) -> Any:
    change = jnp.zeros_like(primals[0])
    for slope, tangent in zip(regulariser._slopes(*primals), tangents, strict=True):
        if not isinstance(tangent, SymbolicZero):  # often only p moves
            change += slope * tangent
    return differentiable_value(regulariser, *primals), change.sum(-1)


class Symmetric(Potential):
    """A potential that treats all actions alike."""

    @final
    def range(self, num_actions: int) -> tuple[float, float]:
        """Return h at the uniform policy and at a vertex: a convex h is between these."""
        vertex = np.eye(num_actions)[0]
        return float(self.value(np.full_like(vertex, 1 / num_actions))), float(self.value(vertex))


def kl_terms(p: Any, q: Any, logp: Any, logq: Any) -> Any:
    """Return p log(p / q) - p + q entry by entry: non-negative terms whose sum is the KL.

    With t = log(p / q) this is p (t + expm1(-t)), which keeps its digits where p is close to q.
    """
    xp = namespace(logp, logq)
    t = logp - logq
    close = xp.abs(t) < 1
    near = p * (t + xp.expm1(-xp.where(close, t, 0)))
    return xp.where(close, near, p * t - (p - q))


def _tsallis_terms(m: float, p: Any, logp: Any) -> Any:
    """Return (p^m - p) / (m - 1) entry by entry, accurate for every m > 0.

    p * expm1((m - 1) log p) / (m - 1) has no cancellation near m = 1, but its second factor
    overflows for m < 1 and small p; there the two powers differ and can be subtracted.
    """
    if m == 1:
        return p * logp
    xp, x = namespace(logp), (m - 1) * logp
    small = xp.abs(x) < 1
    near = p * xp.expm1(xp.where(small, x, 0)) / (m - 1)
    far = (xp.exp(m * logp) - p) / (m - 1)
    return xp.where(small, near, far)


def tsallis_bregman(m: float, p: Any, q: Any, logp: Any, logq: Any) -> Any:
    """Return the entries of B for the Tsallis potential, accurate for every m > 0.

    The paper's (p^m - m p q^(m-1) - (1 - m) q^m) / (m - 1) is rearranged to
    p (ln_{m-1}(p) - ln_{m-1}(q)) - q^(m-1) (p - q), which has no cancellation as m goes to 1.
    """
    xp = namespace(logp, logq)
    if m < 1:
        # q^(m-1) has no bound as q goes to 0. So a q below the floor counts as the floor, and so
        # does p there. Elsewhere a small p stays as it is: floor^m is not small for a small m.
        floor = probability_floor(logp.dtype)
        low = logq < math.log(floor)
        p, q = xp.where(low, xp.maximum(p, floor), p), xp.maximum(q, floor)
        logp = xp.where(low, xp.maximum(logp, math.log(floor)), logp)
        logq = xp.maximum(logq, math.log(floor))
    if m == 1:
        return kl_terms(p, q, logp, logq)
    slope = xp.exp((m - 1) * logq)
    t = logp - logq
    x = (m - 1) * t
    small, close = xp.abs(x) < 1, xp.abs(t) < 1
    ratio = xp.expm1(xp.where(small, x, 0)) / (m - 1)
    far = (xp.exp(m * logp) - p * slope) / (m - 1)
    apart = xp.where(small, slope * p * ratio, far) - slope * (p - q)
    # Where p is close to q, p - q is more accurate from the logarithms, too.
    near = slope * p * (ratio + xp.expm1(-xp.where(close, t, 0)))
    return xp.where(close & small, near, apart)


class Tsallis(Symmetric):
    """h(p) = sum (p^m - p) / (m - 1), for every m > 0, and sum p log p for m = 1."""

    m: float

    @property
    def powers(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        """phi'(p) = 1 + m ln_{m-1}(p)."""
        return ((self.m, self.m - 1),)

    def paper_bound(self, num_actions: int) -> float:
        """Return 1 / (m - 1) for m > 1, n max abs(y - y^m) / (1 - m) for m < 1, else log n."""
        m = self.m
        if m == 1:
            return math.log(num_actions)
        if m > 1:
            return 1 / (m - 1)
        # y^m - y is largest where m y^(m-1) = 1, that is log y = log(m) / (1 - m).
        log_y = math.log(m) / (1 - m)
        return num_actions * abs(float(_tsallis_terms(m, np.exp(log_y), np.float64(log_y))))

    @final
    def _at(self, p: Any) -> Any:
        return total(_tsallis_terms(self.m, p, exact_log(p)))

    @final
    def _grad(self, p: Any) -> Any:
        # For m > 1 the slope at p = 0 is finite, -1 / (m - 1), and needs no convention.
        logp = exact_log(p) if self.m > 1 else floored_log(p)
        if self.m == 1:
            return 1 + logp
        exponent = self.m - 1
        return 1 + self.m * (namespace(p).expm1(exponent * logp) / exponent)

    @final
    def _value_from_log(self, logp: Any) -> Any:
        return _tsallis_terms(self.m, namespace(logp).exp(logp), logp).sum(-1)

    @final
    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return tsallis_bregman(self.m, p, q, logp, logq).sum(-1)


@final
@dataclass(frozen=True)
class NegativeEntropy(Tsallis):
    """h(p) = sum p log p, the negative Shannon entropy. Bregman divergence: KL."""

    name = "entropy"
    m = 1.0


@final
@dataclass(frozen=True)
class NegativeTsallis(names.Parametric, Tsallis):
    """h(p) = sum (p^m - p) / (m - 1), the negative Tsallis entropy, for every m > 0.

    m = 1 is the negative Shannon entropy, and the passage to it is continuous; m = 2 is
    ||p||^2 - 1.
    """

    m: float

    name = "tsallis"


@final
@dataclass(frozen=True)
class LpNorm(names.Parametric, Symmetric):
    """h(q) = sum q^p, the p-th power of the p-norm, for p >= 1 (at p = 1 a constant)."""

    p: float

    name = "lp"

    @property
    def powers(self) -> tuple[tuple[float, float], ...]:  # type: ignore[override]
        """phi'(q) = p q^(p-1) = p + p (p - 1) ln_{p-1}(q)."""
        return ((self.p * (self.p - 1), self.p - 1),) if self.p > 1 else ()

    def _at(self, p: Any) -> Any:
        return total(p**self.p)

    def _grad(self, p: Any) -> Any:
        return self.p * namespace(p).exp((self.p - 1) * exact_log(p))

    def _value_from_log(self, logp: Any) -> Any:
        return namespace(logp).exp(self.p * logp).sum(-1)

    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        if self.p == 2:
            return ((p - q) ** 2).sum(-1)
        # On positive vectors sum q^p is (p - 1) times the Tsallis potential and a linear term.
        if self.p > 1:
            return (self.p - 1) * tsallis_bregman(self.p, p, q, logp, logq).sum(-1)
        return namespace(p, q).zeros_like((p + q)[..., 0])


@final
@dataclass(frozen=True)
class Max(Symmetric):
    """h(p) = max p. Not smooth: the canonical subgradient is e_j, j the first argmax."""

    name = "max"

    def _at(self, p: Any) -> Any:
        return p.max(-1)

    def _grad(self, p: Any) -> Any:
        xp = namespace(p)
        first = xp.argmax(p, axis=-1)[..., None]
        return (action_index(p) == first).astype(p.dtype)

    def _value_from_log(self, logp: Any) -> Any:
        # Through the one chosen entry, not through `max`, whose gradient jax splits over ties.
        xp = namespace(logp)
        first = xp.argmax(logp, axis=-1)[..., None]
        return xp.exp(xp.take_along_axis(logp, first, axis=-1)[..., 0])

    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        # max(p) - p_j, j the first argmax of q: zero wherever p has its largest entry there too.
        return ((self._grad(p) - self._grad(q)) * p).sum(-1)


@final
@dataclass(frozen=True)
class Zero(Symmetric):
    """h = 0: no regularisation."""

    name = "zero"
    powers = ()

    def _at(self, p: Any) -> Any:
        return namespace(p).zeros_like(p[..., 0])

    def _grad(self, p: Any) -> Any:
        return namespace(p).zeros_like(p)

    def _value_from_log(self, logp: Any) -> Any:
        return namespace(logp).zeros_like(logp[..., 0])

    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return namespace(p, q).zeros_like((p + q)[..., 0])


def potential(name: str | Potential) -> Potential:
    """Return the potential with this name; a `Potential` is returned unchanged."""
    if isinstance(name, Potential):
        return name
    built: Potential = names.build(names.parse(name, "potential"))
    return built
