"""Reading a store, without a lock and without jax: `load` for all, `Reader` to follow a sweep."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mirrorax.runs import results
from mirrorax.runs.parquet import Damaged
from mirrorax.runs.results import Results
from mirrorax.store import copies, names, shards, studies
from mirrorax.store.errors import DamagedShardWarning

_TRIES = 5


class Reader:
    """A growing view of a store's runs. Files are immutable, so each is read once."""

    def __init__(
        self,
        root: Path,
        columns: Sequence[str] | None = None,  # of the rows of consolidated copies
        without: Collection[str] = (),  # shards to pass over, copies of them too
    ) -> None:
        self.root = root
        self._without = frozenset(without)
        self._columns = columns
        #: the runs of each file that was read, and the shards they are of
        self._parts: dict[str, tuple[Results, list[str]]] = {}
        self.damaged: dict[str, str] = {}

    def refresh(self) -> bool:
        """Read what is new; return whether anything changed."""
        before = (set(self._parts), set(self.damaged))
        for _ in range(_TRIES):
            if self._refresh_once():
                break
        return before != (set(self._parts), set(self.damaged))

    def _refresh_once(self) -> bool:
        """Read what is listed now; return False if a file vanished while it was being read."""
        listed = [n for n in names.listed(self.root, "shards") if n not in self._without]
        present = set(listed)
        for name, (_, covered) in list(self._parts.items()):
            if not present.issuperset(covered):  # one of its shards was set aside
                del self._parts[name]
        self.damaged = {name: why for name, why in self.damaged.items() if name in present}
        self.damaged.update(names.strange(self.root, "shards"))
        seen = {shard for _, covered in self._parts.values() for shard in covered}
        if len(present) - len(seen) > 1:
            usable = copies.usable(self.root, present)
            fresh = [name for name, covered in usable.items() if seen.isdisjoint(covered)]
            for name, runs in zip(fresh, shards.parallel(self._read_copy, fresh), strict=True):
                if runs is not None:  # else the shards themselves are read below
                    self._parts[name] = (runs, usable[name])
                    seen.update(usable[name])
        for name in listed:
            if name in seen or name in self.damaged:
                continue
            try:
                runs = shards.read(self.root, name)
            except FileNotFoundError:
                return False
            except (Damaged, names.UnsafeName) as error:
                self.damaged[name] = str(error)
                continue
            self._parts[name] = (self._select(runs), [name])
        return True

    def _read_copy(self, name: str) -> Results | None:
        try:
            return copies.read(self.root, name, self._columns)
        except (Damaged, FileNotFoundError, names.UnsafeName):
            return None

    def _select(self, runs: Results) -> Results:
        if self._columns is None:
            return runs
        wanted = [n for n in runs.rows.column_names if n == "run_id" or n in self._columns]
        return replace(runs, rows=runs.rows.select(wanted))

    def results(self, *, ordered: bool = False) -> Results:
        """Return one row per run: a finished one before a failed one, and the first finished.

        `ordered` sorts by `run_id`; otherwise the order is that of reading.
        """
        if not self._parts:
            return self._select(results.empty())
        runs = results.concat(part for part, _ in self._parts.values())
        # Chunks in the order in which they were committed: it settles which of two results counts.
        written = [
            names.sequence_in(name) for _, covered in self._parts.values() for name in covered
        ]
        order = np.argsort(written, kind="stable")
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        origins = tuple(runs.origins[k] for k in order)
        return replace(runs, origins=origins, origin=rank[runs.origin]).unique(ordered=ordered)


def read_store(directory: str | os.PathLike[str]) -> Results:
    """Return every run of a store, one row per run, sorted by `run_id`.

    Takes no lock and does not import jax. A damaged shard is left out with a `DamagedShardWarning`
    that names it, also where a consolidated copy has its rows; the next `mirrorax sweep run` sets
    it aside and runs its runs again.
    """
    root = names.existing(directory)
    damaged = shards.damaged(root)
    reader = Reader(root, without=damaged)
    reader.refresh()
    for name, why in {**damaged, **reader.damaged}.items():
        warnings.warn(f"{root}: shard left out: {why or name}", DamagedShardWarning, stacklevel=2)
    return reader.results(ordered=True)


def verify(directory: str | os.PathLike[str]) -> tuple[int, dict[str, str]]:
    """Read every file of a store; return how many are sound and what is wrong with the others.

    Sound is what has the digest in its name and is well-formed. A shard that a consolidated copy
    lists must be there, unless it was set aside.
    """
    root = names.existing(directory)
    sound = 0
    problems: dict[str, str] = {}
    copied: dict[str, str] = {}  # shard -> a sound copy that lists it
    if not names.folder(root, "shards").is_dir():
        problems["shards"] = "the folder is missing"
    readers = {"shards": shards.read, "parts": copies.read, "studies": studies.read}
    for kind, reader in readers.items():
        for name, problem in names.entries(root, kind):
            if problem is None:
                try:
                    reader(root, name)
                    if kind == "parts":
                        copied.update(dict.fromkeys(copies.covered(root, name), name))
                    sound += 1
                except FileNotFoundError:
                    continue  # set aside or replaced meanwhile
                except (Damaged, names.UnsafeName, OSError) as error:
                    problem = str(error)
            if problem is not None:
                problems[f"{kind}/{name}"] = problem
    # Looked up last: a sweep that is running may have added or set aside some meanwhile.
    present = {name for name, _ in names.entries(root, "shards")}
    set_aside = [name for name, _ in names.entries(root, "quarantine")]
    present.update(name.rpartition(".parquet")[0] + ".parquet" for name in set_aside)
    for name in sorted(copied.keys() - present):
        problems[f"shards/{name}"] = f"is missing; parts/{copied[name]} has a copy of it"
    return sound, problems
