"""Runs from elsewhere, put into a store: another store, exports, results of format 1."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from mirrorax.runs import parquet, results
from mirrorax.runs.results import Results
from mirrorax.store import exporting, legacy, names, reading
from mirrorax.store.store import Store


def import_runs(
    directory: str | os.PathLike[str], place: str | os.PathLike[str]
) -> tuple[int, int]:
    """Put runs into a store, which is made if need be; return how many were new, of all.

    Runs that the store has finished, and failed ones, are left as they are.
    """
    runs = read_any(place)
    with Store(directory) as store:
        reader = reading.Reader(store.root, ["diverged_at"])
        reader.refresh()
        stored = reader.results()
        new = runs.done & ~np.isin(runs.ids, stored.ids[stored.done])
        add(store, runs.take(np.flatnonzero(new)))
        if new.any():
            store.consolidate(everything=True)
    return int(new.sum()), len(runs)


def add(store: Store, runs: Results) -> None:
    """Commit runs to a store, one shard per chunk."""
    order = np.argsort(runs.origin, kind="stable")
    starts = np.unique(runs.origin[order], return_index=True)[1]
    for which in np.split(order, starts[1:]) if len(order) else ():
        store.commit(parquet.encode(results.to_outcome(runs, which)))


def read_any(place: str | os.PathLike[str], field: str = "from") -> Results:
    """Return the runs of a store or of exports, of this format or of format 1."""
    path = Path(os.fspath(place))
    if legacy.is_store(path):
        return legacy.read_store(path)
    files = exporting.exports(path, field) if not names.check_mark(path) else []
    if not any(map(legacy.is_export, files)):
        return exporting.read_results(place, field)
    parts = [
        legacy.read_export(file, field)
        if legacy.is_export(file)
        else exporting.read_export(file, field)
        for file in files
    ]
    return results.concat(parts).unique(ordered=True)
