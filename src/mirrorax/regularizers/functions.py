"""Regularisers of the user's own: one Python function, and nothing else.

    mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
    mirrorax.register_drift("hellinger", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())

The function is written for one probability vector with `jax.numpy`. Everything else follows from
it: leading axes, the gradient, the range over the simplex, the Bregman divergence. Zero entries are
lifted to the floor before it sees them, so that a `log(p)` in it needs no guard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from mirrorax.convex import minimize_on_simplex
from mirrorax.errors import UserError, in_one_line
from mirrorax.regularizers import names
from mirrorax.regularizers.drifts import Drift
from mirrorax.regularizers.potentials import Potential
from mirrorax.simplex import namespace, probability_floor


@dataclass(frozen=True)
class UserFunction:
    """A user's function whose mistakes are one line; hashable, and the same to jax."""

    kind: names.Kind
    name: str
    function: Callable[..., jax.Array]
    takes: str

    def __call__(self, *arrays: jax.Array) -> jax.Array:
        """Return its value, one float."""
        where = f"{self.kind}: {self.name!r}"
        try:
            result = self.function(*arrays)
        except Exception as error:  # code of the user's may fail in any way
            raise UserError(f"{where}: {in_one_line(error)}") from error
        try:
            number = result if isinstance(result, jax.Array) else jnp.asarray(result)
        except (TypeError, ValueError):
            raise UserError(
                f"{where} returns {type(result).__name__}, expected a number for {self.takes}"
            ) from None
        if number.shape != () or not jnp.issubdtype(number.dtype, jnp.floating):
            spelled = f"{number.dtype}[{','.join(map(str, number.shape))}]"
            advice = "; sum over the actions" if number.shape and arrays[0].shape else ""
            raise UserError(
                f"{where} returns {spelled}, expected one float for {self.takes}{advice}"
            )
        return number


@final
@dataclass(frozen=True)
class FunctionPotential(Potential):
    """A user's convex function of one probability vector; see `register_potential`."""

    name: str
    function: Callable[[jax.Array], jax.Array] = field(repr=False)

    def range(self, num_actions: int) -> tuple[float, float]:
        """Search the smallest value; the largest of a convex function is at a vertex."""
        vertices = np.asarray(self.value(np.eye(num_actions)))
        called = f"potential: {self.name!r}"
        least = minimize_on_simplex(self._called, (), (1, num_actions), called)
        inside = np.asarray(self.value(least))
        return float(min(inside[0], vertices.min())), float(vertices.max())

    @property
    def _called(self) -> UserFunction:
        return UserFunction("potential", self.name, self.function, "one vector")

    def bound(self, num_actions: int) -> float:
        """Return the largest absolute value of h."""
        return max(map(abs, self.range(num_actions)))

    def _value(self, p: Any) -> Any:
        return in_own_precision(jnp.vectorize(self._called, signature="(n)->()"), lift(p))

    def _grad(self, p: Any) -> Any:
        return in_own_precision(
            jnp.vectorize(jax.grad(self._called), signature="(n)->(n)"), lift(p)
        )

    def _value_from_log(self, logp: Any) -> Any:
        return self.value(namespace(logp).exp(logp))

    def _bregman(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return self.value(p) - self.value(q) - (self._grad(q) * (p - q)).sum(-1)


@final
@dataclass(frozen=True)
class FunctionDrift(Drift):
    """A user's function of two probability vectors; see `register_drift`."""

    name: str
    function: Callable[[jax.Array, jax.Array], jax.Array] = field(repr=False)

    infinite = None

    @property
    def _called(self) -> UserFunction:
        return UserFunction("drift", self.name, self.function, "two vectors")

    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        batched = jnp.vectorize(self._called, signature="(n),(n)->()")
        return in_own_precision(batched, lift(p), lift(q))

    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        slopes = jax.grad(self._called, (0, 1))
        return tuple(jnp.vectorize(slopes, signature="(n),(n)->(n),(n)")(lift(p), lift(q)))


def register_potential(name: str, function: Callable[[jax.Array], jax.Array] | None = None) -> Any:
    """Add a convex function of a probability vector to the potentials, under a name.

    The function takes one vector of probabilities, shape [actions], and returns a scalar, computed
    with `jax.numpy`. The gradient comes by automatic differentiation, the range over the simplex
    is searched, leading axes are added. Entries of the vector are never exactly zero.

    Use it as a call, `register_potential("burg", lambda p: -jnp.log(p).sum())`, which returns the
    potential, or as a decorator, `@register_potential("burg")`, which returns the function. Then
    `mirrorax.potential("burg")`, `bregman(burg)` and every place that takes a name know it.
    `check_potential` tests that it is convex.
    """
    return registered("potential", name, function, FunctionPotential)


def register_drift(
    name: str, function: Callable[[jax.Array, jax.Array], jax.Array] | None = None
) -> Any:
    """Add a function D(p, q) of two probability vectors to the drifts, under a name.

    p is the new policy, q the old one, both of shape [actions]; the result is a scalar, computed
    with `jax.numpy`. Entries are never exactly zero. Use it as a call or as a decorator, like
    `register_potential`; `check_drift` tests the conditions of mirror learning.
    """
    return registered("drift", name, function, FunctionDrift)


def registered(
    kind: names.Kind,
    name: str,
    function: Callable[..., jax.Array] | None,
    wrap: Callable[[str, Callable[..., jax.Array]], Any],
) -> Any:
    """Register a user's function, now or, where there is none yet, as a decorator."""
    if function is None:

        def decorate(decorated: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
            registered(kind, name, decorated, wrap)
            return decorated

        return decorate
    regulariser = wrap(name, function)
    names.register(kind, name, regulariser, function)
    return regulariser


def lift(p: Any) -> Any:
    """Lift zero entries to the floor, so that a user's `log(p)` needs no guard of its own.

    The derivative is taken at the floor, as for the regularisers that are built in.
    """
    lifted = namespace(p).maximum(p, probability_floor(p.dtype))
    return p + jax.lax.stop_gradient(lifted - p) if isinstance(p, jax.Array) else lifted


def in_own_precision(function: Callable[..., Any], *arrays: Any) -> Any:
    """Call a jax function on numpy or jax arrays; float64 stays float64 for numpy ones."""
    if any(isinstance(a, jax.Array) for a in arrays):
        return function(*arrays)
    with jax.enable_x64(any(a.dtype == np.float64 for a in arrays)):
        return np.asarray(function(*map(jnp.asarray, arrays)))
