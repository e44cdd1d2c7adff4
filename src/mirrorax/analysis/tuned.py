"""The price of not tuning: the best cell for each environment against one cell for all.

The best of hundreds of noisy scores flatters itself. So each number comes twice: as observed, and
held out, where the cell is chosen without one seed and scored on that seed alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.analysis.scores import environment_scores
from mirrorax.errors import UserError


@dataclass(frozen=True, eq=False)
class Tuning:
    """Scores of the best cells, and where they are as (alpha index, lam index)."""

    tuned: float  # mean over environments of each one's best cell
    fixed: float  # the best cell for the mean over environments
    price: float  # tuned - fixed
    tuned_held_out: float | None  # None with a single seed
    fixed_held_out: float | None
    tuned_cells: tuple[tuple[int, int], ...]
    fixed_cell: tuple[int, int]

    @property
    def price_held_out(self) -> float | None:
        """The price with choice and score on different seeds."""
        if self.tuned_held_out is None or self.fixed_held_out is None:
            return None
        return self.tuned_held_out - self.fixed_held_out


def tuned_against_fixed(
    runs: Float[np.ndarray, "alpha lam env seed"],
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
) -> Tuning:
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
    return Tuning(
        tuned=tuned,
        fixed=fixed,
        price=tuned - fixed,
        tuned_held_out=float(np.mean(held_tuned)) if held_tuned else None,
        fixed_held_out=float(np.mean(held_fixed)) if held_fixed else None,
        tuned_cells=tuple((int(a), int(b)) for a, b in where[own]),
        fixed_cell=(int(where[common][0]), int(where[common][1])),
    )


def _choose(scores: Float[np.ndarray, "cells env"]) -> tuple[np.ndarray, int]:
    return scores.argmax(axis=0), int(scores.mean(axis=1).argmax())
