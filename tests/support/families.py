"""Random smooth convex potentials and drifts, each with its exact gradient written by hand.

Each works on jax arrays and on numpy arrays of floats or of decimals: what float64 and automatic
differentiation made of it can be judged with as many digits as that needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class Term:
    """A function of (p, q), convex in p; `grad` is its gradient in p."""

    name: str
    value: Callable[[Any, Any], Any]
    grad: Callable[[Any, Any], Any]


class _Decimals:
    """The functions of numpy that the families use, for arrays of `decimal.Decimal`."""

    log = staticmethod(np.frompyfunc(Decimal.ln, 1, 1))
    exp = staticmethod(np.frompyfunc(Decimal.exp, 1, 1))


def _xp(p: Any) -> Any:
    if isinstance(p, jax.Array):
        return jnp
    return _Decimals if p.dtype == object else np


def decimals(x: Any) -> Any:
    """Convert floats to decimals, exactly."""
    return np.vectorize(lambda x: Decimal(float(x)), otypes=[object])(x)


def _like(p: Any, constant: Any) -> Any:
    return decimals(constant) if p.dtype == object else constant


def burg(a: Any) -> Term:
    return Term(
        "burg", lambda p, q: -(_like(p, a) * _xp(p).log(p)).sum(), lambda p, q: -_like(p, a) / p
    )


def entropy(a: Any) -> Term:
    return Term(
        "entropy",
        lambda p, q: (_like(p, a) * p * _xp(p).log(p)).sum(),
        lambda p, q: _like(p, a) * (_xp(p).log(p) + 1),
    )


def power(a: Any, k: float) -> Term:
    """a p^k, with the sign that makes it convex."""
    sign = 1 if k > 1 or k < 0 else -1
    return Term(
        f"power {k:.3g}",
        lambda p, q: sign * (_like(p, a) * p ** _like(p, k)).sum(),
        lambda p, q: sign * _like(p, k) * _like(p, a) * p ** (_like(p, k) - 1),
    )


def quadratic(b: Any) -> Term:
    """|b p|^2."""
    return Term(
        "quadratic",
        lambda p, q: ((_like(p, b) @ p) ** 2).sum(),
        lambda p, q: 2 * (_like(p, b.T) @ (_like(p, b) @ p)),
    )


def log_sum_exp(b: Any) -> Term:
    def value(p: Any, q: Any) -> Any:
        x = _like(p, b) @ p
        return x.max() + _xp(p).log(_xp(p).exp(x - x.max()).sum())

    def grad(p: Any, q: Any) -> Any:
        x = _like(p, b) @ p
        e = _xp(p).exp(x - x.max())
        return _like(p, b.T) @ (e / e.sum())

    return Term("log-sum-exp", value, grad)


def hellinger() -> Term:
    return Term(
        "hellinger",
        lambda p, q: ((p ** _like(p, 0.5) - q ** _like(q, 0.5)) ** 2).sum(),
        lambda p, q: 1 - (q / p) ** _like(p, 0.5),
    )


def chi_squared() -> Term:
    return Term("chi-squared", lambda p, q: ((p - q) ** 2 / q).sum(), lambda p, q: 2 * (p - q) / q)


def neyman() -> Term:
    return Term("neyman", lambda p, q: ((p - q) ** 2 / p).sum(), lambda p, q: 1 - (q / p) ** 2)


def alpha_divergence(k: float) -> Term:
    """(sum p^k q^(1 - k) - 1) / (k (k - 1))."""

    def value(p: Any, q: Any) -> Any:
        e = _like(p, k)
        return ((p**e * q ** (1 - e)).sum() - 1) / (e * (e - 1))

    return Term(
        f"alpha {k:.3g}",
        value,
        lambda p, q: (p / q) ** (_like(p, k) - 1) / (_like(p, k) - 1),
    )


def jensen_shannon() -> Term:
    def value(p: Any, q: Any) -> Any:
        log, m = _xp(p).log, (p + q) / 2
        return (p * log(p / m) + q * log(q / m)).sum() / 2

    return Term("jensen-shannon", value, lambda p, q: _xp(p).log(2 * p / (p + q)) / 2)


def distance(b: Any) -> Term:
    """|b (p - q)|^2."""
    square = quadratic(b)
    return Term("distance", lambda p, q: square.value(p - q, q), lambda p, q: square.grad(p - q, q))


def scaled(weight: float, term: Term) -> Term:
    return Term(
        f"{weight:.2g} {term.name}",
        lambda p, q: _like(p, weight) * term.value(p, q),
        lambda p, q: _like(p, weight) * term.grad(p, q),
    )


def mixed(one: Term, two: Term) -> Term:
    return Term(
        f"{one.name} + {two.name}",
        lambda p, q: one.value(p, q) + two.value(p, q),
        lambda p, q: one.grad(p, q) + two.grad(p, q),
    )


def bregman(h: Term) -> Term:
    """The Bregman divergence of h, without its constant."""
    return Term(
        f"bregman({h.name})",
        lambda p, q: h.value(p, q) - h.value(q, q) - (h.grad(q, q) * (p - q)).sum(),
        lambda p, q: h.grad(p, q) - h.grad(q, q),
    )


def tsallis(m: float) -> Term:
    """(p^m - p) / (m - 1)."""
    raw = power(1.0, m)

    def value(p: Any, q: Any) -> Any:
        e = _like(p, m)
        return raw.value(p, q) / abs(e - 1) - p.sum() / (e - 1)

    def grad(p: Any, q: Any) -> Any:
        e = _like(p, m)
        return raw.grad(p, q) / abs(e - 1) - 1 / (e - 1)

    return Term(f"tsallis({m})", value, grad)


def built_in(name: str) -> Term:
    """The built-in potential or drift of this name, from its definition."""
    if name == "forward_kl":
        return Term(name, lambda p, q: (q * _xp(p).log(q / p)).sum(), lambda p, q: -q / p)
    if name == "kl":
        return bregman(entropy(1.0))
    if name == "entropy":
        return entropy(1.0)
    if name == "zero":
        return Term(name, lambda p, q: 0 * p.sum(), lambda p, q: 0 * p)
    family, argument = name[:-1].split("(", 1)
    if family == "bregman":
        return bregman(built_in(argument))
    return tsallis(float(argument)) if family == "tsallis" else power(1.0, float(argument))


def _matrix(generator: np.random.Generator, actions: int) -> Any:
    rank = int(generator.integers(1, actions + 2))
    return generator.normal(size=(rank, actions)) * 10 ** generator.uniform(-1, 1)


def _weights(generator: np.random.Generator, actions: int) -> Any:
    return 10 ** generator.uniform(-1, 1, actions)


def random_potential(generator: np.random.Generator, actions: int) -> Term:
    """Draw a potential, a mixture of two every third time, scaled by 1e-6 to 1e6."""
    makers = [
        lambda: burg(_weights(generator, actions)),
        lambda: entropy(_weights(generator, actions)),
        lambda: power(_weights(generator, actions), generator.uniform(1.1, 5)),
        lambda: power(_weights(generator, actions), generator.uniform(0.1, 0.9)),
        lambda: power(_weights(generator, actions), -generator.uniform(0.2, 2)),
        lambda: quadratic(_matrix(generator, actions)),
        lambda: log_sum_exp(_matrix(generator, actions)),
    ]
    return _drawn(generator, makers)


def random_drift(generator: np.random.Generator, actions: int) -> Term:
    """Draw a drift, likewise."""
    makers = [
        hellinger,
        chi_squared,
        neyman,
        jensen_shannon,
        lambda: alpha_divergence(generator.choice([-1, -0.5, 0.3, 0.5, 0.8, 1.5, 2.5])),
        lambda: distance(_matrix(generator, actions)),
    ]
    return _drawn(generator, makers)


def _drawn(generator: np.random.Generator, makers: list[Callable[[], Term]]) -> Term:
    def one() -> Term:
        maker = makers[generator.integers(len(makers))]
        return scaled(10 ** generator.uniform(-6, 6), maker())

    return mixed(one(), one()) if generator.integers(3) == 0 else one()
