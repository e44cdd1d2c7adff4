"""The studies a store has run, expanded, so that `status` needs only the store.

A record is a table of run ids with their configurations. What is known of the study stands in its
head, see `RecordedRuns`.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import Damaged, Line
from mirrorax.runs.settings import one_line
from mirrorax.spec.study import Runs, Study, expand
from mirrorax.store import files

_Count = Annotated[int, Field(ge=1, lt=10**9)]


class RecordedPair(BaseModel):
    """What is shown of the settings of a configuration."""

    environment: Line
    potential: Line
    drift: Line


class RecordedRuns(BaseModel):
    """A study as a store remembers it, with its runs."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    name: Line
    study: Line  # the id of its text
    text: str
    lanes: _Count
    algorithm_version: _Count
    plugins: list[Line]
    recorded_at: Line
    #: of each configuration
    settings: list[RecordedPair]
    run_ids: pa.ChunkedArray
    #: of each run, its place in `settings`
    configuration: np.ndarray


def record(root: Path, study: Study, runs: Runs, lanes: int, fault: files.Fault) -> bool:
    """Write the study down unless it is already the last one; return whether it was written."""
    same = {
        "study": study.id,
        "lanes": lanes,
        "algorithm_version": ALGORITHM_VERSION,
        # Another version of a plugin makes other runs of the same text.
        "plugins": sorted({text for settings in runs.configurations for text in settings.plugins}),
    }
    last = latest(root)
    if last is not None and all(getattr(last, key) == value for key, value in same.items()):
        return False
    head = {
        **same,
        "name": study.name,
        "text": study.text,
        "recorded_at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "settings": [settings.model_dump(mode="json") for settings in runs.configurations],
    }
    columns = {
        "run_id": arrow.id_column(runs.ids),
        "configuration": pa.array(runs.configuration, pa.int32()),
    }
    data = arrow.encode(arrow.with_head(pa.table(columns), head), compact=True)
    number = max(map(files.sequence_in, files.listed(root, "studies")), default=0) + 1
    files.write(root, "studies", f"{number:08d}-{files.digest(data)}.parquet", data, fault)
    return True


def latest(root: Path) -> RecordedRuns | None:
    """Return the study recorded last; damaged records are passed over."""
    for name in reversed(files.listed(root, "studies")):
        try:
            return _read_once(root, name)
        except (Damaged, FileNotFoundError):
            continue
    return None


def read(root: Path, name: str) -> RecordedRuns:
    """Read the record of a study, checked; raise `Damaged` or `FileNotFoundError`."""
    data = files.read_verified(root, "studies", name)
    try:
        table = arrow.decode(data)
        results.check_columns(table)
        kinds = {"run_id": pa.string(), "configuration": pa.int32()}
        if dict(zip(table.column_names, table.schema.types, strict=True)) != kinds:
            raise Damaged("its columns are not run_id and configuration")
        number = table["configuration"]
        configuration = np.full(1, -1) if number.null_count else number.to_numpy()
        runs = {"run_ids": table["run_id"], "configuration": configuration}
        recorded = RecordedRuns(**{**arrow.read_head(table.schema.metadata), **runs})
        count = len(recorded.settings)
        if len(configuration) and not 0 <= configuration.min() <= configuration.max() < count:
            raise Damaged("a run has a configuration that is not there")
    except ValidationError as error:
        raise Damaged(f"{name}: its head: {one_line(error)}") from None
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    return recorded


_read_once = lru_cache(maxsize=2)(read)  # a record never changes


def runs_of(study: Study, root: Path | None) -> Runs:
    """Expand a study; its ids are taken from the store's record of it, if there is one.

    Hashing is most of the work of expanding half a million runs. A record counts only if it is of
    this very text and version; `expand` checks a sample of its ids besides.
    """
    last = latest(root) if root is not None else None
    if last is None or (last.study, last.algorithm_version) != (study.id, ALGORITHM_VERSION):
        return expand(study)
    return expand(study, arrow.read_ids(last.run_ids))
