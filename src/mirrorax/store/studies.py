"""The studies a store has run, expanded, so that `status` needs only the store."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax._version import ALGORITHM_VERSION, __version__
from mirrorax.runs import ids, parquet
from mirrorax.runs.parquet import Damaged
from mirrorax.spec.expand import Runs, expand
from mirrorax.spec.study import Study
from mirrorax.store import checks, files, names, shards

_COUNT = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True)
class Recorded:
    """A study as a store remembers it."""

    name: str
    study_id: str
    text: str
    lanes: int
    recorded_at: str
    algorithm_version: int
    settings: list[dict[str, Any]]  # of each configuration
    run_ids: pa.ChunkedArray
    configuration: np.ndarray


def record(root: Path, study: Study, runs: Runs, lanes: int, fault: files.Fault) -> bool:
    """Write the study down unless it is already the last one; return whether it was written."""
    last = latest_notes(root)
    used = sorted({text for settings in runs.configurations for text in settings.plugins})
    same = {
        "mirrorax.study": study.id,
        "mirrorax.lanes": str(lanes),
        "mirrorax.algorithm_version": str(ALGORITHM_VERSION),
    }
    if used:  # another version of a plugin makes other runs of the same text
        same["mirrorax.plugins"] = ", ".join(used)
    if last is not None and all(last[1].get(key) == value for key, value in same.items()):
        return False
    table = pa.table(
        {
            "run_id": ids.to_arrow(runs.ids),
            "configuration": pa.array(runs.configuration, pa.int32()),
        }
    )
    notes = {
        **same,
        "mirrorax.name": study.name,
        "mirrorax.text": study.text,
        "mirrorax.version": __version__,
        "mirrorax.recorded_at": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "mirrorax.settings": json.dumps([s.model_dump() for s in runs.configurations]),
    }
    data = parquet.encode(table.replace_schema_metadata(notes), compact=True)
    present = names.listed(root, "studies")
    number = names.sequence_in(present[-1]) + 1 if present else 1
    files.write(root, "studies", f"{number:08d}-{files.digest(data)}.parquet", data, fault)
    return True


def latest_notes(root: Path) -> tuple[str, dict[str, str]] | None:
    """Return the name and the notes of the study recorded last, without its runs."""
    for name in reversed(names.listed(root, "studies")):
        try:
            return name, _notes(shards.metadata(root, "studies", name), name)
        except (Damaged, FileNotFoundError):
            continue
    return None


def _notes(notes: dict[str, str], name: str) -> dict[str, str]:
    """Return the notes of a record, checked; raise `Damaged` if one is missing or strange."""
    for key in ("name", "study", "text", "recorded_at", "settings"):
        if f"mirrorax.{key}" not in notes:
            raise Damaged(f"{name}: it has no note of its {key}")
        if key not in ("text", "settings") and not notes[f"mirrorax.{key}"].isprintable():
            raise Damaged(f"{name}: the note of its {key} has control characters")
    for key in ("lanes", "algorithm_version"):
        if not _COUNT.fullmatch(notes.get(f"mirrorax.{key}", "")):
            raise Damaged(f"{name}: the note of its {key} is no number")
    return notes


def read(root: Path, name: str) -> Recorded:
    """Read the record of a study, checked; raise `Damaged` or `FileNotFoundError`."""
    data = shards.read_bytes(root, "studies", name)
    try:
        table = parquet.decode(data)
        checks.check_columns(table)
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None
    if table.column_names != ["run_id", "configuration"]:
        raise Damaged(f"{name}: its columns are not run_id and configuration")
    if table["configuration"].type != pa.int32() or table["configuration"].null_count:
        raise Damaged(f"{name}: column 'configuration' does not hold numbers")
    try:
        notes = _notes(shards.notes(table.schema.metadata), name)
        settings = json.loads(notes["mirrorax.settings"])
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{name}: its notes are not readable: {type(error).__name__}") from None
    if not isinstance(settings, list) or not all(map(_names_a_pair, settings)):
        raise Damaged(f"{name}: its settings are not those of runs")
    configuration = table["configuration"].to_numpy()
    if len(configuration) and not 0 <= configuration.min() <= configuration.max() < len(settings):
        raise Damaged(f"{name}: a run has a configuration that is not there")
    return Recorded(
        name=notes["mirrorax.name"],
        study_id=notes["mirrorax.study"],
        text=notes["mirrorax.text"],
        lanes=int(notes["mirrorax.lanes"]),
        recorded_at=notes["mirrorax.recorded_at"],
        algorithm_version=int(notes["mirrorax.algorithm_version"]),
        settings=settings,
        run_ids=table["run_id"],
        configuration=configuration,
    )


def _names_a_pair(settings: Any) -> bool:
    """Whether settings say what is shown of them."""
    if not isinstance(settings, dict):
        return False
    texts = [settings.get(name) for name in ("environment", "potential", "drift")]
    return all(isinstance(text, str) and text.isprintable() for text in texts)


def latest(root: Path) -> Recorded | None:
    """Return the study recorded last; damaged records are passed over."""
    for name in reversed(names.listed(root, "studies")):
        try:
            return read(root, name)
        except (Damaged, FileNotFoundError):
            continue
    return None


def runs_of(study: Study, root: Path | None) -> Runs:
    """Expand a study; its ids are taken from the store's record of it, if there is one.

    Hashing is most of the work of expanding half a million runs. A record counts only if it is of
    this very text and version; `expand` checks a sample of its ids besides.
    """
    notes = latest_notes(root) if root is not None else None
    if root is None or notes is None or notes[1].get("mirrorax.study") != study.id:
        return expand(study)
    last = latest(root)
    if last is None or last.study_id != study.id or last.algorithm_version != ALGORITHM_VERSION:
        return expand(study)
    return expand(study, ids.from_arrow(last.run_ids))
