"""Consolidated copies: the rows of a few hundred shards in one file, for fast loading.

A part lists the shards it copies in its own notes. It counts only while every one of them is still
there: a shard that was set aside takes the part with it, and its neighbours are read singly until
the next consolidation. Parts can be deleted at any time; they are made anew from the shards.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa

from mirrorax.store import checks, files, names, shards
from mirrorax.store.errors import Damaged

#: Shards in a full part.
FULL = 256
#: A row's shard, so that duplicates can be settled by the order of writing.
SEQUENCE = checks.SEQUENCE


def covered(root: Path, name: str) -> list[str]:
    """Return the shards a part copies; raise `Damaged` if its notes cannot be trusted."""
    notes = shards.metadata(root, "parts", name)
    try:
        listed = json.loads(notes["mirrorax.shards"])
    except (KeyError, ValueError, RecursionError) as error:
        raise Damaged(f"{name}: no list of shards: {error}") from None
    if not isinstance(listed, list) or not all(
        isinstance(entry, str) and names.PATTERNS["shards"].fullmatch(entry) for entry in listed
    ):
        raise names.UnsafeName(f"store: {name} lists a shard that cannot be one")
    return listed


def usable(root: Path, present: set[str]) -> dict[str, list[str]]:
    """Return the parts whose shards are all present, none overlapping, the largest first."""
    found = []
    for name in names.listed(root, "parts"):
        with contextlib.suppress(Damaged, FileNotFoundError, names.UnsafeName):
            listed = covered(root, name)
            if present.issuperset(listed):
                found.append((name, listed))
    chosen: dict[str, list[str]] = {}
    taken: set[str] = set()
    for name, listed in sorted(found, key=lambda item: (-len(item[1]), item[0])):
        if taken.isdisjoint(listed):
            chosen[name] = listed
            taken.update(listed)
    return chosen


def with_sequence(table: pa.Table, name: str) -> pa.Table:
    """Add the column that says which shard the rows came from."""
    column = pa.array([names.sequence_in(name)] * len(table), pa.int64())
    return table.append_column(SEQUENCE, column)


def consolidate(
    root: Path, *, everything: bool = False, fault: files.Fault = files.no_fault
) -> int:
    """Copy shards that no full part covers into parts; return how many files were written.

    `everything` also copies a remainder of less than a full part, and then removes the smaller
    parts that it replaces.
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
                tables.append(with_sequence(shards.read(root, "shards", name), name))
                copied.append(name)
        if not tables:
            continue
        table = pa.concat_tables(tables, promote_options="default").combine_chunks()
        data = shards.encode(table, {"mirrorax.shards": json.dumps(copied)}, compact=True)
        name = f"{files.digest(data)}.parquet"
        files.write(root, "parts", name, data, fault)
        keep.add(name)
        written += 1
    for name in names.listed(root, "parts"):
        if name not in keep and (everything or name not in parts):
            names.inside(root, "parts", name).unlink(missing_ok=True)
    return written
