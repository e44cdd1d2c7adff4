"""From blocks of axes to runs, as columns: half a million runs are a dozen arrays, not objects.

The order is part of the contract. Blocks in the order of the file; within a block, from the
slowest to the fastest axis:

    environment, reward scale, pair, schedules, alpha (or w), lam (or v), seed

each in the order in which the file lists its values. A run that several blocks declare stands where
it stood first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from mirrorax.formatting import Shown
from mirrorax.runs import identity
from mirrorax.runs.settings import TEMPERATURES, TRACED, RunValues, Settings
from mirrorax.spec.study import Block, Study

#: a configuration, and the traced columns of one grid of it
_Piece = tuple[int, dict[str, np.ndarray]]


@dataclass(frozen=True, eq=False, repr=False)
class Runs(Shown):
    """Runs as columns. `configuration[i]` says which of `configurations` run i uses."""

    configurations: tuple[Settings, ...]
    configuration: Int[np.ndarray, " runs"]
    values: dict[str, np.ndarray]  # every traced field; NaN where it does not apply
    ids: np.ndarray  # 32-byte strings

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, which: np.ndarray) -> Runs:
        """Return the runs at these positions, or where a mask is true."""
        return Runs(
            self.configurations,
            self.configuration[which],
            {name: column[which] for name, column in self.values.items()},
            self.ids[which],
        )

    def ids_of_version(self, version: int) -> np.ndarray:
        """Return what the ids are, or would be, under a version of the algorithm."""
        ids = np.zeros_like(self.ids)
        for k, settings in enumerate(self.configurations):
            mine = self.configuration == k
            columns = {name: column[mine] for name, column in self.values.items()}
            ids[mine] = identity.run_ids(settings, columns, version)
        return ids


def expand(study: Study, recorded: np.ndarray | None = None) -> Runs:
    """Return all runs of a study, each once, in the documented order.

    `recorded` are the ids of an earlier expansion: used if they fit, after a look at the first run
    of every grid.
    """
    configurations: dict[Settings, int] = {}
    pieces = [piece for block in study.blocks for piece in _pieces(block, configurations)]
    values = {name: np.concatenate([piece[name] for _, piece in pieces]) for name in TRACED}
    sizes = [len(piece["seed"]) for _, piece in pieces]
    known = tuple(configurations)
    configuration = np.repeat(np.array([which for which, _ in pieces], np.int32), sizes)
    if recorded is not None and len(recorded) == len(configuration):
        firsts = [(k, {name: column[:1] for name, column in c.items()}) for k, c in pieces]
        starts = np.cumsum([0, *sizes[:-1]])
        if (_ids(known, firsts) == recorded[starts]).all():
            return Runs(known, configuration, values, recorded)
    ids = _ids(known, pieces)
    runs = Runs(known, configuration, values, ids)
    _, first = np.unique(ids, return_index=True)
    return runs if len(first) == len(ids) else runs.select(np.sort(first))


def _ids(configurations: Sequence[Settings], pieces: Sequence[_Piece]) -> np.ndarray:
    return np.concatenate([identity.run_ids(configurations[k], each) for k, each in pieces])


def _pieces(block: Block, configurations: dict[Settings, int]) -> Iterable[_Piece]:
    """Yield (configuration, traced columns) for each static combination of a block."""
    fixed = dict(block.fixed)
    defaults = RunValues(**{name: fixed.pop(name) for name in TRACED if name in fixed})
    scaled = [(name, scale) for name, scales in block.environments for scale in scales]
    for (name, scale), (potential, drift), schedules in itertools.product(
        scaled, block.pairs, block.schedules
    ):
        settings = Settings(
            environment=name,
            potential=potential,
            drift=drift,
            alpha_schedule=schedules[0],
            lam_schedule=schedules[1],
            **fixed,
        )
        which = configurations.setdefault(settings, len(configurations))
        yield which, _columns(block, settings, {**dict(defaults), "reward_scale": scale})


def _columns(
    block: Block, settings: Settings, values: Mapping[str, float | None]
) -> dict[str, np.ndarray]:
    """Return the traced columns of one grid; `values` are those that all its runs share."""
    heat, drift = settings.axes
    grid = np.meshgrid(getattr(block, heat), getattr(block, drift), block.seeds, indexing="ij")
    shared = {**values, **dict.fromkeys(TEMPERATURES)}
    count = grid[0].size
    columns = {name: np.full(count, shared[name], np.float64) for name in TRACED}
    columns |= {heat: grid[0].ravel().astype(np.float64), drift: grid[1].ravel().astype(np.float64)}
    return {**columns, "seed": grid[2].ravel()}
