"""The studies a store has run, expanded, so that `status` needs only the store.

A record is a table of run ids with their configurations. What is known of the study stands in its
head, see `Recorded`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.runs import arrow
from mirrorax.runs.arrow import Damaged
from mirrorax.spec.expand import Runs, expand
from mirrorax.spec.study import Study
from mirrorax.store import files, shards


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has control characters")
    return text


_Line = Annotated[str, AfterValidator(_line)]
_Count = Annotated[int, Field(ge=1, lt=10**9)]


class RecordedPair(BaseModel):
    """What is shown of the settings of a configuration."""

    environment: _Line
    potential: _Line
    drift: _Line


class Recorded(BaseModel):
    """A study as a store remembers it: the head of its record."""

    model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)

    name: _Line
    study: _Line  # the id of its text
    text: str
    lanes: _Count
    algorithm_version: _Count
    plugins: list[_Line]
    recorded_at: _Line
    #: of each configuration
    settings: list[RecordedPair]
    #: the name of the record's file
    file: str = ""


class RecordedRuns(Recorded):
    """The same, with its runs."""

    run_ids: pa.ChunkedArray
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
    last = latest_head(root)
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
    present = files.listed(root, "studies")
    number = files.sequence_in(present[-1]) + 1 if present else 1
    files.write(root, "studies", f"{number:08d}-{files.digest(data)}.parquet", data, fault)
    return True


def latest_head(root: Path) -> Recorded | None:
    """Return the study recorded last, without its runs; damaged records are passed over."""
    for name in reversed(files.listed(root, "studies")):
        try:
            return _checked(Recorded, name, shards.head(root, "studies", name))
        except (Damaged, FileNotFoundError):
            continue
    return None


def latest(root: Path) -> RecordedRuns | None:
    """Return the study recorded last, with its runs; damaged records are passed over."""
    for name in reversed(files.listed(root, "studies")):
        try:
            return read(root, name)
        except (Damaged, FileNotFoundError):
            continue
    return None


def read(root: Path, name: str) -> RecordedRuns:
    """Read the record of a study, checked; raise `Damaged` or `FileNotFoundError`."""
    data = shards.read_bytes(root, "studies", name)
    try:
        table = arrow.decode(data)
        shards.check_columns(table)
        head = arrow.read_head(table.schema.metadata)
        kinds = {"run_id": pa.string(), "configuration": pa.int32()}
        if dict(zip(table.column_names, table.schema.types, strict=True)) != kinds:
            raise Damaged("its columns are not run_id and configuration")
        if table["configuration"].null_count:
            raise Damaged("column 'configuration' has empty places")
        configuration = table["configuration"].to_numpy()
        runs = {"run_ids": table["run_id"], "configuration": configuration}
        recorded = _checked(RecordedRuns, name, {**head, **runs})
        count = len(recorded.settings)
        if len(configuration) and not 0 <= configuration.min() <= configuration.max() < count:
            raise Damaged("a run has a configuration that is not there")
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    return recorded


def _checked(model: type[Any], name: str, head: dict[str, Any]) -> Any:
    try:
        return model(**{**head, "file": name})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Damaged(f"its head: {where}: {first['msg']}") from None


def runs_of(study: Study, root: Path | None) -> Runs:
    """Expand a study; its ids are taken from the store's record of it, if there is one.

    Hashing is most of the work of expanding half a million runs. A record counts only if it is of
    this very text and version; `expand` checks a sample of its ids besides.
    """
    head = latest_head(root) if root is not None else None
    if root is None or head is None or head.study != study.id:
        return expand(study)
    last = latest(root)
    if last is None or last.study != study.id or last.algorithm_version != ALGORITHM_VERSION:
        return expand(study)
    return expand(study, arrow.read_ids(last.run_ids))
