"""`sweep import`: runs from another store, from exports, or from results of format 1.

In format 1 every row repeats all settings, and curves stand apart. Such runs are read once,
verified (the id of each is the hash of its settings), and become `Results`.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.errors import UserError
from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import CURVE, HEAD, Damaged
from mirrorax.runs.results import Results
from mirrorax.store import exporting, files, reading
from mirrorax.store.files import DamagedShardWarning
from mirrorax.store.store import Store

_NEEDED = {"run_id", "status", "returns", "greedy_returns", "return_min", "return_max"}


def read_store(root: Path) -> Results:
    """Return every run of a store of format 1, one row per run; damaged shards are left out."""
    curves = {files.sequence_in(name): name for name in files.listed(root, "curves")}
    parts = []
    for name in files.listed(root, "shards"):
        try:
            runs = read_rows(arrow.decode(files.read_verified(root, "shards", name)))
            if beside := curves.get(files.sequence_in(name)):
                runs = _with_curves(runs, files.read_verified(root, "curves", beside))
            parts.append(runs)
        except (Damaged, UserError) as error:
            text = f"{root}: shard left out: {name}: {error}"
            warnings.warn(text, DamagedShardWarning, stacklevel=2)
    return results.concat(parts).unique(ordered=True)


def read_file(path: Path, field: str) -> Results:
    """Return the runs of an exported file, also of format 1: flat, without a head."""
    try:
        table = arrow.decode(path.read_bytes())
        flat = HEAD not in (table.schema.metadata or {}) and set(table.column_names) >= _NEEDED
        return read_rows(table) if flat else exporting.read_export(path, field)
    except OSError as error:
        raise UserError(f"{field}: {path}: {error.strerror}") from None
    except Damaged as error:
        raise UserError(f"{field}: {path} is not an export of runs: {error}") from None


def read_rows(table: pa.Table) -> Results:
    """Return the runs of a flat table, checked."""
    results.check_columns(table)
    runs = Results.from_table(table.replace_schema_metadata(None))
    runs.check_ids()
    return runs


def _with_curves(runs: Results, data: bytes) -> Results:
    """Put the curves of a second file beside the runs they are of."""
    curves = arrow.decode(data)
    names = [CURVE * (name != "run_id") + name for name in curves.column_names]
    curves = curves.rename_columns(names)
    results.check_columns(curves)
    at = pc.index_in(runs.rows["run_id"], value_set=curves["run_id"].combine_chunks())
    rows = runs.rows
    for name in names:
        if name != "run_id":
            rows = rows.append_column(name, curves[name].take(at))
    return replace(runs, rows=rows)


def import_runs(
    directory: str | os.PathLike[str], place: str | os.PathLike[str]
) -> tuple[int, int]:
    """Put runs into a store, which is made if need be; return how many were new, of all.

    Runs that the store has finished, and failed ones, are left as they are.
    """
    runs = read_any(place)
    with Store(directory) as store:
        stored = reading.Reader(store.root, ["diverged_at"]).results()
        new = runs.done & ~np.isin(runs.ids, stored.ids[stored.done])
        add(store, runs.take(np.flatnonzero(new)))
        if new.any():
            store.consolidate()
    return int(new.sum()), len(runs)


def add(store: Store, runs: Results) -> None:
    """Commit runs to a store, one shard per chunk."""
    order = np.argsort(runs.origin, kind="stable")
    starts = np.unique(runs.origin[order], return_index=True)[1]
    for which in np.split(order, starts[1:]) if len(order) else ():
        store.commit(arrow.encode(results.to_outcome(runs, which)))


def read_any(place: str | os.PathLike[str], field: str = "from") -> Results:
    """Return the runs of a store or of exports, of this format or of format 1."""
    path = files.as_path(place, field)
    if path.is_dir() and files.read_format(path) == 1:
        return read_store(path)
    if files.check_mark(path) or exporting.folders_inside(path):
        return exporting.read_results(path, field)
    parts = [read_file(file, field) for file in exporting.exports(path, field)]
    return results.concat(parts).unique(ordered=True)
