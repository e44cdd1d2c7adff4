"""A table to the bytes of a Parquet file and back; a damaged page is never read as data."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorax.errors import plain


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
