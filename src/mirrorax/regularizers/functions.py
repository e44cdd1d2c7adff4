"""A user's own regularisers: each is one Python function.

    mirrorax.register_potential("burg", lambda p: -jnp.log(p).sum())
    mirrorax.register_drift("hellinger", lambda p, q: ((p**0.5 - q**0.5) ** 2).sum())

The function is written for one probability vector with `jax.numpy`. The rest is derived from it:
leading axes, the gradient, the range over the simplex, the Bregman divergence. Zero entries are
raised to the floor first, so a `log(p)` in the function needs no guard.

`check_potential` and `check_drift` draw random points of the simplex, some of them close to its
boundary, compute in float64 and report the first property that fails, and at which point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from mirrorax import registry
from mirrorax.convex import minimize_on_simplex
from mirrorax.errors import UserError, in_one_line
from mirrorax.regularizers import names
from mirrorax.regularizers.drifts import Drift, drift
from mirrorax.regularizers.potentials import Potential, potential
from mirrorax.simplex import namespace, probability_floor


@dataclass(frozen=True)
class UserFunction:
    """A user's function with errors of one line; hashable, so that jax compiles it only once."""

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
        """Minimise h numerically; the largest value of a convex function is at a vertex."""
        vertices = np.asarray(self.value(np.eye(num_actions)))
        subject = f"potential: {self.name!r}"
        least = minimize_on_simplex(self._function, (), (1, num_actions), subject)
        inside = np.asarray(self.value(least))
        return float(min(inside[0], vertices.min())), float(vertices.max())

    @property
    def _function(self) -> UserFunction:
        return UserFunction("potential", self.name, self.function, "one vector")

    def _at(self, p: Any) -> Any:
        return _by_row(self._function, "(n)->()", p)

    def _grad(self, p: Any) -> Any:
        return _by_row(jax.grad(self._function), "(n)->(n)", p)

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
    def _function(self) -> UserFunction:
        return UserFunction("drift", self.name, self.function, "two vectors")

    def _value(self, p: Any, q: Any, logp: Any, logq: Any) -> Any:
        return _by_row(self._function, "(n),(n)->()", p, q)

    def _slopes(self, p: Any, q: Any) -> tuple[Any, Any]:
        return tuple(_by_row(jax.grad(self._function, (0, 1)), "(n),(n)->(n),(n)", p, q))


def register_potential(name: str, function: Callable[[jax.Array], jax.Array] | None = None) -> Any:
    """Name a potential: a convex function of a probability vector.

    The function takes one vector of probabilities, shape [actions], and returns a scalar, computed
    with `jax.numpy`. Entries of the vector are never exactly zero. The gradient is computed by
    automatic differentiation and the range over the simplex by a search.

    Call `register_potential("burg", lambda p: -jnp.log(p).sum())`, which returns the potential, or
    decorate a function with `@register_potential("burg")`, which returns the function. Then the
    name works wherever a name does: `mirrorax.potential("burg")`, `bregman(burg)`.
    `check_potential` tests that the function is convex.
    """
    return registered("potential", name, function, FunctionPotential)


def register_drift(
    name: str, function: Callable[[jax.Array, jax.Array], jax.Array] | None = None
) -> Any:
    """Name a drift: a function D(p, q) of two probability vectors.

    p is the new policy, q the old one, both of shape [actions]; the result is a scalar, computed
    with `jax.numpy`. Entries are never exactly zero. Call this function or use it as a decorator,
    like `register_potential`. `check_drift` tests the conditions of mirror learning.
    """
    return registered("drift", name, function, FunctionDrift)


