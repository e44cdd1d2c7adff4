"""The form of runs outside Python: Arrow tables with a head, as the bytes of Parquet.

A *head* is a JSON object in a table's metadata: what all rows of the table share. Whatever is read
here is checked; a damaged page is never read as data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int
from pydantic import ConfigDict, ValidationError, create_model

from mirrorax.errors import UserError, plain, shown
from mirrorax.runs.presets import LATER
from mirrorax.runs.settings import Settings, one_line

#: Lists as a matrix, padded with NaN, and the length of each.
Lists = tuple[Float[np.ndarray, "runs entries"], Int[np.ndarray, " runs"]]
#: The key of the head in a table's metadata.
HEAD = b"mirrorax"
FORMAT = 2
#: Learning curves are columns of lists, with this before their names.
CURVE = "curve."


class Damaged(Exception):
    """Bytes that are not what was written, or not what they should be; one line says why."""

    def __init__(self, text: object = "") -> None:
        super().__init__(plain(text))


def encode(table: pa.Table, *, compact: bool = False) -> bytes:
    """Write a table as Parquet with page checksums. `compact` is for large tables."""
    sink = pa.BufferOutputStream()
    metadata = table.schema.metadata or {}
    table = table.replace_schema_metadata(None)
    with pq.ParquetWriter(
        sink,
        table.schema,
        write_page_checksum=True,
        write_statistics=False,
        use_dictionary=compact,
        compression="zstd" if compact else "snappy",
    ) as writer:
        writer.write_table(table, row_group_size=1 << 20)
        writer.add_key_value_metadata(metadata)  # once: in the schema it would be written twice
    return sink.getvalue().to_pybytes()


def decode(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a table from Parquet, check every page; raise `Damaged` if it cannot be read."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        wanted = None
        if columns is not None:
            present = set(file.schema_arrow.names)  # a name that occurs twice is read twice
            wanted = [name for name in columns if name in present]
        return file.read(columns=wanted, use_threads=len(data) > 1_000_000)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"not readable as Parquet: {' '.join(str(error).split())}") from None


# --- columns --------------------------------------------------------------------------------------

#: Run ids go between numpy and Arrow without a Python object for each: half a million of them.
WIDTH = 32


def id_column(ids: np.ndarray) -> pa.StringArray:
    """Return an array of 32-byte strings as Arrow text."""
    data = np.ascontiguousarray(ids, dtype=f"S{WIDTH}")
    offsets = np.arange(len(data) + 1, dtype=np.int32) * WIDTH
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(offsets), pa.py_buffer(data))


def read_ids(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return Arrow text, all of it 32 digits long, as an array of 32-byte strings."""
    parts = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk) == 0:
            continue
        widths = pc.min_max(pc.binary_length(chunk)).as_py()
        if chunk.null_count or widths != {"min": WIDTH, "max": WIDTH}:
            raise ValueError("a run id has 32 digits")
        first = chunk.offset
        offsets = np.frombuffer(chunk.buffers()[1], np.int32, len(chunk) + 1, first * 4)
        data = np.frombuffer(chunk.buffers()[2], f"S{WIDTH}", len(chunk), int(offsets[0]))
        parts.append(data)
    return np.concatenate(parts) if parts else np.array([], dtype=f"S{WIDTH}")


