"""How far suggestions can be trusted: leave each environment out and predict it from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirrorax.errors import UserError
from mirrorax.runs.settings import RunValues, Settings
from mirrorax.tuning.evidence import Evidence, ScoreMap
from mirrorax.tuning.prediction import good, left_out, resample

THRESHOLD = 0.9
#: A measured cell stands for the default one up to this distance, in decades.
NEAR = 0.35


@dataclass(frozen=True)
class LeftOut:
    """What was suggested for an environment without a look at it, and how good that is there."""

    potential: str
    drift: str
    environment: str
    alpha: float
    lam: float
    score: float  # there, at the suggested cell
    best: float  # the best cell there
    success: bool  # the suggested cell is in the good region
    random: float  # the share of the cells it could have been that are: the chance of a draw
    fixed: bool  # whether the best single cell for all environments, this one included, is
    default: bool | None  # whether the default pair and cell is; None if nothing near was measured


@dataclass(frozen=True)
class Validation:
    """All environments left out, and the rates."""

    threshold: float
    rows: tuple[LeftOut, ...]

    @property
    def suggested(self) -> float:
        """The share of suggestions that fell into the good region."""
        return float(np.mean([row.success for row in self.rows]))

    @property
    def random(self) -> float:
        """The chance of a random cell."""
        return float(np.mean([row.random for row in self.rows]))

    @property
    def fixed(self) -> float:
        """The share of environments in which the best single cell is good."""
        return float(np.mean([row.fixed for row in self.rows]))

    @property
    def default(self) -> float:
        """The share of environments in which the plain default is good; NaN if not measured."""
        known = [row.default for row in self.rows if row.default is not None]
        return float(np.mean(known)) if known else float("nan")

    @property
    def score(self) -> float:
        """The mean score of the suggested cells."""
        return float(np.mean([row.score for row in self.rows]))

    def of(self, pair: tuple[str, str]) -> Validation | None:
        """Return the part about one pair, if there is any."""
        rows = tuple(row for row in self.rows if (row.potential, row.drift) == pair)
        return Validation(self.threshold, rows) if rows else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "threshold": self.threshold,
            "suggested": self.suggested,
            "random": self.random,
            "best_single_cell": self.fixed,
            "default": None if np.isnan(self.default) else self.default,
            "rows": [asdict(row) for row in self.rows],
        }


def validate(evidence: Evidence, threshold: float = THRESHOLD) -> Validation:
    """Leave each environment of each pair out in turn and predict it from the other families.

    A cell is good where its score reaches the threshold. The best single cell is the one with the
    best mean over all environments: it has seen the one that is left out, the suggestion has not.
    An environment without any good cell cannot be hit and is not counted.
    """
    if not 0 < threshold <= 1:
        raise UserError(f"threshold: {threshold!r} is not allowed: above 0, at most 1")
    rows = []
    defaults = default_scores(evidence)
    for pair in evidence.pairs:
        maps = evidence.of(pair)
        fixed = _best_single(maps)
        for each, prediction in left_out(maps):
            here = good(each, threshold)
            if not here.any() or prediction is None:
                continue
            eligible = np.isfinite(each.scores) & np.isfinite(prediction.scores)
            rows.append(
                LeftOut(
                    *pair,
                    environment=each.label,
                    alpha=prediction.alpha,
                    lam=prediction.lam,
                    score=float(each.scores[prediction.cell]),
                    best=float(np.nanmax(each.scores)),
                    success=bool(here[prediction.cell]),
                    random=float(here[eligible].mean()),
                    fixed=fixed is not None and _is_good(each, fixed, threshold),
                    default=_reached(defaults.get(each.label), threshold),
                )
            )
    if not rows:
        raise UserError(
            f"results: nothing to validate: no pair with two families of environments of which "
            f"one has a cell that reaches {threshold:g}"
        )
    return Validation(threshold, tuple(rows))


def default_cell() -> tuple[tuple[str, str], float, float]:
    """Return the default pair and its default temperatures."""
    names, values = Settings.model_fields, RunValues().model_dump()
    return (names["potential"].default, names["drift"].default), values["alpha"], values["lam"]


def default_scores(evidence: Evidence) -> dict[str, float]:
    """Return what the default pair scores at the default temperatures, by environment.

    The nearest measured cell counts, if it is no further than `NEAR` decades.
    """
    pair, alpha, lam = default_cell()
    out = {}
    for each in evidence.of(pair):
        gap_alpha = np.abs(np.log10(each.alphas / alpha))
        gap_lam = np.abs(np.log10(each.lams / lam))
        gaps = np.maximum(gap_alpha[:, None], gap_lam[None, :])
        gaps = np.where(np.isfinite(each.scores), gaps, np.inf)
        if gaps.min() <= NEAR:
            out[each.label] = float(each.scores[np.unravel_index(int(gaps.argmin()), gaps.shape)])
    return out


def _reached(score: float | None, threshold: float) -> bool | None:
    return None if score is None else score >= threshold


def left_out_score(maps: Sequence[ScoreMap]) -> float:
    """Return the mean score of cells that were suggested without a look; NaN if none was."""
    scores = [float(each.scores[p.cell]) for each, p in left_out(maps) if p is not None]
    return float(np.mean(scores)) if scores else float("nan")


def _best_single(maps: Sequence[ScoreMap]) -> tuple[float, float] | None:
    """Return the temperatures with the best mean over all maps, of those measured in each."""
    on = maps[0]
    # NaN where one of them has no run.
    scores = np.mean([resample(each, on.alphas, on.lams) for each in maps], axis=0)
    if not np.isfinite(scores).any():
        return None
    i, j = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    return float(on.alphas[i]), float(on.lams[j])


def _is_good(scores: ScoreMap, cell: tuple[float, float], threshold: float) -> bool:
    i, j = np.flatnonzero(scores.alphas == cell[0]), np.flatnonzero(scores.lams == cell[1])
    return bool(i.size and j.size and good(scores, threshold)[i[0], j[0]])
