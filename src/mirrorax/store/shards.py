"""Files of the store, read and checked: nothing damaged passes unseen.

Two checks: page checksums inside the file, and the digest of the whole file in its name (page
checksums do not cover the footer).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorax.runs import parquet, results
from mirrorax.runs.parquet import Damaged
from mirrorax.runs.results import Results
from mirrorax.store import checks, files, names

_THREADS = 4
_Item = TypeVar("_Item")
_Value = TypeVar("_Value")


def parallel(function: Callable[[_Item], _Value], items: Sequence[_Item]) -> list[_Value]:
    """Apply a function to items in threads: hashing and decoding run outside of Python."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(function, items))


def outcome(data: bytes) -> Results:
    """Return the runs of an outcome's bytes, checked; raise `Damaged` if it is ill-formed."""
    table = parquet.decode(data)
    checks.check_columns(table)
    runs = results.from_outcome(table)
    checks.check_rows(runs)
    return runs


def read_bytes(root: Path, kind: str, name: str) -> bytes:
    """Return the content of a file; raise `Damaged` unless it has the digest in its name."""
    data = names.read_bytes(names.inside(root, kind, name))
    if files.digest(data) != names.digest_in(name):
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
        except (Damaged, names.UnsafeName) as error:
            return str(error)
        except OSError as error:
            return f"{name}: {error.strerror}"
        return None

    listed = names.listed(root, "shards")
    reasons = zip(listed, parallel(wrong, listed), strict=True)
    return names.strange(root, "shards") | {name: why for name, why in reasons if why}


def metadata(root: Path, kind: str, name: str) -> dict[str, str]:
    """Read only a file's own notes (not verified by the digest: for choosing what to read)."""
    path = names.inside(root, kind, name)
    try:
        return notes(pq.read_metadata(path).metadata)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise Damaged(f"{name}: {error}") from None


def notes(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the notes in a file's metadata as text."""
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}
