"""Reading a store, without a lock and without jax: `read_store`, and `Reader` to follow a sweep.

A consolidated copy has the rows of a few hundred shards in one file, for fast loading. It lists its
shards in its head, in the order of its chunks. It counts only while every one of them is still
there: when a shard is set aside, its neighbours are read singly until the next consolidation.
Copies can be deleted at any time; they are made again from the shards.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import Damaged
from mirrorax.runs.results import Results
from mirrorax.store import files, shards, studies
from mirrorax.store.files import DamagedShardWarning

#: Shards in a full copy.
FULL = 256


def covered(root: Path, name: str) -> list[str]:
    """Return the shards of a copy; raise `Damaged` if its head cannot be trusted."""
    return _listed(shards.head(root, "parts", name), name)


def _listed(head: dict[str, Any], name: str) -> list[str]:
    listed = head.get("shards")
    if not isinstance(listed, list):
        raise Damaged(f"{name}: no list of shards")
    pattern = files.PATTERNS["shards"]
    if not all(isinstance(entry, str) and pattern.fullmatch(entry) for entry in listed):
        raise files.UnsafeName(f"store: {name} lists a shard that cannot be one")
    return listed


def usable(root: Path, present: set[str]) -> dict[str, list[str]]:
    """Return the copies whose shards are all present, none overlapping, the largest first."""
    candidates = []
    for name in files.listed(root, "parts"):
        with contextlib.suppress(Damaged, FileNotFoundError, files.UnsafeName):
            listed = covered(root, name)
            if present.issuperset(listed):
                candidates.append((name, listed))
    chosen: dict[str, list[str]] = {}
    taken: set[str] = set()
    for name, listed in sorted(candidates, key=lambda item: (-len(item[1]), item[0])):
        if taken.isdisjoint(listed):
            chosen[name] = listed
            taken.update(listed)
    return chosen


def read(root: Path, name: str, columns: Sequence[str] | None = None) -> Results:
    """Read a copy, or some columns of it, checked; raise `Damaged` or `FileNotFoundError`."""
    data = shards.read_bytes(root, "parts", name)
    try:
        wanted = None if columns is None else [*columns, "run_id", results.ORIGIN]
        table = arrow.decode(data, wanted)
        shards.check_columns(table)
        runs = results.from_arrow(table)
        shards.check_rows(runs, whole=columns is None)
        if len(_listed(arrow.read_head(table.schema.metadata), name)) != len(runs.origins):
            raise Damaged("it does not list one shard for each chunk")
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    return runs


def consolidate(
    root: Path, *, everything: bool = False, fault: files.Fault = files.no_fault
) -> int:
    """Copy shards that no full copy covers; return how many files were written.

    `everything` also copies a remainder of less than a full copy, and then removes the smaller
    copies that it replaces.
    """
    present = files.listed(root, "shards")
    parts = usable(root, set(present))
    full = {name: listed for name, listed in parts.items() if len(listed) >= FULL}
    done = {shard for listed in full.values() for shard in listed}
    rest = [name for name in present if name not in done]
    if everything and any(set(listed) == set(rest) for listed in parts.values()):
        return 0
    written = 0
    keep = set(full)
    while len(rest) >= FULL or (everything and len(rest) > 1):
        batch, rest = rest[:FULL], rest[FULL:]
        tables, copied = [], []
        for name in batch:
            with contextlib.suppress(Damaged, FileNotFoundError):
                tables.append(shards.read(root, name))
                copied.append(name)
        if not tables:
            continue
        table = results.to_arrow(results.concat(tables), shards=copied)
        data = arrow.encode(table.combine_chunks(), compact=True)
        name = f"{files.digest(data)}.parquet"
        files.write(root, "parts", name, data, fault)
        keep.add(name)
        written += 1
    for name in files.listed(root, "parts"):
        if name not in keep and (everything or name not in parts):
            files.inside(root, "parts", name).unlink(missing_ok=True)
    return written


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
        listed = [n for n in files.listed(self.root, "shards") if n not in self._without]
        present = set(listed)
        for name, (_, covered) in list(self._parts.items()):
            if not present.issuperset(covered):  # one of its shards was set aside
                del self._parts[name]
        self.damaged = {name: why for name, why in self.damaged.items() if name in present}
        self.damaged.update(files.strange(self.root, "shards"))
        seen = {shard for _, covered in self._parts.values() for shard in covered}
        if len(present) - len(seen) > 1:
            parts = usable(self.root, present)
            fresh = [name for name, covered in parts.items() if seen.isdisjoint(covered)]
            for name, runs in zip(fresh, shards.parallel(self._read_copy, fresh), strict=True):
                if runs is not None:  # else the shards themselves are read below
                    self._parts[name] = (runs, parts[name])
                    seen.update(parts[name])
        for name in listed:
            if name in seen or name in self.damaged:
                continue
            try:
                runs = shards.read(self.root, name)
            except FileNotFoundError:
                return False
            except (Damaged, files.UnsafeName) as error:
                self.damaged[name] = str(error)
                continue
            self._parts[name] = (self._select(runs), [name])
        return True

    def _read_copy(self, name: str) -> Results | None:
        try:
            return read(self.root, name, self._columns)
        except (Damaged, FileNotFoundError, files.UnsafeName):
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
            files.sequence_in(name) for _, covered in self._parts.values() for name in covered
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
    root = files.existing(directory)
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
    root = files.existing(directory)
    sound = 0
    problems: dict[str, str] = {}
    copied: dict[str, str] = {}  # shard -> a sound copy that lists it
    if not files.folder(root, "shards").is_dir():
        problems["shards"] = "the folder is missing"
    readers = {"shards": shards.read, "parts": read, "studies": studies.read}
    for kind, reader in readers.items():
        for name, problem in files.entries(root, kind):
            if problem is None:
                try:
                    reader(root, name)
                    if kind == "parts":
                        copied.update(dict.fromkeys(covered(root, name), name))
                    sound += 1
                except FileNotFoundError:
                    continue  # set aside or replaced meanwhile
                except (Damaged, files.UnsafeName, OSError) as error:
                    problem = str(error)
            if problem is not None:
                problems[f"{kind}/{name}"] = problem
    # Looked up last: a sweep that is running may have added or set aside some meanwhile.
    present = {name for name, _ in files.entries(root, "shards")}
    set_aside = [name for name, _ in files.entries(root, "quarantine")]
    present.update(name.rpartition(".parquet")[0] + ".parquet" for name in set_aside)
    for name in sorted(copied.keys() - present):
        problems[f"shards/{name}"] = f"is missing; parts/{copied[name]} has a copy of it"
    return sound, problems
