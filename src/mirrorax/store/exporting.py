"""Results in and out of one file, into a store, and the one reader of results.

A Parquet export has one row per run, sorted by `run_id`, with a few plain columns that anybody can
read. It is complete besides: all settings and provenance stand in its metadata, once each, and
`read_results` gives back everything that the store holds of its runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from mirrorax.errors import UserError
from mirrorax.files import check_target, replacing
from mirrorax.runs import arrow, flat, results
from mirrorax.runs.arrow import Damaged
from mirrorax.runs.chunk import PROVENANCE, together
from mirrorax.runs.results import ROWS, Results
from mirrorax.spec.study import Study, expand
from mirrorax.store import files, reading
from mirrorax.store.store import Store


def load(place: str | os.PathLike[str], columns: Any = "tidy") -> pa.Table:
    """Return the runs of a store or of exports as an Arrow table, sorted by `run_id`.

    `columns` is "tidy" (few), "all", or a list of names; see `Results.table`. `.to_pandas()` or
    `polars.from_arrow` continue from here. Takes no lock and does not import jax.
    """
    return read_results(place).table(columns)


def load_curves(place: str | os.PathLike[str]) -> pa.Table:
    """Return the learning curves of runs: `run_id` and one column of lists per curve."""
    curves = read_results(place).curves()
    if curves is None:
        raise UserError(
            f"store: {os.fspath(place)} has no learning curves (a study asks with eval_every)"
        )
    return curves


def read_results(place: str | os.PathLike[str], field: str = "store") -> Results:
    """Return the runs of whatever holds results.

    That is a store, an exported file, a folder of exported files, the folder of `train --out`, or a
    folder of any of these. Errors name `field`. There is one row per run, sorted by `run_id`.
    """
    path = files.as_path(place, field)
    if path.is_dir() and files.check_mark(path, field):
        return reading.read_store(path)
    parts = [
        reading.read_store(part) if part.is_dir() else read_export(part, field)
        for part in _sources(path, field)
    ]
    if not parts:
        raise no_results(path, field)
    return results.concat(parts).unique()


def _sources(path: Path, field: str) -> Iterator[Path]:
    """Yield the stores and exported files that a path names: itself, or those below it."""
    if path.is_file() or (path.is_dir() and files.check_mark(path, field)):
        yield path
    elif path.is_dir():
        for part in sorted(path.iterdir()):
            if part.is_dir() and not part.is_symlink():
                yield from _sources(part, field)
        yield from sorted(path.glob("*.parquet"))


def no_results(path: Path, field: str = "store") -> UserError:
    """Return the error for a path that names no results."""
    if not path.exists():
        return UserError(f"{field}: {path} does not exist; 'mirrorax sweep run' makes a store")
    return UserError(
        f"{field}: {path} is not a store (it has no {files.MARK}), nor a Parquet file or a "
        "folder of some"
    )


def read_export(path: Path, field: str = "store") -> Results:
    """Read an exported file, checked; raise `UserError` if it is not one."""
    try:
        table = arrow.decode(path.read_bytes())
        if "wall_seconds" not in table.column_names:  # exported without provenance
            table = table.append_column("wall_seconds", pa.nulls(len(table), pa.float64()))
        runs = results.from_arrow(table)
        runs.check_ids()
        derived = set(flat.names(runs)).difference(_OWN)
        plain = [name for name in table.column_names if name in derived]
        for name, expected in zip(plain, runs.table(plain).columns, strict=True):
            if not table[name].cast(expected.type).equals(expected):
                raise Damaged(f"column {name!r} does not agree with the runs' settings")
    except OSError as error:
        raise UserError(f"{field}: {path}: {error.strerror}") from None
    except (Damaged, pa.ArrowException) as error:
        raise UserError(f"{field}: {path} is not an export of runs: {error}") from None
    return runs


#: Columns that do not follow from settings: those of the rows, and those that are computed from
#: all runs that are read together.
_OWN = (*ROWS.names, "score", "greedy_score")


def to_table(runs: Results, *, provenance: bool = True) -> pa.Table:
    """Return what an export in Parquet holds."""
    runs = runs.compact(provenance=provenance)
    tidy, full = runs.table(), results.to_arrow(runs)
    for name in full.column_names:
        if name not in tidy.column_names and (provenance or name != "wall_seconds"):
            tidy = tidy.append_column(name, full[name])
    return tidy.replace_schema_metadata(full.schema.metadata).combine_chunks()


def export(
    place: str | os.PathLike[str],
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
    inside = (target.parent.resolve() / target.name).is_relative_to
    if Path(place).is_dir() and inside(Path(place).resolve()):
        raise UserError(f"to: {str(target)!r} is inside the store; choose a place outside it")
    check_target("to", str(target), (".csv", ".parquet"))
    runs = read_results(place)
    if study is not None:
        versions = {each.algorithm_version for each in runs.configurations}
        ids = [expand(study, version).ids for version in versions]
        runs = runs.take(np.flatnonzero(np.isin(runs.ids, ids)))
    write(runs, target, provenance=provenance)
    return len(runs)


def write(runs: Results, target: Path, *, provenance: bool = True) -> None:
    """Write runs to a file; it appears whole or not at all."""
    try:
        with replacing(target) as file:
            if target.suffix.lower() == ".csv":
                pa.csv.write_csv(_flat(runs, provenance), file)
            else:
                file.write(arrow.encode(to_table(runs, provenance=provenance), compact=True))
    except OSError as error:
        raise files.explain(error, str(target)) from error


def _flat(runs: Results, provenance: bool) -> pa.Table:
    """Return every column, lists as JSON text: CSV has no lists."""
    table = runs.compact(provenance=provenance).table("all")
    if not provenance:
        table = table.drop_columns(["wall_seconds", *PROVENANCE])
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts: list[Any] = [
                None if value is None else json.dumps(value)
                for value in table.column(index).to_pylist()
            ]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table


# --- into a store ---------------------------------------------------------------------------------


def import_runs(
    directory: str | os.PathLike[str], place: str | os.PathLike[str]
) -> tuple[int, int]:
    """Put runs into a store, which is made if need be; return how many were new, of all.

    Runs that the store has finished, and failed ones, are left as they are.
    """
    runs = read_results(place, "from")
    with Store(directory) as store:
        stored = reading.Reader(store.root, ["diverged_at"]).results()
        new = runs.done & ~np.isin(runs.ids, stored.ids[stored.done])
        add(store, runs.take(np.flatnonzero(new)))
        if new.any():
            store.consolidate()
    return int(new.sum()), len(runs)


def add(store: Store, runs: Results) -> None:
    """Commit runs to a store, one shard per chunk."""
    for which in together(runs.origin):
        origin = runs.origins[runs.origin[which[0]]]
        table = arrow.with_head(runs.take(which).rows, origin.model_dump(mode="json"))
        store.commit(arrow.encode(table))
