"""How a study in a store is doing, from the store alone: per environment and pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from mirrorax.errors import UserError
from mirrorax.formatting import counted, duration, rate
from mirrorax.store import files, lock, studies
from mirrorax.store.reading import Reader

#: what is counted of each environment and pair
COUNTS = ("runs", "done", "running", "failed", "diverged")


@dataclass(frozen=True)
class Status:
    """Everything `status` shows."""

    study: str
    #: environment and pair -> the counts of its runs, by the names in `COUNTS`
    groups: dict[tuple[str, str], Counter[str]]
    beyond: int
    damaged: dict[str, str]
    live: lock.LiveState | None

    def rows(self) -> list[list[str]]:
        """Return the counts of the groups as text, a head first."""
        head = ["environment", "pair", *COUNTS]
        body = [[*key, *(f"{n[name]:,}" for name in COUNTS)] for key, n in self.groups.items()]
        return [head, *body]

    def summary(self) -> str:
        """Return the overall counts in a line or two."""
        total = sum(self.groups.values(), Counter[str]())
        parts = [f"{total['done']:,} of {total['runs']:,} runs done"]
        parts += [f"{total['running']:,} running"] if self.live else []
        parts += [f"{total[name]:,} {name}" for name in ("failed", "diverged")]
        lines = [f"{self.study}: " + ", ".join(parts)]
        if self.live:
            speed, left = rate(self.live.rate), duration(self.live.seconds_left)
            workers = counted(self.live.workers, "worker")
            lines.append(f"running on {workers}: {speed}, {left} left")
            lines += [f"best cell so far: {self.live.best}"] if self.live.best else []
        else:
            lines.append("no sweep is running here now")
        if self.beyond:
            lines.append(f"{self.beyond:,} further runs in the store are not in this study")
        for name, why in self.damaged.items():
            lines.append(f"damaged: {name} ({why}); the next 'sweep run' sets it aside")
        return "\n".join(lines)


class Watcher:
    """Follow a store: reads only what is new."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reader = Reader(root, ["diverged_at"])

    def status(self) -> Status:
        """Return the present state; raise `UserError` if no study has been run here."""
        study = studies.latest(self._root)
        if study is None and files.listed(self._root, "studies"):
            raise UserError(f"store: the record of the study in {self._root} is damaged")
        if study is None:
            raise UserError(f"store: {self._root} has no study yet; 'mirrorax sweep run' runs one")
        results = self._reader.results()
        index = pc.index_in(results.rows["run_id"], value_set=study.run_ids.combine_chunks())
        place = pc.fill_null(index, -1).to_numpy()
        mine = place >= 0
        which = study.configuration[place[mine]]
        chosen = {
            "runs": study.configuration,
            "done": which[results.done[mine]],
            "failed": which[~results.done[mine]],
            "diverged": which[results.diverged[mine]],
        }
        live = lock.read_live(self._root)
        groups: dict[tuple[str, str], Counter[str]] = {}
        counts = {n: np.bincount(c, minlength=len(study.settings)) for n, c in chosen.items()}
        for k, pair in enumerate(study.settings):
            key = (pair.environment, f"{pair.potential} {pair.drift}")
            group = groups.setdefault(key, Counter())
            group.update({name: int(count[k]) for name, count in counts.items()})
            group["running"] = live.running.get(" ".join(key), 0) if live else 0
        return Status(study.name, groups, int((~mine).sum()), dict(self._reader.damaged), live)
