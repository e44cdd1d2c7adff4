"""A store as one file: CSV or Parquet, one row per run, sorted by `run_id`."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mirrorax.errors import UserError
from mirrorax.runs import schema
from mirrorax.spec.expand import expand
from mirrorax.spec.study import Study
from mirrorax.store import files, names, reading


def export(
    directory: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    provenance: bool = True,
    study: Study | None = None,
) -> int:
    """Write a store, or the runs of one study in it, to `to` (.csv or .parquet); return how many.

    Without provenance (times, versions, device, lanes, host) two stores of the same runs, however
    often they were interrupted, give the same bytes. In CSV a list is written as JSON.
    """
    target = Path(os.fspath(to))
    if target.suffix not in (".csv", ".parquet"):
        raise UserError(f"to: {str(target)!r}: expected a name that ends in .csv or .parquet")
    if not target.parent.is_dir():
        raise UserError(f"to: {str(target.parent)!r}: no such folder")
    if target.is_dir():
        raise UserError(f"to: {str(target)!r} is a folder; expected a file")
    names.check_outside(names.existing(directory), target, "to")
    table = reading.load(directory)
    if study is not None:
        wanted = pa.array(expand(study).ids.astype(str))
        table = table.filter(pc.is_in(table["run_id"], value_set=wanted))
    if not provenance:
        table = table.drop_columns(list(schema.PROVENANCE_NAMES))
    table = table.combine_chunks()
    temp = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        if target.suffix == ".csv":
            pa.csv.write_csv(_flat(table), temp)
        else:
            pq.write_table(table, temp, write_page_checksum=True, compression="zstd")
        os.replace(temp, target)
    except OSError as error:
        raise files.explain(error, str(target)) from error
    finally:
        with contextlib.suppress(OSError):
            temp.unlink()
    return len(table)


def _flat(table: pa.Table) -> pa.Table:
    """Return the table with every list column as JSON text: CSV has no lists."""
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts: list[Any] = [
                None if value is None else json.dumps(value)
                for value in table.column(index).to_pylist()
            ]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table
