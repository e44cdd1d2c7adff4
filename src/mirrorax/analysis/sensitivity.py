"""How much an algorithm relies on being tuned for each environment.

The measures of Adkins, Bowling and White, "A Method for Evaluating Hyperparameter Sensitivity in
Reinforcement Learning" (NeurIPS 2024), for the two temperatures of a grid. The score of algorithm
w in environment e at the cell h is normalised over all algorithms that are compared,

    G(w, e, h) = (d(w, e, h) - p5(e)) / (p95(e) - p5(e)),

with the 5th and 95th percentile of the scores that were seen in e. Then

    per-environment tuned score     mean over e of  max over h of G(w, e, h)
    cross-environment tuned score   max over h of  mean over e of G(w, e, h)
    sensitivity                     the first minus the second

and the effective dimensionality is the number of temperatures that must be tuned for each
environment, the others being those of the best single cell, to keep 95% of the first.

The best of many noisy scores flatters itself, the first number most. So both come held out, too:
the cell is chosen without one seed and scored on that seed alone (see `tuned`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.analysis.scores import environment_scores
from mirrorax.analysis.tuned import Tuning, tuned_against_fixed
from mirrorax.errors import UserError

#: Percentiles of the scores seen in an environment that count as 0 and 1.
PERCENTILES = (5.0, 95.0)
#: What part of the tuned score must be kept.
KEPT = 0.95

Runs = Float[np.ndarray, "alpha lam env seed"]
Mask = Bool[np.ndarray, "alpha lam"]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The measures of one algorithm; `tuning` holds its cells and the held-out values."""

    tuning: Tuning
    #: how many of the two temperatures must be tuned for each environment
    dimensionality: int

    @property
    def per_environment(self) -> float:
        """The per-environment tuned score."""
        return self.tuning.tuned

    @property
    def cross_environment(self) -> float:
        """The cross-environment tuned score."""
        return self.tuning.fixed

    @property
    def value(self) -> float:
        """The sensitivity."""
        return self.tuning.price

    @property
    def held_out(self) -> float | None:
        """The sensitivity with choice and score on different seeds; None with a single seed."""
        return self.tuning.price_held_out


def sensitivities(
    runs: Sequence[Runs], cells: Sequence[Mask] | None = None
) -> tuple[Sensitivity, ...]:
    """Return the measures of algorithms that are compared in the same environments, in order."""
    if not runs:
        raise UserError("sensitivity: there is no algorithm")
    counts = {item.shape[2] for item in runs}
    if len(counts) > 1:
        raise UserError("sensitivity: the algorithms have different numbers of environments")
    masks = [np.ones(item.shape[:2], dtype=bool) for item in runs] if cells is None else list(cells)
    pooled = np.concatenate(
        [environment_scores(item)[mask] for item, mask in zip(runs, masks, strict=True)]
    )
    low, high = np.nanpercentile(pooled, PERCENTILES, axis=0)
    width = np.where(high > low, high - low, 1.0)  # all alike: any cell is as good as another
    out = []
    for item, mask in zip(runs, masks, strict=True):
        normalised = (item - low[:, None]) / width[:, None]
        tuning = tuned_against_fixed(normalised, mask)
        out.append(Sensitivity(tuning, _dimensionality(normalised, mask, tuning)))
    return tuple(out)


def _dimensionality(runs: Runs, mask: Mask, tuning: Tuning) -> int:
    """Return how many temperatures must be tuned to keep most of the tuned score."""
    wanted = KEPT * tuning.tuned
    if tuning.fixed >= wanted:
        return 0
    scores = np.where(mask[..., None], environment_scores(runs), -np.inf)
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    i, j = tuning.fixed_cell
    one = (scores[:, j].max(axis=0).mean(), scores[i].max(axis=0).mean())
    return 1 if max(one) >= wanted else 2
