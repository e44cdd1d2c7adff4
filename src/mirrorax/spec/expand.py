"""From blocks of axes to runs, as columns: half a million runs are a dozen arrays, not objects.

The order is part of the contract. Blocks in the order of the file; within a block, from the
slowest to the fastest axis:

    environment, reward scale, pair, schedules, alpha (or w), lam (or v), seed

each in the order in which the file lists its values. A run that several blocks declare stands where
it stood first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt32

from mirrorax.formatting import Shown
from mirrorax.runs import identity
from mirrorax.runs.settings import TEMPERATURES, TRACED, RunValues, Settings
from mirrorax.spec.study import Block, Study


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

    def keys(self) -> UInt32[np.ndarray, "runs 2"]:
        """Return the random key of every run."""
        return identity.run_keys(self.configurations, self.configuration, self.values)

    def ids_of_version(self, version: int) -> np.ndarray:
        """Return what the ids are, or would be, under a version of the algorithm."""
        return identity.run_ids(self.configurations, self.configuration, self.values, version)


#: How many of the ids that are taken on trust are computed after all.
_SAMPLE = 256


def expand(study: Study, recorded: np.ndarray | None = None) -> Runs:
    """Return all runs of a study, each once, in the documented order.

    `recorded` are the ids of an earlier expansion: used, after a look at a sample, if they fit.
    """
    configurations: dict[Settings, int] = {}
    pieces = [piece for block in study.blocks for piece in _pieces(block, configurations)]
    values = {name: np.concatenate([piece[name] for _, piece in pieces]) for name in TRACED}
    configuration = np.concatenate(
        [np.full(len(piece["seed"]), which, dtype=np.int32) for which, piece in pieces]
    )
    known = tuple(configurations)
    if recorded is not None and len(recorded) == len(configuration):
        some = np.linspace(0, len(recorded) - 1, _SAMPLE).astype(np.int64)
        # One of each configuration besides: another version of a plugin may be in a single one.
        some = np.union1d(some, np.unique(configuration, return_index=True)[1])
        chosen = {name: column[some] for name, column in values.items()}
        if (identity.run_ids(known, configuration[some], chosen) == recorded[some]).all():
            return Runs(known, configuration, values, recorded)
    ids = identity.run_ids(known, configuration, values)
    runs = Runs(known, configuration, values, ids)
    _, first = np.unique(ids, return_index=True)
    return runs if len(first) == len(ids) else runs.select(np.sort(first))


def _pieces(
    block: Block, configurations: dict[Settings, int]
) -> Iterable[tuple[int, dict[str, np.ndarray]]]:
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
