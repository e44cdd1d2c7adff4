"""A lambda that finds itself, for the exact solver: the counterpart of `lam_schedule = "learned"`.

Dual ascent on log lambda, so that the mean drift of a step over the states stays at v D_ref:

    log lambda_{k+1} = log lambda_k + rate clip(E_s[D(pi_{k+1}(s), pi_k(s))] / (v_k D_ref) - 1)

with v_k = v, or v (1 - k / K) where the target is annealed, D_ref the `reference_drift` of the
drift, and clip to [-1, 1]. Each MDP and temperature of a batch has its own lambda. Near a fixed
point the drift vanishes and lambda falls to its lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from mirrorax.errors import UserError

#: exp of these is the smallest and the largest lambda.
LOG_BOUNDS = (-20.0, 12.0)


@dataclass(frozen=True)
class LearnedLam:
    """Give it to `solve` as `lam`: the drift of a step is kept at `v` of its reference."""

    v: float
    start: float = 1.0
    rate: float = 0.5
    annealed: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.v <= 1:
            raise UserError(f"v: {self.v!r} is not allowed: above 0, at most 1")
        if not self.start > 0 or not math.isfinite(self.start):
            raise UserError(f"start: {self.start!r} is not allowed: a positive number")
        if not 0 < self.rate <= 2:
            raise UserError(f"rate: {self.rate!r} is not allowed: above 0, at most 2")

    def after(
        self,
        lam: Float64[np.ndarray, "*batch"],
        drift: Float64[np.ndarray, "*batch"],
        reference: float,
        progress: float,
    ) -> Float64[np.ndarray, "*batch"]:
        """Return the next lambda, after a step with this mean drift; `progress` is k / K."""
        target = self.v * reference * ((1 - progress) if self.annealed else 1.0)
        excess = np.clip(drift / target - 1, -1.0, 1.0)
        low, high = LOG_BOUNDS
        return np.asarray(np.exp(np.clip(np.log(lam) + self.rate * excess, low, high)))
