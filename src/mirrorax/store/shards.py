"""A table to the bytes of a Parquet file and back, with nothing damaged passing unseen.

Two nets: page checksums inside the file, and the digest of the whole file in its name (page
checksums do not cover the footer).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorax.store import checks, files, names
from mirrorax.store.errors import Damaged

_THREADS = 4


def encode(
    table: pa.Table, metadata: Mapping[str, str] | None = None, *, compact: bool = False
) -> bytes:
    """Write a table as Parquet with page checksums. `compact` is for large tables."""
    if metadata is not None:
        table = table.replace_schema_metadata(dict(metadata))
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        write_page_checksum=True,
        write_statistics=False,
        use_dictionary=compact,
        compression="zstd" if compact else "snappy",
        row_group_size=1 << 20,
    )
    return sink.getvalue().to_pybytes()


def decode(
    data: bytes, columns: Sequence[str] | None = None, dictionaries: Sequence[str] | None = None
) -> pa.Table:
    """Read a table from Parquet, checking every page; raise `Damaged` where it cannot be."""
    try:
        file = pq.ParquetFile(
            pa.BufferReader(data),
            page_checksum_verification=True,
            read_dictionary=list(dictionaries) if dictionaries else None,
        )
        wanted = None
        if columns is not None:
            present = set(file.schema_arrow.names)  # a name that is there twice is read twice
            wanted = [name for name in columns if name in present]
        return file.read(columns=wanted, use_threads=len(data) > 1_000_000)
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"not readable as Parquet: {' '.join(str(error).split())}") from None


def check(data: bytes, name: str) -> None:
    """Raise `Damaged` unless the bytes are the ones that the file's name promises."""
    if files.digest(data) != names.digest_in(name):
        raise Damaged(f"{name}: the content does not have the digest in its name")


def damaged(root: Path, kind: str) -> dict[str, str]:
    """Return the files of a folder that are not what was written, with the reason.

    Every file is compared with the digest in its name, and none is decoded.
    """

    def wrong(name: str) -> str | None:
        try:
            check(names.read_bytes(names.inside(root, kind, name)), name)
        except FileNotFoundError:
            return None  # set aside meanwhile
        except (Damaged, names.UnsafeName) as error:
            return str(error)
        except OSError as error:
            return f"{name}: {error.strerror}"
        return None

    found = names.strange(root, kind)
    listed = names.listed(root, kind)
    with ThreadPoolExecutor(_THREADS) as pool:  # hashing runs outside of Python
        found |= {
            name: why for name, why in zip(listed, pool.map(wrong, listed), strict=True) if why
        }
    return found


def read(
    root: Path,
    kind: str,
    name: str,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] | None = None,
) -> pa.Table:
    """Read one file of the store, checked; raise `Damaged` or `FileNotFoundError`."""
    data = names.read_bytes(names.inside(root, kind, name))
    check(data, name)
    # A shard is small and is checked whole; of a copy, which is large, what is asked for.
    whole = kind == "shards"
    try:
        table = decode(data, None if whole else columns, dictionaries)
        checks.check(kind, table)
        if whole and columns is not None:
            table = table.select([name for name in columns if name in table.column_names])
        return table
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None


def metadata(root: Path, kind: str, name: str) -> dict[str, str]:
    """Read only a file's own notes (not verified by the digest: for choosing what to read)."""
    path = names.inside(root, kind, name)
    try:
        found: Any = pq.read_schema(path).metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise Damaged(f"{name}: {error}") from None
