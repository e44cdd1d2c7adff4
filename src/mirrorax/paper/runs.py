"""Runs behind a panel of the paper: found in a table, cut to the cells that are complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.analysis.estimates import Estimate, robustness
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.reference import differing
from mirrorax.analysis.scores import cell_scores
from mirrorax.analysis.temperature import Temperature
from mirrorax.paper import catalogue, readings
from mirrorax.paper.panels import Panel
from mirrorax.paper.readings import Reading
from mirrorax.runs.results import Results
from mirrorax.runs.scoring import ABSENT

#: Cells with positive temperatures that make a grid; the fingerprint has up to 12 of a pair.
FEWEST = 20


@dataclass(frozen=True, eq=False)
class PanelRuns:
    """A panel's runs, and how they compare with the paper's grid and seeds."""

    panel: Panel
    landscape: Landscape
    beyond: int = 0  # complete cells of other values than those of the nested grid
    spare: int = 0  # runs with seeds that most cells do not have
    full: tuple[int, int] = (29, 29)  # the cells of the paper that it is a part of

    @cached_property
    def given(self) -> Bool[np.ndarray, "alpha lam"]:
        """The cells with a run in every environment of the panel."""
        return np.asarray(self.landscape.counts.min(axis=-1) > 0)

    @property
    def positive(self) -> Bool[np.ndarray, "alpha lam"]:
        """Those of them with both temperatures positive, which the paper counts."""
        return self.landscape.cells("positive") & self.given

    @property
    def scores(self) -> Float[np.ndarray, "alpha lam"]:
        """The scores of the cells with a run in every environment."""
        return np.where(self.given, cell_scores(self.landscape.runs()), np.nan)

    @property
    def runs(self) -> int:
        """How many runs with a result there are, in those cells."""
        return int(self.landscape.counts[self.given].sum())

    @property
    def rows(self) -> Int[np.ndarray, " runs"]:
        """Where these runs stand in the table."""
        kept = self.landscape.ended & self.given[..., None, None]
        return np.asarray(self.landscape.rows[kept])

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most runs of a cell in an environment."""
        counts = self.landscape.counts[self.given]
        return int(counts.min()), int(counts.max())

    @property
    def whole(self) -> bool:
        """Whether these are all cells and seeds of the paper."""
        return bool(self.given.all()) and self.given.shape == self.full and self.seeds[0] >= 5

    def rbst(self, level: float) -> Estimate:
        """Return Rbst over the cells with positive temperatures, with its uncertainty."""
        return robustness(self.landscape.runs(), (level,), cells=self.positive)[0]

    def without_each(self, axis: int) -> list[Bool[np.ndarray, "alpha lam"]]:
        """Return the cells that count without each value of a temperature in turn."""
        place = np.indices(self.positive.shape)[axis]
        lines = np.unique(place[self.positive])
        return [self.positive & (place != line) for line in lines if lines.size > 1]

    @property
    def size(self) -> str:
        """What was run, in words: how many cells and seeds, of how many in the paper."""
        low, high = self.seeds
        seeds = f"{low}" if low == high else f"{low} to {high}"
        shape, full = (" x ".join(map(str, each)) for each in (self.given.shape, self.full))
        grid = shape if self.given.all() else f"{int(self.given.sum())}"
        if self.whole:
            return f"{full} cells, 5 seeds"
        more = f" ({self.beyond} further cells left out)" if self.beyond else ""
        spare = f" ({self.spare} runs with further seeds left out)" if self.spare else ""
        cells = full if grid == full else f"{grid} of {full}"
        return f"reduced: {cells} cells{more}, {seeds} of 5 seeds{spare}"


class ReadingRuns:
    """The runs of a reading, by the panels of the paper; `expected` are the settings they share."""

    def __init__(
        self,
        table: Results | pa.Table,
        reading: Reading | None = None,
        items: Sequence[Landscape] | None = None,  # those of the table, if they are known
    ) -> None:
        self.table = table
        self.items = landscapes(table) if items is None else items
        shared = (reading or readings.reading(readings.FIRST)).shared()
        self.expected = {**shared, "algorithm_version": _version(self.items)}

    def find(
        self, panel: Panel, *, nested: bool = True, every_seed: bool = False
    ) -> PanelRuns | None:
        """Return the panel's runs on the largest of the nested grids that is complete.

        Without one, or with `nested` False, the grid is that of the rows and columns with a
        complete cell. Seeds that most cells do not have, as the best ones may, count only with
        `every_seed`.
        """
        wanted = {**self.expected, **panel.settings}
        for item in self.items:
            if differing(item.settings, wanted):
                continue
            have = {environment.label for environment in item.environments}
            if not set(panel.labels) <= have:
                continue
            chosen = item.select(panel.labels)
            complete = chosen.counts.min(axis=-1) > 0
            if not complete.any():
                continue
            rows, columns = (_nested(chosen, complete) if nested else None) or (
                np.flatnonzero(complete.any(axis=1)),
                np.flatnonzero(complete.any(axis=0)),
            )
            beyond = int(complete.sum() - complete[np.ix_(rows, columns)].sum())
            match = PanelRuns(panel, chosen.crop(rows, columns).keep(), beyond)
            return match if every_seed else usual(match)
        return None

    def on_grid(self, panel: Panel, *, every_seed: bool = False) -> PanelRuns | None:
        """Return the panel's runs if there are enough for a verdict, not only a few points.

        Cells here and there are no grid: random cells that were trained in every environment are
        those that did well.
        """
        match = self.find(panel, every_seed=every_seed)
        if match is None or match.positive.sum() < FEWEST or match.given.mean() < 0.5:
            return None
        return match

    def find_all(self, panels: Sequence[Panel], *, nested: bool = True) -> tuple[PanelRuns, ...]:
        """Return those panels that have runs."""
        matches = (self.find(panel, nested=nested) for panel in panels)
        return tuple(each for each in matches if each is not None)

    def strip(self, panel: Panel, temperature: Temperature) -> PanelRuns | None:
        """Return the panel's runs along which Figure 4 reads a temperature, if they are complete.

        These are all values of it at the paper's lowest values of the other.
        """
        match = self.find(panel, nested=False, every_seed=True)
        if match is None:
            return None
        few = catalogue.strip(catalogue.entry("baseline").block, temperature)
        places = _places(match.landscape, match.given, few.alpha, few.lam)
        if places is None:
            return None
        full = len(few.alpha), len(few.lam)
        match = usual(PanelRuns(panel, match.landscape.crop(*places).keep(), full=full))
        return match if match.given.all() else None

    @cached_property
    def count(self) -> int:
        """How many runs with a result are of this reading."""
        return sum(int(item.ended.sum()) for item in self.items if not self.lacks(item))

    def lacks(self, item: Landscape) -> list[str]:
        """Return the settings in which an algorithm is not of this reading."""
        return differing(item.settings, self.expected)


