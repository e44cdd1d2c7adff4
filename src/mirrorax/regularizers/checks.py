"""Checks of a user's own regulariser: does it have the properties the theory asks for?

Both draw random points of the simplex, some of them close to its boundary, compute in float64 and
report the first property that fails, with the point where it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrorax.regularizers.drifts import Drift, drift
from mirrorax.regularizers.potentials import Potential, potential

_CONCENTRATIONS = (0.2, 1.0, 5.0)


@dataclass(frozen=True)
class Check:
    """The outcome of a check: true if everything held; printed, it says what failed and where."""

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
    """Return the first test that fails: its property, the rows where it does, what is shown."""
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

    The three conditions: D(p, q) >= 0; D(q, q) = 0; the gradient in p is zero at p = q, along the
    simplex. The last is tested by automatic differentiation and by shrinking steps away from q
    (D must fall faster than the step), because a kink at p = q has no gradient to see.
    """
    d = drift(drift_or_name)
    generator = np.random.default_rng(seed)
    p, q = _points(generator, samples, num_actions), _points(generator, samples, num_actions)
    # Slopes are looked at away from the boundary, where the curvature of any drift is moderate.
    inner = 0.8 * q + 0.2 / num_actions
    apart, together = d.value(p, q), d.value(q, q)
    size = 1 + np.abs(np.where(np.isfinite(apart), apart, 0))
    inner_size = 1 + np.abs(d.value(p, inner))
    with jax.enable_x64(True):
        at = jnp.asarray(inner)
        full = np.asarray(jax.grad(lambda p: d.value(p, at).sum())(at))
    slope = np.abs(full - full.mean(-1, keepdims=True)).max(-1)
    # Along a line, D over the step length falls with the step, if only slowly; at a kink it stays.
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
    """Test that h is convex and that its gradient is one of it, on random points.

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
