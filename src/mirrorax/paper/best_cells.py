"""The best cell of a pair, judged by seeds that did not choose it, and a study of more seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.scores import cell_scores
from mirrorax.analysis.tuned import Tuning, tuned_against_fixed
from mirrorax.errors import UserError
from mirrorax.paper import catalogue
from mirrorax.paper.axes import PAIRS
from mirrorax.paper.panels import Panel
from mirrorax.paper.readings import Reading
from mirrorax.paper.runs import PanelRuns, ReadingRuns, usual_seeds
from mirrorax.spec.study import Study, parse


@dataclass(frozen=True, eq=False)
class BestCell:
    """The best cell of a pair by the seeds that most cells have, and its scores on further ones."""

    tuning: Tuning
    alpha: float
    lam: float
    fresh: Float[np.ndarray, "env seed"] | None

    @property
    def held_out(self) -> float | None:
        """Its score on seeds that had no part in choosing it; None with a single seed."""
        if self.fresh is None:
            return self.tuning.fixed_held_out
        return float(cell_scores(self.fresh[None])[0])


def best_cell(panel: PanelRuns) -> BestCell:
    """Choose a pair's best cell; with two further seeds of it or more, these are to judge it."""
    item = panel.landscape
    scores = item.runs()
    chosen_by = np.isin(item.seeds, usual_seeds(panel))
    tuning = tuned_against_fixed(np.where(chosen_by, scores, np.nan), panel.positive)
    i, j = tuning.fixed_cell
    fresh = np.where(chosen_by, np.nan, scores)[i, j]
    enough = np.isfinite(fresh).sum(axis=-1).min() >= 2
    alpha, lam = float(item.alphas[i]), float(item.lams[j])
    return BestCell(tuning, alpha, lam, fresh if enough else None)


def best_cells(runs: ReadingRuns, reading: Reading) -> Study:
    """Return the best cell of each pair of Table 1 that has a grid of runs, with all seeds."""
    blocks = []
    baseline = catalogue.entry("baseline").block
    for label, pair in PAIRS.items():
        panel = runs.on_grid(Panel(label, pair), every_seed=True)
        if panel is not None:
            best = best_cell(panel)
            cell = replace(baseline, pairs=(pair,), alpha=(best.alpha,), lam=(best.lam,))
            blocks.append(reading.apply(cell))
    if not blocks:
        raise UserError(
            f"study: 'best' needs runs of Table 1's pairs in the reading {reading.name}"
        )
    name = f"best cells, reading {reading.name}"
    return parse(catalogue.to_toml(name, blocks), name=name, where=name)
