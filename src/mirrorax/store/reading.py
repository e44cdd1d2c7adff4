"""Reading a store, without a lock and without jax: `read_store`, and `Reader` to follow a sweep.

Every file is checked: page checksums inside it, the digest of the whole in its name (page checksums
do not cover the footer), and its form, which `runs.results` checks.

A consolidated copy has the rows of many shards in one file, for fast loading. It lists its shards
in its head, in the order of its chunks, and counts only while every one of them is still there:
when a shard is set aside, all are read singly until the next consolidation. A copy can be deleted
at any time; it is made again from the shards.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import Damaged, Line
from mirrorax.runs.results import ROWS, Results
from mirrorax.runs.settings import one_line
from mirrorax.store import files
from mirrorax.store.files import DamagedShardWarning

#: A copy is made when this many shards are new, or a quarter of those that were copied.
FULL = 256
_THREADS = 4
_TRIES = 5


def read(
    root: Path, name: str, columns: Sequence[str] | None = None, kind: str = "shards"
) -> Results:
    """Read a shard or a copy, or some columns of it; raise `Damaged` or `FileNotFoundError`.

    Of a shard all columns are checked, of a copy those that are wanted.
    """
    data = files.read_verified(root, kind, name)
    needed = columns if kind == "parts" else None
    try:
        table = arrow.decode(data, needed and ["run_id", *needed, results.ORIGIN])
        runs = results.from_arrow(table, ROWS.names if needed is None else needed)
        listed = arrow.read_head(table.schema.metadata).get("shards")
        if kind == "parts" and not (isinstance(listed, list) and len(listed) == len(runs.origins)):
            raise Damaged("it does not list one shard for each chunk")
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    if columns is None:
        return runs
    return replace(runs, rows=runs.rows.select(["run_id", *columns]))


def covered(root: Path, name: str) -> list[str]:
    """Return the shards that a copy lists; raise `Damaged` if its head cannot be trusted."""
    try:
        listed = arrow.read_head(pq.read_metadata(files.inside(root, "parts", name)).metadata)
    except (pa.ArrowException, ValueError) as error:
        raise Damaged(f"{name}: {error}") from None
    known, pattern = listed.get("shards"), files.PATTERNS["shards"]
    if not isinstance(known, list) or not all(
        isinstance(entry, str) and pattern.fullmatch(entry) for entry in known
    ):
        raise Damaged(f"{name}: no list of shards")
    return known


def copied(root: Path, present: Collection[str]) -> tuple[str, list[str]]:
    """Return the copy of most shards, of which none is missing, and its shards; "" if none is."""
    best = ("", list[str]())
    for name in files.listed(root, "parts"):
        with contextlib.suppress(Damaged, OSError):
            listed = covered(root, name)
            if len(listed) > len(best[1]) and set(present).issuperset(listed):
                best = (name, listed)
    return best


def _checked(root: Path, kind: str, check: Callable[[Path, str], object]) -> dict[str, str]:
    """Check the files of a folder; return what is wrong with each, "" if nothing is."""

    def problem(entry: tuple[str, str | None]) -> str | None:
        name, wrong = entry
        if wrong is not None:
            return wrong
        try:
            check(root, name)
        except FileNotFoundError:
            return None  # set aside or replaced meanwhile
        except (Damaged, files.UnsafeName) as error:
            return str(error)
        except OSError as error:
            return error.strerror or str(error)
        return ""

    entries = files.entries(root, kind)
    with ThreadPoolExecutor(_THREADS) as pool:  # hashing runs outside of Python
        reasons = zip(entries, pool.map(problem, entries), strict=True)
        return {name: why for (name, _), why in reasons if why is not None}


def _damaged(root: Path) -> dict[str, str]:
    """Compare every shard with the digest in its name; return the others, with the reason."""
    pattern = files.PATTERNS["shards"]  # a link or a folder may have the name of a shard
    checked = _checked(root, "shards", lambda root, name: files.read_verified(root, "shards", name))
    return {
        name: why if why.startswith(name) else f"{name}: {why}"
        for name, why in checked.items()
        if why and pattern.fullmatch(name)
    }


def consolidate(root: Path, fault: files.Fault = files.no_fault) -> None:
    """Copy all shards into one file, unless there is such a copy; remove every other one."""
    present = files.listed(root, "shards")
    name, listed = copied(root, present)
    if len(listed) < len(present) and len(present) > 1:
        runs, shards = Reader(root).read_new()
        table = results.to_arrow(runs, shards=shards).combine_chunks()
        data = arrow.encode(table, compact=True)
        name = f"{files.digest(data)}.parquet"
        files.write(root, "parts", name, data, fault)
    for other in files.listed(root, "parts"):
        if other != name:
            files.inside(root, "parts", other).unlink(missing_ok=True)


# --- studies --------------------------------------------------------------------------------------

_Count = Annotated[int, Field(ge=1, lt=10**9)]


class RecordedPair(BaseModel):
    """What is shown of the settings of a configuration."""

    environment: Line
    potential: Line
    drift: Line


class RecordedRuns(BaseModel):
    """A study as a store remembers it, with its runs: `status` needs only the store."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    name: Line
    study: Line  # the id of its text
    text: str
    lanes: _Count
    algorithm_version: _Count
    plugins: list[Line]
    recorded_at: Line
    #: of each configuration
    settings: list[RecordedPair]
    run_ids: pa.ChunkedArray
    #: of each run, its place in `settings`
    configuration: np.ndarray


