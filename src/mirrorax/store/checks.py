"""Is a file of the store what its folder holds? One check for every reader, and for `verify`.

A digest says that a file is what somebody wrote, not that it is well-formed. `check` looks at the
columns, their types, the run ids and the texts; what passes can be analysed and printed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.runs import ids, schema
from mirrorax.runs.settings import RunValues
from mirrorax.store.errors import Damaged

#: A row's shard, in a consolidated copy; see `parts`.
SEQUENCE = "_sequence"

_LONGEST_TEXT = 2_000
_FREE_TEXT = ("failure",)  # the end of a log, any characters
_STATUS = ("done", "failed")
_SOURCES = (schema.KNOWN, schema.ESTIMATED)
_KINDS = (pa.string(), pa.bool_(), pa.int64(), pa.float64())
_HEX = np.zeros(256, bool)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = True

#: Columns that hold a value in every row: what tells algorithms and cells apart.
_FILLED = (
    *("status", "environment", "potential", "drift", "alpha_schedule", "lam_schedule"),
    *("lam", "seed"),
)


def check(kind: str, table: pa.Table) -> None:
    """Raise `Damaged` unless a table, or some columns of it, can be one of this folder."""
    again = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if again:
        raise Damaged(f"column {again[0]!r} is there twice")
    try:
        for name in table.column_names:
            table[name].validate(full=True)
    except pa.ArrowException as error:
        raise Damaged(f"column {name!r} is not readable: {error}") from None
    _check_ids(table)
    if kind == "studies":
        if table.column_names != ["run_id", "configuration"]:
            raise Damaged(f"columns {table.column_names}, expected run_id and configuration")
        if table["configuration"].type != pa.int32() or table["configuration"].null_count:
            raise Damaged("column 'configuration' does not hold numbers of configurations")
    elif kind == "curves":
        for name in table.column_names:
            if name != "run_id" and table[name].type != pa.list_(pa.float64()):
                raise Damaged(f"column {name!r} holds {table[name].type}, expected lists")
    else:
        _check_runs(table, copied=kind == "parts")


def _check_ids(table: pa.Table) -> None:
    if "run_id" not in table.column_names or table["run_id"].type != pa.string():
        raise Damaged("it has no column of run ids")
    try:
        found = ids.from_arrow(table["run_id"])
    except ValueError as error:
        raise Damaged(f"column 'run_id': {error}") from None
    if not _HEX[found.view(np.uint8)].all():
        raise Damaged("column 'run_id': a run id has hexadecimal digits only")


def _check_runs(table: pa.Table, *, copied: bool) -> None:
    """Check rows of runs: `copied` ones say which shard they are from."""
    if (SEQUENCE in table.column_names) != copied:
        raise Damaged(f"column {SEQUENCE!r} is {'missing' if copied else 'not one of a shard'}")
    if "status" not in table.column_names:
        raise Damaged("it has no column 'status'")
    known = schema.runs()
    for name in table.column_names:
        kind = _plain_type(table[name].type)
        if name in known.names:
            wanted = known.field(name).type
        elif name == SEQUENCE:
            wanted = pa.int64()
        else:  # of a later version
            wanted = kind if _is_plain(kind) else pa.string()
        if kind != wanted:
            raise Damaged(f"column {name!r} holds {kind}, expected {wanted}")
        if name in (*_FILLED, SEQUENCE) and table[name].null_count:
            raise Damaged(f"column {name!r} has empty places")
        if kind == pa.string() and name not in _FREE_TEXT:
            _check_texts(name, table[name])
        if kind == pa.float64() and name in RunValues.model_fields:
            _check_finite(name, table[name])
    _check_words("status", table, _STATUS)
    _check_words("bounds_source", table, _SOURCES)
    _check_results(table)


def _check_finite(name: str, column: pa.ChunkedArray) -> None:
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise Damaged(f"column {name!r} has numbers that are not finite")


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_plain(kind: pa.DataType) -> bool:
    return kind in _KINDS or (pa.types.is_list(kind) and kind.value_type in _KINDS)


def _distinct(column: pa.ChunkedArray) -> pa.Array:
    """Return the texts of a column, or of its dictionaries: quicker, and no fewer."""
    if pa.types.is_dictionary(column.type):
        words = [chunk.dictionary for chunk in column.chunks]
        return pa.chunked_array(words, column.type.value_type).unique()
    return column.unique()


def _check_texts(name: str, column: pa.ChunkedArray) -> None:
    texts = _distinct(column).drop_null()
    if not pc.all(pc.utf8_is_printable(texts), min_count=0).as_py():
        raise Damaged(f"column {name!r} has texts with control characters")
    if pc.any(pc.greater(pc.utf8_length(texts), _LONGEST_TEXT)).as_py():
        raise Damaged(f"column {name!r} has texts of more than {_LONGEST_TEXT} characters")


def _check_words(name: str, table: pa.Table, allowed: tuple[str, ...]) -> None:
    if name in table.column_names:
        strange = set(_distinct(table[name]).drop_null().to_pylist()) - set(allowed)
        if strange:
            raise Damaged(f"column {name!r} has {sorted(strange)[0]!r}, not one of {allowed}")


def _check_results(table: pa.Table) -> None:
    """A finished run has returns, and the bounds between which they count."""
    done = pc.equal(table["status"].cast(pa.string()), "done")
    for name in ("returns", "greedy_returns"):
        if name not in table.column_names:
            continue
        lengths = pc.fill_null(pc.list_value_length(table[name]), 0)
        if not pc.all(pc.greater(lengths.filter(done), 0), min_count=0).as_py():
            raise Damaged(f"column {name!r}: a finished run has none")
        if pc.list_flatten(table[name]).null_count:
            raise Damaged(f"column {name!r} has empty places")
    if "return_min" in table.column_names:
        low = table["return_min"].filter(done)
        if low.null_count:
            raise Damaged("column 'return_min': a finished run has none")
        _check_finite("return_min", low)
    if {"return_min", "return_max"} <= set(table.column_names):
        both = pc.less(table["return_min"].filter(done), table["return_max"].filter(done))
        if not pc.all(both, min_count=0).as_py():
            raise Damaged("column 'return_max': it is not above return_min")
