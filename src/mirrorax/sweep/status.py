"""How a study in a store is doing, from the store alone: per environment and pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from mirrorax.errors import UserError
from mirrorax.formatting import counted, duration, rate
from mirrorax.store import lock, studies
from mirrorax.store.reading import Reader

#: what is counted of each environment and pair
_COUNTS = ("total", "done", "running", "failed", "diverged")


@dataclass
class GroupCounts:
    """The runs of one environment and pair."""

    environment: str
    pair: str
    total: int = 0
    done: int = 0
    failed: int = 0
    diverged: int = 0
    running: int = 0


@dataclass(frozen=True)
class Status:
    """Everything `status` shows."""

    study: str
    groups: list[GroupCounts]
    beyond: int
    damaged: dict[str, str]
    live: dict[str, Any] | None

    def sum(self, name: str) -> int:
        """Return a count over all groups."""
        return int(sum(getattr(group, name) for group in self.groups))


class Watcher:
    """Follow a store: reads only what is new."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reader = Reader(root, ["diverged_at"])
        self._recorded: studies.RecordedRuns | None = None

    def status(self) -> Status:
        """Return the present state; raise `UserError` if no study has been run here."""
        last = studies.latest_head(self._root)
        if last is None:
            raise UserError(f"store: {self._root} has no study yet; 'mirrorax sweep run' runs one")
        recorded = self._recorded
        if recorded is None or recorded.file != last.file:
            recorded = self._recorded = studies.latest(self._root)
        if recorded is None:
            raise UserError(f"store: the record of the study in {self._root} is damaged")
        self._reader.refresh()
        results = self._reader.results()
        groups, group_of = _groups(recorded)
        index = pc.index_in(results.rows["run_id"], value_set=recorded.run_ids.combine_chunks())
        place = pc.fill_null(index, -1).to_numpy()
        mine = place >= 0
        which = group_of[recorded.configuration[place[mine]]]
        masks = {"done": results.done, "failed": ~results.done, "diverged": results.diverged}
        for name, mask in masks.items():
            counts = np.bincount(which[mask[mine]], minlength=len(groups))
            for group, count in zip(groups, counts, strict=True):
                setattr(group, name, int(count))
        now = lock.read_live(self._root)
        for group in groups if now else []:
            label = f"{group.environment} {group.pair}"
            group.running = (now or {}).get("running", {}).get(label, 0)
        beyond = int((~mine).sum())
        return Status(recorded.name, groups, beyond, dict(self._reader.damaged), now)


def _groups(recorded: studies.RecordedRuns) -> tuple[list[GroupCounts], np.ndarray]:
    """Return the groups in the study's order, and each configuration's group."""
    groups: dict[tuple[str, str], GroupCounts] = {}
    index: list[int] = []
    for settings in recorded.settings:
        key = (settings.environment, f"{settings.potential} {settings.drift}")
        groups.setdefault(key, GroupCounts(*key))
        index.append(list(groups).index(key))
    group_of = np.array(index, dtype=np.int64)
    counts = np.bincount(group_of[recorded.configuration], minlength=len(groups))
    for group, count in zip(groups.values(), counts, strict=True):
        group.total = int(count)
    return list(groups.values()), group_of


def summary(status: Status) -> str:
    """Return the overall counts in a line or two."""
    total, done = status.sum("total"), status.sum("done")
    parts = [f"{done:,} of {total:,} runs done"]
    if status.live:
        parts.append(f"{status.sum('running'):,} running")
    parts.append(f"{status.sum('failed'):,} failed")
    parts.append(f"{status.sum('diverged'):,} diverged")
    lines = [f"{status.study}: " + ", ".join(parts)]
    if status.live:
        speed = rate(float(status.live["rate"]))
        left = duration(float(status.live["seconds_left"]))
        workers = counted(int(status.live["workers"]), "worker")
        lines.append(f"running on {workers}: {speed}, {left} left")
        if status.live.get("best"):
            lines.append(f"best cell so far: {status.live['best']}")
    else:
        lines.append("no sweep is running here now")
    if status.beyond:
        lines.append(f"{status.beyond:,} further runs in the store are not in this study")
    for name, why in status.damaged.items():
        lines.append(f"damaged: {name} ({why}); the next 'sweep run' sets it aside")
    return "\n".join(lines)


def rows_of(status: Status) -> list[list[str]]:
    """Return the table of groups as text, its head first."""
    head = ["environment", "pair", "runs", *_COUNTS[1:]]
    body = [
        [group.environment, group.pair, *(f"{getattr(group, name):,}" for name in _COUNTS)]
        for group in status.groups
    ]
    return [head, *body]
