"""Reading a store, without a lock and without jax: `load` for all, `Reader` to follow a sweep."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.errors import UserError
from mirrorax.runs import ids as run_ids
from mirrorax.runs import schema
from mirrorax.store import copies, names, shards, studies
from mirrorax.store.errors import Damaged, DamagedShardWarning

_TRIES = 5
_THREADS = 4


class Reader:
    """A growing view of a store's rows. Files are immutable, so each is read once."""

    def __init__(
        self,
        root: Path,
        columns: Sequence[str] | None = None,
        without: Collection[str] = (),  # shards to pass over, copies of them too
    ) -> None:
        self.root = root
        self._without = frozenset(without)
        self.columns = None
        if columns is not None:
            self.columns = list(dict.fromkeys((*columns, "run_id", "status", copies.SEQUENCE)))
        self._texts = [
            field.name
            for field in schema.runs()
            if field.type == pa.string() and field.name != "run_id"
        ]
        self._tables: dict[str, pa.Table] = {}
        self._parts: dict[str, list[str]] = {}  # parts among the tables, and what they copy
        self.damaged: dict[str, str] = {}

    def refresh(self) -> bool:
        """Read what is new; return whether anything changed."""
        before = (set(self._tables), set(self.damaged))
        for _ in range(_TRIES):
            if self._refresh_once():
                break
        return before != (set(self._tables), set(self.damaged))

    def _refresh_once(self) -> bool:
        """Read what is listed now; return False if a file vanished while it was being read."""
        present = [n for n in names.listed(self.root, "shards") if n not in self._without]
        found = set(present)
        for name, listed in list(self._parts.items()):
            if not found.issuperset(listed):  # one of its shards was set aside
                del self._parts[name]
                del self._tables[name]
        for name in [name for name in self._tables if name not in self._parts]:
            if name not in found:
                del self._tables[name]
        self.damaged = {name: why for name, why in self.damaged.items() if name in found}
        self.damaged.update(names.strange(self.root, "shards"))
        seen = {shard for listed in self._parts.values() for shard in listed}
        seen.update(name for name in self._tables if name not in self._parts)
        if len(found) - len(seen) > 1:
            usable = copies.usable(self.root, found)
            fresh = [name for name, listed in usable.items() if seen.isdisjoint(listed)]
            with ThreadPoolExecutor(_THREADS) as pool:  # decoding runs outside of Python
                for name, table in zip(fresh, pool.map(self._read_part, fresh), strict=True):
                    if table is not None:  # else the shards themselves are read below
                        self._tables[name], self._parts[name] = table, usable[name]
                        seen.update(usable[name])
        for name in present:
            if name in seen or name in self.damaged:
                continue
            try:
                table = self._read("shards", name)
                self._tables[name] = copies.with_sequence(table, name)
            except FileNotFoundError:
                return False
            except (Damaged, names.UnsafeName) as error:
                self.damaged[name] = str(error)
        return True

    def _read_part(self, name: str) -> pa.Table | None:
        try:
            return self._read("parts", name)
        except (Damaged, FileNotFoundError):
            return None

    def _read(self, kind: str, name: str) -> pa.Table:
        texts = self._texts if kind == "parts" else None
        return shards.read(self.root, kind, name, self.columns, texts)

    def table(self, *, ordered: bool = False) -> pa.Table:
        """Return one row per run: a finished one before a failed one, and the first finished.

        `ordered` sorts by `run_id`; otherwise the order is that of reading.
        """
        tables = list(self._tables.values())
        if not tables:
            empty = copies.with_sequence(schema.runs().empty_table(), "0" * 8)
            tables = [empty if self.columns is None else empty.select(self.columns)]
        # Parts come with their texts encoded as dictionaries, single shards without.
        encoded = [_encoded(table.replace_schema_metadata(None)) for table in tables]
        same = all(table.schema.equals(encoded[0].schema) for table in encoded)
        table = pa.concat_tables(encoded, promote_options="none" if same else "default")
        for name in self.columns or ():
            if name not in table.column_names:  # every shard is older than the column
                table = table.append_column(name, schema.absent(name, len(table)))
        return _chosen(table.unify_dictionaries(), ordered=ordered)


