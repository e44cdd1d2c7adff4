"""The readings that a folder holds: a store, exports, or a folder of either for each reading."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.reference import compared
from mirrorax.errors import UserError
from mirrorax.paper.readings import readings, samples
from mirrorax.paper.runs import ReadingRuns
from mirrorax.runs.scoring import ABSENT
from mirrorax.store.exporting import no_results, read_results
from mirrorax.store.files import check_mark


@dataclass(frozen=True)
class Collection:
    """The runs of each reading, and how many are of none, by the setting that differs."""

    runs: dict[str, ReadingRuns]
    foreign: dict[str, int]


def collect(path: str | os.PathLike[str], field: str = "store") -> Collection:
    """Return what a path holds, in the order of the readings.

    Where two places hold the same reading, that with more runs of it counts.
    """
    best: dict[str, ReadingRuns] = {}
    foreign: dict[str, int] = {}
    for place in _places(Path(os.fspath(path)), field):
        table = read_results(place, field)
        if not len(table):
            continue
        items = landscapes(table)
        known = {**readings(), **samples()}
        every = {name: ReadingRuns(table, reading, items) for name, reading in known.items()}
        for name, runs in every.items():
            if runs.count and (name not in best or runs.count > best[name].count):
                best[name] = runs
        for item in items:
            if reason := _reason(item, list(every.values())):
                foreign[reason] = foreign.get(reason, 0) + int((item.state != ABSENT).sum())
    if not best and not foreign:
        raise UserError(f"{field}: it holds no runs yet, so there is nothing to compare")
    order = [*readings(), *samples()]
    return Collection({name: best[name] for name in order if name in best}, foreign)


def _reason(item: Landscape, every: list[ReadingRuns]) -> str:
    """Say how an algorithm differs from the reading nearest to it; nothing if it is of one."""
    nearest = min(every, key=lambda runs: len(runs.lacks(item)))
    names = nearest.lacks(item)
    return compared(item.settings, nearest.expected, names[0]) if names else ""


def _places(root: Path, field: str) -> list[Path]:
    """Return the stores and folders of exports that a path names: itself and those in it."""
    if not root.exists():
        raise UserError(f"{field}: {str(root)!r} does not exist")
    if root.is_file() or check_mark(root, field):
        return [root]
    inside = sorted(part for part in root.iterdir() if part.is_dir())
    places = [
        part for part in (root, *inside) if check_mark(part, field) or any(part.glob("*.parquet"))
    ]
    if not places:
        raise no_results(root, field)
    return places