def registered(
    kind: names.Kind,
    name: str,
    function: Callable[..., jax.Array] | None,
    wrap: Callable[[str, Callable[..., jax.Array]], Any],
) -> Any:
    """Register a user's function; without a function, return the decorator that registers one."""
    if function is None:

        def decorate(decorated: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
            registered(kind, name, decorated, wrap)
            return decorated

        return decorate
    regulariser = wrap(name, function)
    registry.register(kind, name, regulariser, names.BUILT_IN[kind], definition=function)
    return regulariser


def _by_row(function: Callable[..., Any], signature: str, *arrays: Any) -> Any:
    """Call a function of single probability vectors for every row of the arrays."""
    return in_own_precision(jnp.vectorize(function, signature=signature), *map(_lift, arrays))


def _lift(p: Any) -> Any:
    """Raise zero entries to the floor, and take derivatives there, as built-in regularisers do."""
    lifted = namespace(p).maximum(p, probability_floor(p.dtype))
    return p + jax.lax.stop_gradient(lifted - p) if isinstance(p, jax.Array) else lifted


def in_own_precision(function: Callable[..., Any], *arrays: Any) -> Any:
    """Call a jax function on numpy or jax arrays; numpy arrays keep their precision."""
    if any(isinstance(a, jax.Array) for a in arrays):
        return function(*arrays)
    with jax.enable_x64(any(a.dtype == np.float64 for a in arrays)):
        return np.asarray(function(*map(jnp.asarray, arrays)))


# --- does a regulariser have the properties that the theory asks for? -----------------------------

_CONCENTRATIONS = (0.2, 1.0, 5.0)


@dataclass(frozen=True)
class Check:
    """The result of a check: true if every property holds; its text says what failed, and where."""

    subject: str
    ok: bool
    failed: str = ""
    where: str = ""

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        if self.ok:
            return f"{self.subject}: every property holds at the points tried"
        return f"{self.subject}: fails {self.failed} at {self.where}"

    __repr__ = __str__


def _points(generator: np.random.Generator, samples: int, num_actions: int) -> Any:
    """Draw points of the simplex, from nearly deterministic to nearly uniform."""
    each = -(-samples // len(_CONCENTRATIONS))
    drawn = [generator.dirichlet(np.full(num_actions, c), each) for c in _CONCENTRATIONS]
    p = np.concatenate(drawn)[:samples]
    p = np.maximum(p, 1e-8)
    return p / p.sum(-1, keepdims=True)


def first_failure(subject: object, *tests: tuple[str, Any, dict[str, Any]]) -> Check:
    """Return the first test that fails. A test is a property, its failing rows, points to show."""
    for failed, bad, points in tests:
        if bad.any():
            row = int(np.argmax(bad))
            with np.printoptions(precision=4, suppress=False):
                where = ", ".join(f"{name} = {value[row]}" for name, value in points.items())
            return Check(str(subject), False, failed, where)
    return Check(str(subject), True)


def check_drift(
    drift_or_name: Drift | str, *, num_actions: int = 4, samples: int = 300, seed: int = 0
) -> Check:
    """Test that D is a drift in the sense of mirror learning, on random points.

    The conditions are D(p, q) >= 0, D(q, q) = 0, and a zero gradient in p at p = q, along the
    simplex. The last one is tested by automatic differentiation, and by shrinking steps away from
    q (D must fall faster than the step), because the derivative does not show a kink at p = q.
    """
    d = drift(drift_or_name)
    generator = np.random.default_rng(seed)
    p, q = _points(generator, samples, num_actions), _points(generator, samples, num_actions)
    # Slopes are tested away from the boundary, where the curvature of any drift is moderate.
    inner = 0.8 * q + 0.2 / num_actions
    apart, together = d.value(p, q), d.value(q, q)
    size = 1 + np.abs(np.where(np.isfinite(apart), apart, 0))
    inner_size = 1 + np.abs(d.value(p, inner))
    with jax.enable_x64(True):
        at = jnp.asarray(inner)
        full = np.asarray(jax.grad(lambda p: d.value(p, at).sum())(at))
    slope = np.abs(full - full.mean(-1, keepdims=True)).max(-1)
    # D / step falls with the step, perhaps slowly; at a kink it stays the same.
    rate, finer = (d.value(inner + step * (p - inner), inner) / step for step in (1e-4, 1e-5))
    kink = (finer > 10**-0.03 * rate) & (finer > 1e-8 * inner_size)

    pair, ends = {"p": p, "q": q}, {"q": inner, "gradient": full}
    kinked = {"q": inner, "towards": p, "slope": finer}
    return first_failure(
        d,
        ("being a number", np.isnan(apart) | np.isnan(together), pair),
        ("D(p, q) >= 0", apart < -1e-9 * size, {**pair, "D": apart}),
        ("D(q, q) = 0", np.abs(together) > 1e-9 * size, {"q": q, "D": together}),
        ("zero gradient at p = q", ~(slope <= 1e-6 * inner_size), ends),
        ("zero gradient at p = q (there is a kink)", kink, kinked),
    )


def check_potential(
    potential_or_name: Potential | str,
    *,
    num_actions: int = 4,
    samples: int = 300,
    seed: int = 0,
) -> Check:
    """Test that h is convex and that `grad` is a subgradient of it, on random points.

    Convexity is tested at midpoints, h((p + q) / 2) <= (h(p) + h(q)) / 2, and the gradient by the
    inequality that defines a subgradient, h(p) >= h(q) + <grad h(q), p - q>.
    """
    h = potential(potential_or_name)
    generator = np.random.default_rng(seed)
    p, q = _points(generator, samples, num_actions), _points(generator, samples, num_actions)
    at_p, at_q, middle = h.value(p), h.value(q), h.value((p + q) / 2)
    gradient = h.grad(q)
    below = at_q + (gradient * (p - q)).sum(-1)
    size = 1 + np.abs(at_p) + np.abs(at_q) + np.abs(below)
    broken = ~np.isfinite(at_p) | ~np.isfinite(gradient).all(-1)
    pair = {"p": p, "q": q}
    return first_failure(
        h,
        ("finite value and gradient", broken, {**pair, "h": at_p, "gradient": gradient}),
        ("convexity", middle > (at_p + at_q) / 2 + 1e-9 * size, pair),
        ("the subgradient inequality", below > at_p + 1e-9 * size, pair),
    )