def _encoded(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if field.name != "run_id" and pa.types.is_string(field.type):
            column = table.column(index).dictionary_encode()
            table = table.set_column(index, field.with_type(column.type), column)
    return table


def _chosen(table: pa.Table, *, ordered: bool) -> pa.Table:
    """Return one row per run with plain columns, in one pass over each column."""
    ids = run_ids.from_arrow(table["run_id"])
    # The first 16 of the 32 digits as one number are quicker to compare, and nearly always enough.
    halves = np.frombuffer(bytes.fromhex(ids.tobytes().decode()), ">u8").reshape(-1, 2)
    number = halves[:, 0].astype(np.uint64)
    order = np.argsort(number)
    if (np.diff(number[order]) == 0).any():
        order = np.argsort(ids, kind="stable")
    again = np.zeros(len(ids), bool)
    again[1:] = ids[order][1:] == ids[order][:-1]
    if again.any():
        run = np.empty(len(ids), np.int64)
        run[order] = np.cumsum(~again)
        failed = pc.not_equal(table["status"].cast(pa.string()), "done")
        failed = failed.to_numpy(zero_copy_only=False)
        sequence = table[copies.SEQUENCE].to_numpy()
        # The first finished result stands for ever; of failures the last tells most.
        order = np.lexsort((np.where(failed, -sequence, sequence), failed, run))
        order = order[np.diff(run[order], prepend=0) > 0]
    if not ordered:
        order = np.sort(order)
    rows = None if not ordered and len(order) == len(ids) else pa.array(order)
    columns = [_taken(table.column(name), rows) for name in table.column_names]
    return pa.table(columns, names=table.column_names)


def _taken(column: pa.ChunkedArray, rows: pa.Array | None) -> pa.Array:
    """Return the rows of a column, decoded; most columns are constant and cost nothing."""
    count = len(column) if rows is None else len(rows)
    constant = _constant(column)
    if constant is not None:
        return pa.repeat(constant, count)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        codes = array.indices if rows is None else array.indices.take(rows)
        return array.dictionary.take(codes)
    return array if rows is None else array.take(rows)


def _constant(column: pa.ChunkedArray) -> pa.Scalar | None:
    """Return the one value of a column, if it has one and looking is cheap."""
    kind = column.type
    if len(column) == 0:
        return None
    if column.null_count == len(column):
        return pa.scalar(None, kind.value_type if pa.types.is_dictionary(kind) else kind)
    if column.null_count or pa.types.is_string(kind):
        return None
    if pa.types.is_dictionary(kind):
        words = column.chunk(0).dictionary
        return words[0] if len(words) == 1 else None
    if pa.types.is_list(kind):
        first = column[0]
        widths = pc.min_max(pc.list_value_length(column))
        if len(first) > 8 or widths["min"] != widths["max"]:
            return None
        same = all(
            pc.all(pc.equal(pc.list_element(column, index), value)).as_py()
            for index, value in enumerate(first)
        )
        return first if same else None
    ends = pc.min_max(column)
    return ends["min"] if ends["min"] == ends["max"] else None


def load(directory: str | os.PathLike[str]) -> pa.Table:
    """Return every run of a store as an Arrow table, one row per run, sorted by `run_id`.

    Takes no lock and does not import jax. `.to_pandas()` or `polars.from_arrow` continue from
    here. A damaged shard is left out with a `DamagedShardWarning` that names it, also where a
    consolidated copy has its rows; the next `mirrorax sweep run` sets it aside and runs its runs
    again.
    """
    root = names.existing(directory)
    damaged = shards.damaged(root, "shards")
    reader = Reader(root, without=damaged)
    reader.refresh()
    for name, why in {**damaged, **reader.damaged}.items():
        warnings.warn(f"{root}: shard left out: {why or name}", DamagedShardWarning, stacklevel=2)
    return schema.in_order(reader.table(ordered=True).drop_columns([copies.SEQUENCE]))


def load_curves(directory: str | os.PathLike[str]) -> pa.Table:
    """Return the learning curves of a store: `run_id` and one list column per curve.

    Curves whose shard is not there were never committed, or are of runs that were set aside.
    """
    root = names.existing(directory)
    tables = []
    committed = {names.sequence_in(name) for name in names.listed(root, "shards")}
    for name in names.listed(root, "curves"):
        if names.sequence_in(name) not in committed:
            continue
        try:
            tables.append(shards.read(root, "curves", name))
        except Damaged as error:
            warnings.warn(f"{root}: curves left out: {error}", DamagedShardWarning, stacklevel=2)
    if not tables:
        raise UserError(f"store: {root} has no learning curves (a study asks with eval_every)")
    table = pa.concat_tables(tables, promote_options="default").replace_schema_metadata(None)
    first = np.unique(run_ids.from_arrow(table["run_id"]), return_index=True)[1]
    return table.take(first)


def verify(directory: str | os.PathLike[str]) -> tuple[int, dict[str, str]]:
    """Read every file of a store; return how many are sound and what is wrong with the others.

    Sound is what has the digest in its name and is well-formed. A shard that a consolidated copy
    lists must be there, unless it was set aside.
    """
    root = names.existing(directory)
    sound = 0
    wrong: dict[str, str] = {}
    copied: dict[str, str] = {}  # shard -> a sound part that lists it
    if not names.folder(root, "shards").is_dir():
        wrong["shards"] = "the folder is missing"
    for kind in ("shards", "curves", "parts", "studies"):
        for name, problem in names.entries(root, kind):
            if problem is None:
                try:
                    table = shards.read(root, kind, name)
                    if kind == "studies":
                        studies.recorded(table, name)
                    if kind == "parts":
                        copied.update(dict.fromkeys(copies.covered(root, name), name))
                    sound += 1
                except FileNotFoundError:
                    continue  # set aside or replaced meanwhile
                except (Damaged, names.UnsafeName, OSError) as error:
                    problem = str(error)
            if problem is not None:
                wrong[f"{kind}/{name}"] = problem
    # Looked up last: a sweep that is running may have added or set aside some meanwhile.
    there = {name for name, _ in names.entries(root, "shards")}
    there.update(name.rpartition(".parquet")[0] + ".parquet" for name in _set_aside(root))
    for name in sorted(copied.keys() - there):
        wrong[f"shards/{name}"] = f"is missing; parts/{copied[name]} has a copy of it"
    return sound, wrong


def _set_aside(root: Path) -> list[str]:
    return [name for name, _ in names.entries(root, "quarantine")]
