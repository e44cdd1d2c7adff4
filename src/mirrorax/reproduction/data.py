"""Runs behind a panel of the paper: found in a table, cut to the cells that are complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from jaxtyping import Bool

from mirrorax.analysis.landscape import ABSENT, Landscape, landscapes
from mirrorax.mdpo.config import Settings
from mirrorax.studies import catalogue
from mirrorax.studies.panels import Panel

#: What tells one algorithm of the paper from another; all else is the preset's.
_VARIED = ("potential", "drift", "alpha_schedule", "lam_schedule", "actor_q")


@dataclass(frozen=True, eq=False)
class Found:
    """A panel's runs, and how they compare with the paper's grid and seeds."""

    panel: Panel
    landscape: Landscape
    beyond: int = 0  # complete cells of other values than those of the nested grid

    @cached_property
    def given(self) -> Bool[np.ndarray, "alpha lam"]:
        """The cells with a run in every environment of the panel."""
        return np.asarray(self.landscape.counts.min(axis=-1) > 0)

    @property
    def positive(self) -> Bool[np.ndarray, "alpha lam"]:
        """Those of them with both temperatures positive, which the paper counts."""
        return self.landscape.cells("positive") & self.given

    @property
    def runs(self) -> int:
        """How many runs with a result there are, in those cells."""
        return int(self.landscape.counts[self.given].sum())

    @property
    def seeds(self) -> tuple[int, int]:
        """The fewest and the most runs of a cell in an environment."""
        counts = self.landscape.counts[self.given]
        return int(counts.min()), int(counts.max())

    @property
    def whole(self) -> bool:
        """Whether these are all cells and seeds of the paper."""
        return bool(self.given.all()) and self.given.shape == (29, 29) and self.seeds[0] >= 5

    @property
    def size(self) -> str:
        """What was run, in words: how many cells and seeds, of how many in the paper."""
        low, high = self.seeds
        seeds = f"{low}" if low == high else f"{low} to {high}"
        cells = int(self.given.sum())
        shape = " x ".join(map(str, self.given.shape))
        grid = shape if self.given.all() else f"{cells}"
        if self.whole:
            return "29 x 29 cells, 5 seeds"
        more = f" ({self.beyond} further cells left out)" if self.beyond else ""
        return f"reduced: {grid} of 29 x 29 cells{more}, {seeds} of 5 seeds"


class Runs:
    """All runs of a table, by the panels of the paper."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._items = landscapes(table)
        self._expected = _expected()

    def find(self, panel: Panel, *, nested: bool = True) -> Found | None:
        """Return the panel's runs on the largest of the nested grids that is complete.

        Without one, or with `nested` False, the grid is that of the rows and columns with a
        complete cell.
        """
        wanted = {**self._expected, **panel.settings}
        for item in self._items:
            if any(
                name in item.settings and _plain(item.settings[name]) != _plain(value)
                for name, value in wanted.items()
            ):
                continue
            have = {environment.label for environment in item.environments}
            if not set(panel.labels) <= have:
                return None
            chosen = item.select(panel.labels)
            complete = chosen.counts.min(axis=-1) > 0
            if not complete.any():
                return None
            rows, columns = (_nested(chosen, complete) if nested else None) or (
                np.flatnonzero(complete.any(axis=1)),
                np.flatnonzero(complete.any(axis=0)),
            )
            beyond = int(complete.sum() - complete[np.ix_(rows, columns)].sum())
            return Found(panel, _cut(chosen, rows, columns), beyond)
        return None

    def find_all(self, panels: Sequence[Panel]) -> tuple[Found, ...]:
        """Return those panels that have runs."""
        return tuple(found for panel in panels if (found := self.find(panel)) is not None)


def _expected() -> dict[str, object]:
    """The settings that all of the paper's algorithms share."""
    block = catalogue.entry("baseline").study().blocks[0]
    fixed = {name: value for name, value in block.fixed if name in Settings.model_fields}
    settings = Settings(environment="Catch", **fixed).model_dump()
    return {n: v for n, v in settings.items() if n not in (*_VARIED, "environment", "plugins")}


def _plain(value: object) -> object:
    """A list as the analysis writes it down: 64 x 64."""
    return " x ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _nested(
    item: Landscape, complete: Bool[np.ndarray, "alpha lam"]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the rows and columns of the largest nested grid without a hole, if there is one."""
    block = catalogue.entry("baseline").study().blocks[0]
    for step in sorted(catalogue.GRIDS.values()):
        alphas, lams = block.alpha[::step], block.lam[::step]
        rows = np.flatnonzero(np.isin(item.alphas, alphas))
        columns = np.flatnonzero(np.isin(item.lams, lams))
        whole = (len(rows), len(columns)) == (len(alphas), len(lams))
        if whole and complete[np.ix_(rows, columns)].all():
            return rows, columns
    return None


def _cut(item: Landscape, rows: np.ndarray, columns: np.ndarray) -> Landscape:
    """Keep some values of the temperatures, and the slots of seeds that these have."""
    cut = np.ix_(rows, columns)
    used = (item.state[cut] != ABSENT).any(axis=(0, 1, 2))
    return replace(
        item,
        alphas=item.alphas[rows],
        lams=item.lams[columns],
        **{
            name: getattr(item, name)[cut][:, :, :, used]
            for name in ("seeds", "state", "stochastic", "greedy", "rows", "unflagged")
        },
    )