def read_study(root: Path, name: str) -> RecordedRuns:
    """Read the record of a study, checked; raise `Damaged` or `FileNotFoundError`."""
    data = files.read_verified(root, "studies", name)
    try:
        table = arrow.decode(data)
        results.check_columns(table)
        kinds = {"run_id": pa.string(), "configuration": pa.int32()}
        if dict(zip(table.column_names, table.schema.types, strict=True)) != kinds:
            raise Damaged("its columns are not run_id and configuration")
        number = table["configuration"]
        configuration = np.full(1, -1) if number.null_count else number.to_numpy()
        runs = {"run_ids": table["run_id"], "configuration": configuration}
        recorded = RecordedRuns(**{**arrow.read_head(table.schema.metadata), **runs})
        count = len(recorded.settings)
        if len(configuration) and not 0 <= configuration.min() <= configuration.max() < count:
            raise Damaged("a run has a configuration that is not there")
    except ValidationError as error:
        raise Damaged(f"{name}: its head: {one_line(error)}") from None
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    return recorded


_read_once = lru_cache(maxsize=2)(read_study)  # a record never changes


def latest_study(root: Path) -> RecordedRuns | None:
    """Return the study recorded last; damaged records are passed over."""
    for name in reversed(files.listed(root, "studies")):
        try:
            return _read_once(root, name)
        except (Damaged, FileNotFoundError):
            continue
    return None


# --- the runs of all files ------------------------------------------------------------------------


class Reader:
    """A growing view of a store's runs, or of some columns of them.

    Files are immutable, so each is read once. With `every` the digests of all shards are compared,
    also of those that a copy has the rows of.
    """

    def __init__(
        self, root: Path, columns: Sequence[str] | None = None, *, every: bool = False
    ) -> None:
        self.root = root
        self._columns = columns
        #: the runs of each file that was read, and the shards they are of
        self._parts: dict[str, tuple[Results, list[str]]] = {}
        #: damaged shards, with the reason; they are passed over, and copies of them too
        self.damaged = _damaged(root) if every else {}

    def read_new(self) -> tuple[Results, list[str]]:
        """Read what is new; return the runs of all files, and the shard of each chunk."""
        for _ in range(_TRIES):
            if self._refresh():
                break
        runs = results.concat(part for part, _ in self._parts.values())
        return runs, [name for _, shards in self._parts.values() for name in shards]

    def _refresh(self) -> bool:
        """Read what is new; return False if a file vanished while it was being read."""
        entries = dict(files.entries(self.root, "shards"))
        self.damaged = {name: why for name, why in self.damaged.items() if name in entries}
        present = {n for n, problem in entries.items() if problem is None} - set(self.damaged)
        # A part goes when one of its shards was set aside.
        self._parts = {n: part for n, part in self._parts.items() if present.issuperset(part[1])}
        if not self._parts and len(present) > 1:
            name, shards = copied(self.root, present)
            # A damaged copy does not matter: the shards themselves are read below.
            with contextlib.suppress(Damaged, OSError, files.UnsafeName):
                if shards:
                    self._parts[name] = read(self.root, name, self._columns, "parts"), shards
        seen = {shard for _, shards in self._parts.values() for shard in shards}
        for name in sorted(present - seen):
            try:
                self._parts[name] = read(self.root, name, self._columns), [name]
            except FileNotFoundError:
                return False
            except (Damaged, files.UnsafeName) as error:
                self.damaged[name] = str(error)
        return True

    def results(self) -> Results:
        """Read what is new; return one row per run, see `Results.unique`."""
        runs, shards = self.read_new()
        if not shards:
            return runs
        # Chunks in the order in which they were committed: it settles which of two results counts.
        order = np.argsort([files.sequence_in(name) for name in shards], kind="stable")
        rank = np.argsort(order).astype(np.int32)
        origins = tuple(runs.origins[k] for k in order)
        return Results(runs.rows, origins, rank[runs.origin]).unique()


def read_store(directory: str | os.PathLike[str]) -> Results:
    """Return every run of a store, one row per run, sorted by `run_id`.

    Takes no lock and does not import jax. A damaged shard is left out with a `DamagedShardWarning`
    that names it, also where a consolidated copy has its rows; the next `mirrorax sweep run` sets
    it aside and runs its runs again.
    """
    root = files.existing(directory)
    reader = Reader(root, every=True)
    runs = reader.results()
    for why in reader.damaged.values():
        warnings.warn(f"{root}: shard left out: {why}", DamagedShardWarning, stacklevel=2)
    return runs


def verify(directory: str | os.PathLike[str]) -> tuple[int, dict[str, str]]:
    """Read every file of a store; return how many are sound and what is wrong with the others.

    Sound is what has the digest in its name and is well-formed. A shard that a consolidated copy
    lists must be there, unless it was set aside.
    """
    root = files.existing(directory)
    copied: dict[str, str] = {}  # shard -> a sound copy that lists it

    def read_copy(root: Path, name: str) -> None:
        read(root, name, kind="parts")
        copied.update(dict.fromkeys(covered(root, name), name))

    problems = {}
    if not files.folder(root, "shards").is_dir():
        problems["shards"] = "the folder is missing"
    sound = 0
    for kind, check in (("shards", read), ("parts", read_copy), ("studies", read_study)):
        checked = _checked(root, kind, check)
        wrong = {f"{kind}/{name}": why for name, why in checked.items() if why}
        sound += len(checked) - len(wrong)
        problems |= wrong
    # Looked up last: a sweep that is running may have added or set aside some meanwhile.
    present = {name for name, _ in files.entries(root, "shards")}
    set_aside = [name for name, _ in files.entries(root, "quarantine")]
    present.update(name.rpartition(".parquet")[0] + ".parquet" for name in set_aside)
    for name in sorted(copied.keys() - present):
        problems[f"shards/{name}"] = f"is missing; parts/{copied[name]} has a copy of it"
    return sound, problems
