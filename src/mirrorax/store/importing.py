"""Exported runs: read from Parquet files, and put back into a store.

An export is how results are published. Reading one back checks every page, and that each run's
identity is the hash of the settings beside it, so that a row whose settings were changed by hand is
found. A row of an older export has, for settings younger than itself, what was done before them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from mirrorax.errors import UserError
from mirrorax.runs import schema
from mirrorax.runs.identity import VERSION_FIELD, run_id
from mirrorax.runs.settings import FIELDS
from mirrorax.store import checks, names, reading, shards
from mirrorax.store.errors import Damaged
from mirrorax.store.store import Store

_NEEDED = ("run_id", "status", "returns", "greedy_returns", "return_min", "return_max")
_ROWS = 10_000  # of one shard


def read_results(place: str | os.PathLike[str], field: str) -> pa.Table:
    """Return the runs of a store, of an exported file, or of a folder of exported files.

    `field` is what a mistake is said to be in.
    """
    root = Path(os.fspath(place))
    is_store = root.is_dir() and names.check_mark(root)
    return reading.load(root) if is_store else read_exports(root, field)


def exports(place: str | os.PathLike[str], field: str = "from") -> list[Path]:
    """Return the Parquet files that a path names: itself, or those in the folder."""
    path = Path(os.fspath(place))
    if path.is_file():
        return [path]
    found = sorted(path.glob("*.parquet")) if path.is_dir() else []
    if not found:
        inside = sorted({str(file.parent) for file in path.glob("*/*.parquet")})
        hint = f"; there are some in {', '.join(inside)}" if inside else ""
        raise UserError(
            f"{field}: {str(path)!r}: neither a Parquet file nor a folder with some{hint}"
        )
    return found


def read_exports(place: str | os.PathLike[str], field: str = "from") -> pa.Table:
    """Return the runs of an exported file or of all in a folder, one row per run."""
    tables = [_read(path, field) for path in exports(place, field)]
    table = pa.concat_tables(tables)
    first: dict[str, int] = {}
    status = table["status"].to_pylist()
    for row, name in enumerate(table["run_id"].to_pylist()):
        if name not in first or (status[row] == "done" and status[first[name]] != "done"):
            first[name] = row
    return table.take(pa.array([first[name] for name in sorted(first)], pa.int64()))


def _read(path: Path, field: str) -> pa.Table:
    try:
        table = shards.decode(path.read_bytes())
    except OSError as error:
        raise UserError(f"{field}: {str(path)!r}: {error.strerror}") from None
    except Damaged as error:
        raise UserError(f"{field}: {str(path)!r}: {error}") from None
    again = {name for name in table.column_names if table.column_names.count(name) > 1}
    if again:
        raise UserError(f"{field}: {str(path)!r}: column {min(again)!r} is there twice")
    for name in _NEEDED:
        if name not in table.column_names:
            raise UserError(f"{field}: {str(path)!r} is not an export of runs: no column {name!r}")
    try:
        table = schema.in_order(table.replace_schema_metadata(None)).select(schema.runs().names)
    except (pa.ArrowException, ValueError) as error:
        raise UserError(f"{field}: {str(path)!r} is not an export of runs: {error}") from None
    try:
        checks.check("shards", table)
    except Damaged as error:
        raise UserError(f"{field}: {str(path)!r} is not an export of runs: {error}") from None
    _check_identities(table, path, field)
    return table


def _check_identities(table: pa.Table, path: Path, field: str) -> None:
    columns = (*FIELDS, VERSION_FIELD)
    written = table["run_id"].to_pylist()
    for row, spec in enumerate(table.select(columns).to_pylist()):
        if run_id(spec) != written[row]:
            raise UserError(
                f"{field}: {str(path)!r}: row {row + 1}: run_id {written[row]!r} is not that of "
                "the settings beside it"
            )


def import_runs(
    directory: str | os.PathLike[str], place: str | os.PathLike[str]
) -> tuple[int, int]:
    """Put exported runs into a store, which is made if need be; return how many were new, of all.

    Runs that the store has finished, and failed ones, are left as they are.
    """
    table = read_exports(place)
    with Store(directory) as store:
        have = reading.load(store.root)
        done = _finished(have)
        ids, status = table["run_id"].to_pylist(), table["status"].to_pylist()
        new = [row for row, name in enumerate(ids) if status[row] == "done" and name not in done]
        for start in range(0, len(new), _ROWS):
            store.commit(table.take(pa.array(new[start : start + _ROWS], pa.int64())))
    return len(new), len(ids)


def _finished(table: pa.Table) -> set[str]:
    pairs: Sequence[tuple[str, str]] = list(
        zip(table["run_id"].to_pylist(), table["status"].to_pylist(), strict=True)
    )
    return {name for name, status in pairs if status == "done"}
