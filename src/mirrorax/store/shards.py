"""Files of the store, read and checked: nothing damaged passes unseen.

Two checks: page checksums inside the file, and the digest of the whole file in its name (page
checksums do not cover the footer). A digest says that a file is what somebody wrote, not that it is
well-formed: `check_columns` and `check_rows` see to that, for every reader and for `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import CURVE, Damaged
from mirrorax.runs.results import ROWS, Results
from mirrorax.runs.settings import TRACED
from mirrorax.store import files

_LONGEST_TEXT = 2_000
_KINDS = (pa.string(), pa.bool_(), pa.int64(), pa.float64())
_HEX = np.zeros(256, bool)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = True
#: Values that a run may lack.
_OPTIONAL = ("alpha", "w")


def check_columns(table: pa.Table) -> None:
    """Raise `Damaged` unless a table has readable columns and run ids."""
    again = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if again:
        raise Damaged(f"column {again[0]!r} is there twice")
    try:
        for name in table.column_names:
            table[name].validate(full=True)
    except pa.ArrowException as error:
        raise Damaged(f"column {name!r} is not readable: {error}") from None
    if "run_id" not in table.column_names or table["run_id"].type != pa.string():
        raise Damaged("it has no column of run ids")
    try:
        digits = arrow.read_ids(table["run_id"])
    except ValueError as error:
        raise Damaged(f"column 'run_id': {error}") from None
    if not _HEX[digits.view(np.uint8)].all():
        raise Damaged("column 'run_id': a run id has hexadecimal digits only")


def check_rows(results: Results, *, whole: bool = True) -> None:
    """Raise `Damaged` unless the rows are those of runs; not `whole`: some of their columns."""
    rows = results.rows
    if whole and (missing := [name for name in ROWS.names if name not in rows.column_names]):
        raise Damaged(f"it has no column {missing[0]!r}")
    for name in rows.column_names:
        kind, column = rows[name].type, rows[name]
        if name in ROWS.names:
            wanted = ROWS.field(name).type
        elif name.startswith(CURVE):
            wanted = pa.list_(pa.float64())
        else:  # of a later version
            wanted = kind if _is_plain(kind) else pa.string()
        if kind != wanted:
            raise Damaged(f"column {name!r} holds {kind}, expected {wanted}")
        if name in TRACED and name not in _OPTIONAL and column.null_count:
            raise Damaged(f"column {name!r} has empty places")
        if kind == pa.string() and name != "run_id":
            _check_texts(name, column)
        finite = kind != pa.float64() or pc.all(pc.is_finite(column), min_count=0).as_py()
        if name in (*TRACED, "wall_seconds") and not finite:
            raise Damaged(f"column {name!r} has numbers that are not finite")
        if name.startswith(CURVE) and pc.list_flatten(column).null_count:
            raise Damaged(f"column {name!r} has empty places")
    _check_returns(results)


def _check_returns(results: Results) -> None:
    """A finished run has returns."""
    for name in ("returns", "greedy_returns"):
        if name not in results.rows.column_names:
            continue
        column = results.rows[name]
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        if (lengths[results.done] < 1).any():
            raise Damaged(f"column {name!r}: a finished run has none")
        if pc.list_flatten(column).null_count:
            raise Damaged(f"column {name!r} has empty places")


def _is_plain(kind: pa.DataType) -> bool:
    return kind in _KINDS or (pa.types.is_list(kind) and kind.value_type in _KINDS)


def _check_texts(name: str, column: pa.ChunkedArray) -> None:
    texts = column.unique().drop_null()
    if not pc.all(pc.utf8_is_printable(texts), min_count=0).as_py():
        raise Damaged(f"column {name!r} has texts with control characters")
    if pc.any(pc.greater(pc.utf8_length(texts), _LONGEST_TEXT)).as_py():
        raise Damaged(f"column {name!r} has texts of more than {_LONGEST_TEXT} characters")


_THREADS = 4
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


def parallel(function: Callable[[_Item], _Value], items: Sequence[_Item]) -> list[_Value]:
    """Apply a function to items in threads: hashing and decoding run outside of Python."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, items))


def outcome(data: bytes) -> Results:
    """Return the runs of an outcome's bytes, checked; raise `Damaged` if it is ill-formed."""
    table = arrow.decode(data)
    check_columns(table)
    runs = results.from_outcome(table)
    check_rows(runs)
    return runs


def read_bytes(root: Path, kind: str, name: str) -> bytes:
    """Return the content of a file; raise `Damaged` unless it has the digest in its name."""
    data = files.read_bytes(files.inside(root, kind, name))
    if files.digest(data) != files.digest_in(name):
        raise Damaged(f"{name}: the content does not have the digest in its name")
    return data


def read(root: Path, name: str) -> Results:
    """Read a shard, checked; raise `Damaged` or `FileNotFoundError`."""
    data = read_bytes(root, "shards", name)
    try:
        return outcome(data)
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None


def damaged(root: Path) -> dict[str, str]:
    """Return the shards that are not what was written, with the reason.

    Every file is compared with the digest in its name, and none is decoded.
    """

    def wrong(name: str) -> str | None:
        try:
            read_bytes(root, "shards", name)
        except FileNotFoundError:
            return None  # set aside meanwhile
        except (Damaged, files.UnsafeName) as error:
            return str(error)
        except OSError as error:
            return f"{name}: {error.strerror}"
        return None

    listed = files.listed(root, "shards")
    reasons = zip(listed, parallel(wrong, listed), strict=True)
    return files.strange(root, "shards") | {name: why for name, why in reasons if why}


def head(root: Path, kind: str, name: str) -> dict[str, Any]:
    """Read only the head of a file (not verified by the digest: for choosing what to read)."""
    path = files.inside(root, kind, name)
    try:
        return arrow.read_head(pq.read_metadata(path).metadata)
    except (pa.ArrowException, OSError, ValueError, Damaged) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise Damaged(f"{name}: {error}") from None
