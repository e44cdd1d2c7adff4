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
from mirrorax.regularizers.drifts import Divergence, Drift, SquaredTV
from mirrorax.regularizers.potentials import Max, Potential
from mirrorax.regularizers.reference import To

Rows = Float64[np.ndarray, "rows actions"]
Weights = Float64[np.ndarray, "rows"]


@dataclass(frozen=True)
class _Objective:
    """The objective as one jax function; hashable, so that it is compiled once for a pair."""

    #: h, or the drift of a potential that is the distance from a reference mu
    potential: Potential | Drift
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
        h = self.potential
        value = h.value(p, mu) if isinstance(h, Drift) else h.value(p)
        return -jnp.dot(c, p) + alpha * value + lam * self.drift.value(p, q)


def solve_convex(
    linear: Rows, old: Rows, mu: Rows, h: Potential, d: Drift, alpha: Weights, lam: Weights
) -> Rows:
    """Minimise <p, -linear> + alpha h(p) + lam D(p, old) row by row.

    The objective must be smooth and convex in p.
    """
    goal = _Objective(h.drift if isinstance(h, To) else h, d)
    anchors = {"policy": (d, old)} | ({"reference": (h.drift, mu)} if isinstance(h, To) else {})
    for field, (drift, anchor) in anchors.items():
        if drift.infinite == "p > 0 = q" and not (anchor > 0).all():
            raise UserError(
                f"{field}: has zero entries, which '{drift}' can never raise; with a user's own "
                "function give one that takes every action"
            )
    called = f"potential, drift: '{h}' with '{d}'"
    for part in (goal.potential, d):
        kinked = part.potential if isinstance(part, Divergence) else part
        if isinstance(kinked, Max | SquaredTV):
            raise UserError(
                f"{called} has no exact mirror step: a user's own function needs a smooth partner, "
                f"and '{kinked}' has kinks"
            )
    lifted = [np.maximum(x, SMALLEST) for x in (old, mu)]  # derivatives overflow at 1e-300
    starts = [anchor for _, anchor in anchors.values()]
    p = minimize_on_simplex(goal, (linear, *lifted, alpha, lam), linear.shape, called, starts)
    return np.where((old == 0) & (p <= 1e3 * SMALLEST), 0, p)