def _version(items: Sequence[Landscape]) -> int:
    """Return the version of the algorithm that most runs are of: versions are never mixed."""
    counts: Counter[int] = Counter()
    for item in items:
        counts[item.settings.get("algorithm_version", ALGORITHM_VERSION)] += int(item.ended.sum())
    known = range(1, ALGORITHM_VERSION + 1)
    return max(known, key=lambda version: (counts[version], version))


def sizes(panels: Sequence[PanelRuns]) -> str:
    """Say what was run, each size once, with all the cells that were left out of it."""
    same: dict[str, list[PanelRuns]] = {}
    for each in panels:
        same.setdefault(replace(each, beyond=0, spare=0).size, []).append(each)
    return "; ".join(
        replace(
            group[0],
            beyond=sum(each.beyond for each in group),
            spare=sum(each.spare for each in group),
        ).size
        for group in same.values()
    )


def usual_seeds(match: PanelRuns) -> Int[np.ndarray, " seeds"]:
    """Return the seeds that most cells have in most environments; all where there are none."""
    slots = match.landscape.seeds[match.given]  # [cell, environment, slot]
    seeds, counts = np.unique(slots[slots >= 0], return_counts=True)
    most = seeds[counts > slots.shape[0] * slots.shape[1] / 2]
    return most if most.size else seeds


def usual(match: PanelRuns) -> PanelRuns:
    """Leave out the runs with other seeds than the usual ones."""
    item = match.landscape
    kept = np.isin(item.seeds, usual_seeds(match))
    spare = int((~kept & (item.state != ABSENT)).sum())
    return replace(match, landscape=item.keep(kept), spare=spare) if spare else match


def alike(matches: Sequence[PanelRuns]) -> tuple[PanelRuns, ...]:
    """Cut panels that are to be compared to the cells and the seeds that all of them have.

    More cells make a better best one, and so do fewer seeds. Without a cell in common there is
    nothing to compare, and nothing is returned.
    """
    if not matches:
        return ()
    alphas = reduce(np.intersect1d, [each.landscape.alphas for each in matches])
    lams = reduce(np.intersect1d, [each.landscape.lams for each in matches])
    if not alphas.size or not lams.size:
        return ()
    items = [each.landscape for each in matches]
    parts = [
        item.crop(np.isin(item.alphas, alphas), np.isin(item.lams, lams)).keep() for item in items
    ]
    seeds = np.unique(np.concatenate([part.seeds.ravel() for part in parts]))
    # [alpha, lam, environment, seed]: whether every panel has that run
    shared = reduce(np.logical_and, [_has(part, seeds) for part in parts])
    shared &= np.asarray(shared.any(axis=-1).all(axis=-1))[..., None, None]
    rows, columns = (np.flatnonzero(shared.any(axis=axes)) for axes in ((1, 2, 3), (0, 2, 3)))
    if not rows.size:
        return ()
    out = []
    for each, part in zip(matches, parts, strict=True):
        kept = np.take_along_axis(shared, np.searchsorted(seeds, part.seeds), axis=-1)
        cut = replace(each, landscape=part.keep(kept).crop(rows, columns).keep())
        lost = int(each.given.sum() - cut.given.sum())
        out.append(replace(cut, beyond=each.beyond + lost))
    return tuple(out)


def _has(item: Landscape, seeds: Int[np.ndarray, " seeds"]) -> Bool[np.ndarray, "a l e seeds"]:
    """Return which seeds each cell has in each environment, with a result."""
    out = np.zeros((*item.seeds.shape[:-1], len(seeds)), dtype=bool)
    at = np.nonzero(item.ended)
    out[at[0], at[1], at[2], np.searchsorted(seeds, item.seeds[at])] = True
    return out


def _nested(
    item: Landscape, complete: Bool[np.ndarray, "alpha lam"]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows and columns of the largest nested grid without a hole, if there is one."""
    for alphas, lams in catalogue.GRIDS.values():  # the largest first
        places = _places(item, complete, alphas, lams)
        if places is not None:
            return places
    return None


def _places(
    item: Landscape,
    complete: Bool[np.ndarray, "alpha lam"],
    alphas: Sequence[float],
    lams: Sequence[float],
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows and columns of some temperatures, if all of their cells are complete."""
    rows = np.flatnonzero(np.isin(item.alphas, alphas))
    columns = np.flatnonzero(np.isin(item.lams, lams))
    all_there = (len(rows), len(columns)) == (len(alphas), len(lams))
    return (rows, columns) if all_there and complete[np.ix_(rows, columns)].all() else None
