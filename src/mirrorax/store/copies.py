"""Consolidated copies: the rows of a few hundred shards in one file, for fast loading.

A copy lists its shards in its own notes, in the order of its chunks. It counts only while every one
of them is still there: when a shard is set aside, its neighbours are read singly until the next
consolidation. Copies can be deleted at any time; they are made again from the shards.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from mirrorax.runs import parquet, results
from mirrorax.runs.parquet import Damaged
from mirrorax.runs.results import Results
from mirrorax.store import checks, files, names, shards

#: Shards in a full copy.
FULL = 256
_SHARDS = "mirrorax.shards"


def covered(root: Path, name: str) -> list[str]:
    """Return the shards of a copy; raise `Damaged` if its notes cannot be trusted."""
    return _listed(shards.metadata(root, "parts", name), name)


def _listed(notes: dict[str, str], name: str) -> list[str]:
    try:
        listed = json.loads(notes[_SHARDS])
    except (KeyError, ValueError, RecursionError) as error:
        raise Damaged(f"{name}: no list of shards: {error}") from None
    if not isinstance(listed, list) or not all(
        isinstance(entry, str) and names.PATTERNS["shards"].fullmatch(entry) for entry in listed
    ):
        raise names.UnsafeName(f"store: {name} lists a shard that cannot be one")
    return listed


def usable(root: Path, present: set[str]) -> dict[str, list[str]]:
    """Return the copies whose shards are all present, none overlapping, the largest first."""
    candidates = []
    for name in names.listed(root, "parts"):
        with contextlib.suppress(Damaged, FileNotFoundError, names.UnsafeName):
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
        table = parquet.decode(data, wanted)
        checks.check_columns(table)
        runs = results.from_arrow(table)
        checks.check_rows(runs, whole=columns is None)
        if len(_listed(shards.notes(table.schema.metadata), name)) != len(runs.origins):
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
    present = names.listed(root, "shards")
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
        table = results.to_arrow(results.concat(tables)).combine_chunks()
        metadata = {**table.schema.metadata, _SHARDS.encode(): json.dumps(copied).encode()}
        data = parquet.encode(table.replace_schema_metadata(metadata), compact=True)
        name = f"{files.digest(data)}.parquet"
        files.write(root, "parts", name, data, fault)
        keep.add(name)
        written += 1
    for name in names.listed(root, "parts"):
        if name not in keep and (everything or name not in parts):
            names.inside(root, "parts", name).unlink(missing_ok=True)
    return written
