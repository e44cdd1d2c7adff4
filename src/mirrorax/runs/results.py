"""Many outcomes together: what a store, an export or a finished training holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from jaxtyping import Int

from mirrorax.runs.chunk import head_settings, read_head
from mirrorax.runs.settings import Settings


class Configuration(NamedTuple):
    """What all runs of a chunk share: the settings, and the version of the algorithm."""

    settings: Settings
    algorithm_version: int


class Origin(NamedTuple):
    """Where a chunk's results come from, and what its returns count as."""

    provenance: Mapping[str, Any]
    bounds: tuple[float, float | None] | None
    failure: str | None


@dataclass(frozen=True, eq=False)
class Results:
    """Runs of any number of chunks. Settings and provenance stand once each, beside the rows."""

    configurations: tuple[Configuration, ...]
    origins: tuple[Origin, ...]
    #: one row per run, with the columns of an `Outcome`
    rows: pa.Table
    #: of each row, its place in `configurations` and in `origins`
    configuration: Int[np.ndarray, " runs"]
    origin: Int[np.ndarray, " runs"]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: Int[np.ndarray, " some"]) -> Results:
        """Return some of the runs, in the order given."""
        return Results(
            self.configurations,
            self.origins,
            self.rows.take(pa.array(which)),
            self.configuration[which],
            self.origin[which],
        )


def from_outcome(table: pa.Table) -> Results:
    """Return the runs of one outcome; raise `Damaged` or `UserError` if it is ill-formed."""
    head = read_head(table)
    bounds = head["bounds"]
    configuration = Configuration(head_settings(head), int(head["algorithm_version"]))
    origin = Origin(head["provenance"], None if bounds is None else tuple(bounds), head["failure"])
    zeros = np.zeros(len(table), np.int32)
    return Results((configuration,), (origin,), table.replace_schema_metadata(None), zeros, zeros)


def concat(parts: Iterable[Results]) -> Results:
    """Put results together; equal configurations become one."""
    parts = list(parts)
    configurations: dict[Configuration, int] = {}
    origins: list[Origin] = []
    which, where = [], []
    for part in parts:
        number = [configurations.setdefault(c, len(configurations)) for c in part.configurations]
        which.append(np.array(number, np.int32)[part.configuration])
        where.append(part.origin + np.int32(len(origins)))
        origins.extend(part.origins)
    rows = pa.concat_tables([part.rows for part in parts], promote_options="default")
    return Results(
        tuple(configurations), tuple(origins), rows, np.concatenate(which), np.concatenate(where)
    )


def column(results: Results, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return one value per configuration as a column of the rows."""
    return pa.array(values, kind).take(pa.array(results.configuration))