def list_column(rows: Float[np.ndarray, "runs entries"]) -> pa.ListArray:
    """Return the rows of a matrix as a column of lists."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    flat = np.ascontiguousarray(rows, dtype=np.float64).reshape(-1)
    return pa.ListArray.from_arrays(offsets, flat)


def read_lists(column: pa.ChunkedArray) -> Lists:
    """Return a column of lists as a matrix, padded with NaN, and the length of each list."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    lengths = np.asarray(
        pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False), dtype=np.int64
    )
    flat = np.asarray(array.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    width = max(1, int(lengths.max(initial=0)))
    if np.all(lengths == width):
        return flat.reshape(len(lengths), width), lengths
    out = np.full((len(lengths), width), np.nan)
    out[np.arange(width) < lengths[:, None]] = flat
    return out, lengths


# --- heads ----------------------------------------------------------------------------------------

_LONGEST_TEXT = 2_000
_LONGEST_FAILURE = 100_000
_MOST_ENTRIES = 100  # of a chunk's provenance


class Configuration(NamedTuple):
    """What all runs of a chunk share: the settings, and the version of the algorithm."""

    settings: Settings
    algorithm_version: int


class Origin(NamedTuple):
    """Where a chunk's results come from, and what its returns count as."""

    provenance: Mapping[str, Any]
    bounds: tuple[float, float | None] | None
    failure: str | None


def with_head(table: pa.Table, head: Mapping[str, Any]) -> pa.Table:
    """Return the table with a head in place of all other metadata."""
    text = json.dumps({"format": FORMAT, **head}, sort_keys=True, allow_nan=False)
    return table.replace_schema_metadata({HEAD: text.encode()})


def read_head(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return the head in a table's metadata; raise `Damaged` if this version cannot read it."""
    try:
        head = json.loads((metadata or {})[HEAD])
    except (KeyError, ValueError, RecursionError):
        raise Damaged("it has no head with the settings of its runs") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise Damaged(f"its head is not of format {FORMAT}")
    return head


def read_configuration(head: Mapping[str, Any]) -> Configuration:
    """Return settings and version, checked; raise `Damaged` if they are ill-formed."""
    version = head.get("algorithm_version")
    if type(version) is not int or not 0 < version < 1_000_000:
        raise Damaged("its head has no version of the algorithm")
    try:
        text = json.dumps(head.get("settings"), sort_keys=True)
    except RecursionError:
        raise Damaged("its settings are nested too deeply") from None
    return Configuration(_settings(text), version)


@lru_cache(maxsize=4096)
def _settings(text: str) -> Settings:
    """Return settings from their JSON text: each text is checked once."""
    try:
        return stored_settings(json.loads(text))
    except UserError as error:
        raise Damaged(f"its settings: {error}") from None


def read_origin(head: Mapping[str, Any]) -> Origin:
    """Return where results come from, checked; raise `Damaged` if it is ill-formed."""
    failure, provenance = head.get("failure"), head.get("provenance")
    if failure is not None and not (isinstance(failure, str) and len(failure) < _LONGEST_FAILURE):
        raise Damaged("failure: expected a text")
    if not isinstance(provenance, dict) or len(provenance) > _MOST_ENTRIES:
        raise Damaged("provenance: expected a table")
    for name, value in provenance.items():
        if not (_is_line(name) and (value is None or _is_number(value) or _is_line(value))):
            raise Damaged(f"{name}: expected a number or a line of text")
    bounds = _bounds(head.get("bounds"))
    if bounds is None and failure is None:
        raise Damaged("bounds: a finished run has some")
    return Origin(provenance, bounds, failure)


def _bounds(value: Any) -> tuple[float, float | None] | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and _is_number(value[0]):
        low, high = value
        if high is None:
            return float(low), None
        if _is_number(high) and low < high:
            return float(low), float(high)
    raise Damaged(f"bounds: {shown(value)}: expected two finite numbers in ascending order")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e308 and math.isfinite(value)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_TEXT


#: the fields of `Settings` with their types and limits, without the checks of their names
_stored_fields: dict[str, Any] = {
    name: (Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation, ...)
    for name, info in Settings.model_fields.items()
}
_Stored: Any = create_model(
    "StoredSettings", __config__=ConfigDict(extra="forbid"), **_stored_fields
)


def stored_settings(fields: Any) -> Settings:
    """Return settings that were written with results; raise `UserError` if they are ill-formed.

    A name need not be known here: results of a plugin can be read without the plugin. Fields that
    are younger than the results get the value that means what was done before.
    """
    if not isinstance(fields, Mapping):
        raise UserError(f"settings: {shown(fields)}: expected a table")
    try:
        checked = _Stored(**{**LATER, **fields})
    except ValidationError as error:
        raise one_line(error) from None
    values = {name: getattr(checked, name) for name in Settings.model_fields}
    for name, value in values.items():
        texts = value if isinstance(value, tuple) else (value,)
        for text in texts:
            if isinstance(text, str) and not (text.isprintable() and len(text) <= 2000):
                raise UserError(f"{name}: {shown(text)}: expected a line of text")
    return Settings.model_construct(**values)
