"""The price of not tuning: the best cell for each environment against one cell for all.

The best of hundreds of noisy scores flatters itself. So each number comes twice: as observed, and
held out, where the cell is chosen without one seed and scored on that seed alone.

`sensitivities` are the measures of Adkins, Bowling and White, "A Method for Evaluating
Hyperparameter Sensitivity in Reinforcement Learning" (NeurIPS 2024), for the two temperatures of a
grid: the same numbers, with the score of algorithm w in environment e at the cell h normalised over
all algorithms that are compared,

    G(w, e, h) = (d(w, e, h) - p5(e)) / (p95(e) - p5(e)),

by the 5th and 95th percentile of the scores that were seen in e. Then

    per-environment tuned score     mean over e of  max over h of G(w, e, h)     `tuned`
    cross-environment tuned score   max over h of  mean over e of G(w, e, h)     `fixed`
    sensitivity                     the first minus the second                   `price`

and the effective dimensionality is the number of temperatures that must be tuned for each
environment, the others being those of the best single cell, to keep 95% of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.scores import Mask, Runs, environment_scores
from mirrorax.errors import UserError

#: Percentiles of the scores seen in an environment that count as 0 and 1.
_PERCENTILES = (5.0, 95.0)
#: What part of the tuned score must be kept.
_KEPT = 0.95


@dataclass(frozen=True, eq=False)
class Tuning:
    """Scores of the best cells, and where they are as (alpha index, lam index)."""

    tuned: float  # mean over environments of each one's best cell
    fixed: float  # the best cell for the mean over environments
    tuned_held_out: float | None  # None with a single seed
    fixed_held_out: float | None
    tuned_cells: tuple[tuple[int, int], ...]
    fixed_cell: tuple[int, int]
    #: how many of the two temperatures must be tuned for each environment
    dimensionality: int

    @property
    def price(self) -> float:
        """What one cell for all costs."""
        return self.tuned - self.fixed

    @property
    def price_held_out(self) -> float | None:
        """The price with choice and score on different seeds."""
        if self.tuned_held_out is None or self.fixed_held_out is None:
            return None
        return self.tuned_held_out - self.fixed_held_out


def tuned_against_fixed(runs: Runs, cells: Mask | None = None) -> Tuning:
    """Compare tuning the temperatures per environment with one choice for all of them."""
    mask = np.ones(runs.shape[:2], dtype=bool) if cells is None else cells
    flat = runs[mask]
    where = np.argwhere(mask)
    scores = environment_scores(flat)
    complete = np.isfinite(scores).all(axis=-1)
    if not complete.any():
        raise UserError("tuning: no cell has a run in every environment")
    flat, where, scores = flat[complete], where[complete], scores[complete]
    own, common = _choose(scores)
    held_tuned, held_fixed = [], []
    for seed in range(flat.shape[-1]):
        rest = environment_scores(np.delete(flat, seed, axis=-1))
        usable = np.isfinite(rest).all(axis=-1) & np.isfinite(flat[..., seed]).all(axis=-1)
        if not usable.any():
            continue
        out = flat[usable][..., seed]
        best, one = _choose(rest[usable])
        held_tuned.append(out[best, np.arange(out.shape[1])].mean())
        held_fixed.append(out[one].mean())
    tuned = float(scores[own, np.arange(scores.shape[1])].mean())
    fixed = float(scores[common].mean())
    i, j = (int(index) for index in where[common])
    return Tuning(
        tuned=tuned,
        fixed=fixed,
        tuned_held_out=float(np.mean(held_tuned)) if held_tuned else None,
        fixed_held_out=float(np.mean(held_fixed)) if held_fixed else None,
        tuned_cells=tuple((int(a), int(b)) for a, b in where[own]),
        fixed_cell=(i, j),
        dimensionality=0 if fixed >= _KEPT * tuned else _to_tune(runs, mask, i, j, tuned),
    )


def _choose(scores: Float[np.ndarray, "cells env"]) -> tuple[np.ndarray, int]:
    return scores.argmax(axis=0), int(scores.mean(axis=1).argmax())


def _to_tune(runs: Runs, mask: Mask, i: int, j: int, tuned: float) -> int:
    """Return 1 if one temperature is enough to tune, the other being that of cell (i, j)."""
    scores = np.where(mask[..., None], environment_scores(runs), -np.inf)
    scores = np.where(np.isfinite(scores), scores, -np.inf)
    alone = (scores[:, j].max(axis=0).mean(), scores[i].max(axis=0).mean())
    return 1 if max(alone) >= _KEPT * tuned else 2


def sensitivities(runs: Sequence[Runs], cells: Sequence[Mask]) -> tuple[Tuning, ...]:
    """Return the measures of algorithms that are compared in the same environments, in order."""
    if len({item.shape[2] for item in runs}) != 1:
        raise UserError("sensitivity: the algorithms must have the same environments")
    pooled = np.concatenate(
        [environment_scores(item)[mask] for item, mask in zip(runs, cells, strict=True)]
    )
    low, high = np.nanpercentile(pooled, _PERCENTILES, axis=0)
    width = np.where(high > low, high - low, 1.0)  # all alike: any cell is as good as another
    return tuple(
        tuned_against_fixed((item - low[:, None]) / width[:, None], mask)
        for item, mask in zip(runs, cells, strict=True)
    )
