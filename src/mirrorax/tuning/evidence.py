"""What results say about temperatures, cell by cell.

A cell is one pair (h, D) in one environment at one pair of positive temperatures, with the mean
normalised return of its runs. Only runs with constant temperatures and the regularised Q count, and
of the remaining settings only those that most runs share; these are kept beside the cells.

The package ships an export of published runs, which is read like everybody's own results.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from mirrorax.analysis.landscape import Landscape, full_grid, landscapes
from mirrorax.analysis.scores import environment_scores
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.formatting import Shown, counted
from mirrorax.runs.results import Results
from mirrorax.store import read_results

#: Published runs with positive temperatures and reward_scale 1, exported without provenance.
SHIPPED = Path(__file__).with_name("evidence.parquet")
#: Cells are means over few runs: more digits than this are noise.
_DIGITS = 4
#: A grid without holes stands for a map if it holds at least this share of its cells.
_GRID_SHARE = 0.25

#: The settings of runs that count.
_COUNTED = {
    "algorithm": "off_policy",
    "alpha_schedule": "constant",
    "lam_schedule": "constant",
    "actor_q": "regularized",
}


@dataclass(frozen=True, eq=False, repr=False)
class ScoreMap(Shown):
    """The scores of one pair in one environment over positive temperatures; NaN without runs."""

    potential: str
    drift: str
    environment: str
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    scores: Float[np.ndarray, "alpha lam"]
    runs: Int[np.ndarray, "alpha lam"]
    #: the variance between seeds of a cell, on average over cells; NaN with one seed
    noise: float = math.nan

    @property
    def pair(self) -> tuple[str, str]:
        """The regularisers (h, D)."""
        return self.potential, self.drift

    @property
    def family(self) -> str:
        """What other sizes and reward scales of the same environment share."""
        return family(self.environment)

    def by_cell(self) -> dict[tuple[float, float], float]:
        """Return the score of every measured (alpha, lam)."""
        cells = np.argwhere(np.isfinite(self.scores))
        return {
            (float(self.alphas[i]), float(self.lams[j])): float(self.scores[i, j]) for i, j in cells
        }

    def regular(self) -> ScoreMap:
        """Return the map on a grid of which every cell has runs, if one holds a good part of them.

        Lines that were measured in a few places, such as the strips along which minimal
        temperatures are read, would leave holes between which nothing can be interpolated. The
        emptiest line goes first. Scattered cells, of which no grid can be made, stay as they are.
        """
        held = self.runs > 0
        i, j = full_grid(held)
        if i.sum() * j.sum() < _GRID_SHARE * held.sum():
            i, j = np.asarray(held.any(axis=1)), np.asarray(held.any(axis=0))
        at = np.ix_(i, j)
        return replace(
            self,
            alphas=self.alphas[i],
            lams=self.lams[j],
            scores=self.scores[at],
            runs=self.runs[at],
        )


@dataclass(frozen=True, repr=False)
class Evidence(Shown):
    """All maps, and the settings they were measured with."""

    maps: tuple[ScoreMap, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs there are results for, in order."""
        return tuple(dict.fromkeys(each.pair for each in self.maps))

    @property
    def runs(self) -> int:
        """How many runs stand behind it."""
        return sum(int(each.runs.sum()) for each in self.maps)

    def of(self, pair: tuple[str, str]) -> tuple[ScoreMap, ...]:
        """Return the maps of one pair on regular grids."""
        return tuple(each.regular() for each in self.maps if each.pair == pair)


def family(name: str) -> str:
    """Return what environments of several sizes have in common; the name where it is not known."""
    try:
        spec = suite.environment(name)
    except UserError:
        return name
    return spec.family if spec.family in suite.SUITE else name


def gather(table: Results | pa.Table) -> Evidence:
    """Derive the evidence from a table of runs; those with rescaled rewards do not count."""
    groups: dict[tuple[tuple[str, Any], ...], list[ScoreMap]] = {}
    for item in landscapes(table):
        if all(item.settings[name] == value for name, value in _COUNTED.items()):
            rest = [(n, v) for n, v in item.settings.items() if n not in ("potential", "drift")]
            groups.setdefault(tuple(rest), []).extend(_maps(item))
    most = max(groups.items(), key=lambda group: sum(m.runs.sum() for m in group[1]), default=None)
    if most is None or not most[1]:
        raise UserError(
            "results: no finished off-policy run with constant temperatures, positive alpha and "
            "lam, actor_q='regularized' and reward_scale 1; only such runs count"
        )
    return Evidence(tuple(most[1]), dict(most[0]))


def _maps(item: Landscape) -> list[ScoreMap]:
    """Return the maps of the environments that have runs that count."""
    item = item.crop(item.alphas > 0, item.lams > 0)
    runs = item.runs()  # diverged runs count as 0
    scores = np.round(environment_scores(runs), _DIGITS)
    out = []
    for e, environment in enumerate(item.environments):
        if environment.reward_scale != 1 or not item.counts[..., e].any():
            continue
        several = np.isfinite(runs[..., e, :]).sum(axis=-1) > 1
        noise = np.nanvar(runs[..., e, :][several], axis=-1, ddof=1)
        out.append(
            ScoreMap(
                potential=str(item.settings["potential"]),
                drift=str(item.settings["drift"]),
                environment=environment.name,
                alphas=item.alphas,
                lams=item.lams,
                scores=scores[..., e],
                runs=item.counts[..., e],
                noise=float(noise.mean()) if noise.size else math.nan,
            )
        )
    return out


def of_results(place: str | os.PathLike[str] | None = None) -> Evidence:
    """Return the evidence of a store or of exports; of the shipped runs if None."""
    return gather(read_results(SHIPPED if place is None else place, "results"))


def describe(evidence: Evidence) -> str:
    """Say in a line what the evidence consists of."""
    names = dict.fromkeys(each.environment for each in evidence.maps)
    length = evidence.settings.get("steps")
    steps = f", {length:,} steps each" if isinstance(length, int) else ""
    pairs = counted(len(evidence.pairs), "pair")
    return f"{counted(evidence.runs, 'run')} of {pairs} in {', '.join(names)}{steps}"
