"""The mirror step of a pair of which nothing but its function is known: a user's own.

`mirrorax.tabular.mirror` uses structure; this is what it falls back on.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from mirrorax.convex import SMALLEST, minimize_on_simplex
from mirrorax.errors import UserError
from mirrorax.regularizers.drifts import ChiSquare, Drift, SquaredTV
from mirrorax.regularizers.potentials import Max, Potential
from mirrorax.regularizers.reference import To

Rows = Float64[np.ndarray, "rows actions"]
Weights = Float64[np.ndarray, "rows"]


@dataclass(frozen=True)
class _Objective:
    """The objective as one jax function; hashable, so that it is compiled once for a pair."""

    potential: Potential | None
    #: the drift of a potential that is the distance from a reference
    distance: Drift | None
    drift: Drift

    def __call__(
        self,
        p: jax.Array,
        c: jax.Array,
        q: jax.Array,
        mu: jax.Array,
        alpha: jax.Array,
        lam: jax.Array,
    ) -> jax.Array:
        h = self.potential.value(p) if self.potential else self.distance.value(p, mu)  # type: ignore[union-attr]
        return -jnp.dot(c, p) + alpha * h + lam * self.drift.value(p, q)


def solve_convex(
    linear: Rows, old: Rows, mu: Rows, h: Potential, d: Drift, alpha: Weights, lam: Weights
) -> Rows:
    """Minimise <p, -linear> + alpha h(p) + lam D(p, old) row by row.

    The objective must be smooth and convex in p.
    """
    distance = h.drift if isinstance(h, To) else None
    for drift, anchor, field in ((d, old, "policy"), (distance, mu, "reference")):
        steep = isinstance(drift, ChiSquare) or getattr(
            getattr(drift, "potential", None), "steep", False
        )
        if steep and not (anchor > 0).all():
            raise UserError(
                f"{field}: has zero entries, which '{drift}' can never raise; with a user's own "
                "function give one that takes every action"
            )
    parts = [getattr(part, "potential", part) for part in (distance or h, d)]
    kinked = [str(part) for part in parts if isinstance(part, Max | SquaredTV)]
    if kinked:
        raise UserError(
            f"potential, drift: '{h}' with '{d}' has no exact mirror step: a user's own function "
            f"needs a smooth partner, and {kinked[0]!r} has kinks"
        )
    called = f"potential, drift: '{h}' with '{d}'"
    lifted = [np.maximum(x, SMALLEST) for x in (old, mu)]  # derivatives overflow at 1e-300
    goal = _Objective(None if distance else h, distance, d)
    starts = [old, mu] if distance else [old]
    p = minimize_on_simplex(goal, (linear, *lifted, alpha, lam), linear.shape, called, starts)
    return np.where((old == 0) & (p <= 1e3 * SMALLEST), 0, p)
