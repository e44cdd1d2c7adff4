"""The form of runs outside Python: Arrow tables with a head, as the bytes of Parquet.

A *head* is a JSON object in a table's metadata: what all rows of the table share. Whatever is read
here is checked; a damaged page is never read as data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Int
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

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
    data = pa.py_buffer(np.ascontiguousarray(ids, dtype=f"S{WIDTH}"))
    return pa.Array.from_buffers(pa.binary(WIDTH), len(ids), [None, data]).cast(pa.string())


def read_ids(column: pa.ChunkedArray) -> np.ndarray:
    """Return Arrow text, all of it 32 digits long, as an array of 32-byte strings."""
    try:
        fixed = column.cast(pa.binary()).cast(pa.binary(WIDTH)).combine_chunks()
    except pa.ArrowInvalid:
        fixed = None
    if fixed is None or fixed.null_count:
        raise ValueError("a run id has 32 digits")
    return np.frombuffer(fixed.buffers()[1] or b"", f"S{WIDTH}", len(fixed), fixed.offset * WIDTH)


def list_column(rows: Float[np.ndarray, "runs entries"]) -> pa.ListArray:
    """Return the rows of a matrix as a column of lists."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    flat = np.ascontiguousarray(rows, dtype=np.float64).reshape(-1)
    return pa.ListArray.from_arrays(offsets, flat)


def read_lists(column: pa.ChunkedArray) -> Lists:
    """Return a column of lists as a matrix, padded with NaN, and the length of each list."""
    array = column.combine_chunks()
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


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has control characters")
    return text


#: The longest text of a name or a line of provenance.
LONGEST = 2_000
#: A line of text that can be shown.
Line = Annotated[str, Field(max_length=LONGEST), AfterValidator(_line)]
_Number = Annotated[float, Field(gt=-1e308, lt=1e308, allow_inf_nan=False)]
_entry: Any = TypeAdapter(Line | bool | int | _Number | None, config=ConfigDict(strict=True))
#: A line, a number, a truth value or nothing.
_Entry = Annotated[Any, AfterValidator(_entry.validate_python)]

_TEXTS: dict[Any, Any] = {str: Line, tuple[str, ...]: tuple[Line, ...]}
#: the fields of `Settings` with their types and limits, without the checks of their names
_stored_fields: dict[str, Any] = {
    name: (Annotated[_TEXTS.get(info.annotation, info.annotation), *(info.metadata or [None])], ...)
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
    if isinstance(fields, Settings):
        return fields
    if not isinstance(fields, Mapping):
        raise UserError(f"settings: {shown(fields)}: expected a table")
    return _stored(json.dumps({**LATER, **fields}))


@lru_cache(maxsize=4096)
def _stored(text: str) -> Settings:
    """Return settings from their JSON text: each text is checked once."""
    try:
        checked = _Stored.model_validate_json(text)
    except ValidationError as error:
        raise one_line(error) from None
    return Settings.model_construct(**dict(checked))


class Configuration(NamedTuple):
    """What decides a run besides its values: the settings, and the version of the algorithm."""

    settings: Settings
    algorithm_version: int


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Origin(BaseModel):
    """What the runs of a chunk share: settings, what their returns count as, where they are from.

    See `Outcome` for the fields.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    settings: Annotated[Settings, SkipValidation, BeforeValidator(stored_settings)]
    algorithm_version: Annotated[int, Field(ge=1, lt=1_000_000)]
    bounds: Annotated[tuple[_Number, _Number | None] | None, BeforeValidator(_as_tuple)]
    failure: Annotated[str, Field(max_length=100_000)] | None = None
    provenance: Annotated[dict[Line, _Entry], Field(max_length=100)]

    @model_validator(mode="after")
    def _consistent(self) -> Origin:
        if self.bounds is None and self.failure is None:
            raise ValueError("bounds: a finished run has some")
        if self.bounds and self.bounds[1] is not None and not self.bounds[0] < self.bounds[1]:
            raise ValueError(f"bounds: {self.bounds}: expected two numbers in ascending order")
        return self

    @property
    def configuration(self) -> Configuration:
        """What decides its runs besides their values."""
        return Configuration(self.settings, self.algorithm_version)


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


def read_origins(head: Mapping[str, Any]) -> tuple[Origin, ...]:
    """Return the chunks that a head describes; raise `Damaged` if it is ill-formed.

    The head of an outcome describes its chunk. That of many outcomes lists `configurations`, each
    once, and `origins`, which name the places of their configurations.
    """
    try:
        if "origins" not in head:
            return (Origin(**head),)
        listed = enumerate(head["configurations"])
        known = {k: {**c, "settings": stored_settings(c["settings"])} for k, c in listed}
        return tuple(Origin(**{**known[o["configuration"]], **o}) for o in head["origins"])
    except ValidationError as error:
        raise Damaged(f"its head: {one_line(error)}") from None
    except UserError as error:
        raise Damaged(f"its settings: {error}") from None
    except (KeyError, TypeError, RecursionError):
        raise Damaged("its head does not list configurations and chunks") from None
