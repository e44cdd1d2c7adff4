"""The columns of a store: one row per run.

Identity, every setting and every traced value in its own plain column, the returns, what became of
the run, and provenance. The columns follow the fields of `mirrorax.runs.settings`, so that a new
setting is a new column, which `in_order` fills for shards written before it.
"""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.runs.settings import LATER, RunValues, Settings

RUN_ID = pa.field("run_id", pa.string(), nullable=False)

RESULTS = (
    pa.field("status", pa.string(), nullable=False),  # "done" or "failed"
    pa.field("failure", pa.string()),  # why, and the tail of the worker's log
    pa.field("returns", pa.list_(pa.float64())),
    pa.field("greedy_returns", pa.list_(pa.float64())),
    pa.field("diverged", pa.bool_()),
    pa.field("diverged_at", pa.int64()),  # the update at which it was seen; null if never
    pa.field("return_min", pa.float64()),  # the returns that count as 0 and 1, rewards scaled
    pa.field("return_max", pa.float64()),  # null where estimated: it is the best return seen
    pa.field("bounds_source", pa.string()),  # KNOWN or ESTIMATED; null in old shards: known
)

#: Where the returns that count as 0 and 1 come from: they are known beforehand, or the first is a
#: random policy's mean return and the second the best mean return among the runs that are read.
KNOWN, ESTIMATED = "known", "estimated"

#: Not part of what a run is: how long it took, where, and with what.
PROVENANCE = (
    pa.field("wall_seconds", pa.float64()),  # the run's share of its chunk's time
    pa.field("finished_at", pa.string()),
    pa.field("mirrorax_version", pa.string()),
    pa.field("commit", pa.string()),
    pa.field("dirty", pa.bool_()),
    pa.field("jax_version", pa.string()),
    pa.field("gymnax_version", pa.string()),
    pa.field("gymnasium_version", pa.string()),  # null where Gymnasium did not step the run
    pa.field("numpy_version", pa.string()),
    pa.field("device", pa.string()),
    pa.field("lanes", pa.int64()),
    pa.field("host", pa.string()),  # a hash of the host's name
)
PROVENANCE_NAMES = tuple(field.name for field in PROVENANCE)


def arrow_type(annotation: Any) -> pa.DataType:
    """Return the column type of a field with this annotation."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return arrow_type(typing.get_args(annotation)[0])
    if origin is Literal:
        return arrow_type(type(typing.get_args(annotation)[0]))
    if origin in (typing.Union, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(annotation) if arg is not type(None))
        return arrow_type(inner)
    if origin in (tuple, list):
        return pa.list_(arrow_type(typing.get_args(annotation)[0]))
    return {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}[annotation]


@cache
def runs() -> pa.Schema:
    """Return the schema of a shard of runs."""
    settings = [
        pa.field(name, arrow_type(info.annotation)) for name, info in Settings.model_fields.items()
    ]
    values = [
        pa.field(name, arrow_type(info.annotation)) for name, info in RunValues.model_fields.items()
    ]
    version = pa.field("algorithm_version", pa.int64())
    return pa.schema([RUN_ID, *settings, *values, version, *RESULTS, *PROVENANCE])


def absent(name: str, count: int) -> pa.Array:
    """Return what a column holds for runs that were written before there was such a column."""
    kind = runs().field(name).type
    if name not in LATER:
        return pa.nulls(count, kind)
    value = LATER[name]
    return pa.array([list(value) if isinstance(value, tuple) else value] * count, kind)


def in_order(table: pa.Table) -> pa.Table:
    """Return the table with the known columns first, in the schema's order, absent ones null.

    A setting that is younger than a shard has, for its runs, the value that means what was done
    before there was such a setting.
    """
    schema = runs()
    gaps = any(table[name].null_count for name in LATER if name in table.column_names)
    if table.schema.names == schema.names and not gaps:
        return table
    columns = {}
    for field in schema:
        if field.name in table.column_names:
            columns[field.name] = table[field.name].cast(field.type)
        else:
            columns[field.name] = absent(field.name, len(table))
    for name in LATER:
        if columns[name].null_count:
            fill = absent(name, len(table))
            columns[name] = pc.if_else(pc.is_null(columns[name]), fill, columns[name])
    extra = {name: table[name] for name in table.column_names if name not in columns}
    return pa.table({**columns, **extra})
