"""Many outcomes together: what a store, an export or a finished training holds.

Settings stand once per configuration and provenance once per chunk, beside the rows. `to_arrow`
writes the runs of many chunks as one table: the rows, a column with the chunk of each row, and one
head with all settings and chunks in the table's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from mirrorax.runs import arrow, identity
from mirrorax.runs.arrow import Configuration, Damaged, Origin, read_configuration, read_origin
from mirrorax.runs.chunk import read_values
from mirrorax.runs.settings import TRACED

_LIST = pa.list_(pa.float64())
#: The columns of the rows, without those of learning curves.
ROWS = pa.schema(
    [
        ("run_id", pa.string()),
        *((name, pa.int64() if name == "seed" else pa.float64()) for name in TRACED),
        ("returns", _LIST),
        ("greedy_returns", _LIST),
        ("diverged_at", pa.int64()),
        ("wall_seconds", pa.float64()),
    ]
)
#: The column of `to_arrow` with the chunk of each row.
ORIGIN = "origin"


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

    def __repr__(self) -> str:
        return (
            f"Results({len(self):,} runs, {len(self.configurations):,} configurations, "
            f"{len(self.origins):,} chunks)"
        )

    @property
    def num_rows(self) -> int:
        """How many runs there are, as of a table."""
        return len(self.rows)

    @cached_property
    def _makers(self) -> dict[str, Any]:
        from mirrorax.runs import flat

        return flat.makers(self)

    @property
    def column_names(self) -> list[str]:
        """The columns of `table("all")`."""
        return list(self._makers)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """Return one column of `table("all")`."""
        return pa.table({name: self._makers[name]()})[name]

    def take(self, which: Int[np.ndarray, " some"]) -> Results:
        """Return some of the runs, in the order given."""
        return replace(
            self,
            rows=self.rows.take(pa.array(which)),
            configuration=self.configuration[which],
            origin=self.origin[which],
        )

    @cached_property
    def done(self) -> Bool[np.ndarray, " runs"]:
        """Which runs are finished; the others failed."""
        return self.of_origins([origin.failure is None for origin in self.origins], bool)

    @cached_property
    def diverged(self) -> Bool[np.ndarray, " runs"]:
        """Which runs diverged."""
        valid = self.rows["diverged_at"].is_valid()
        return np.asarray(valid.to_numpy(zero_copy_only=False), dtype=bool)

    @cached_property
    def ids(self) -> np.ndarray:
        """The id of every run, 32 bytes each."""
        return arrow.read_ids(self.rows["run_id"])

    def of_configurations(self, values: Sequence[Any], kind: Any) -> np.ndarray:
        """Spread one value per configuration over the runs."""
        return np.array(values, kind)[self.configuration]

    def of_origins(self, values: Sequence[Any], kind: Any) -> np.ndarray:
        """Spread one value per chunk over the runs."""
        return np.array(values, kind)[self.origin]

    def numbers(self, name: str) -> Float[np.ndarray, " runs"]:
        """Return a column of the rows as floats; NaN where there is no value."""
        column = self.rows[name].cast(pa.float64())
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)

    def unique(self, *, ordered: bool = False) -> Results:
        """Return one row per run: a finished one before a failed one, and the first finished.

        Of failures the last counts. `ordered` sorts by `run_id`.
        """
        # The first 16 of the 32 digits as a number are quicker to compare, and mostly enough.
        halves = np.frombuffer(bytes.fromhex(self.ids.tobytes().decode()), ">u8").reshape(-1, 2)
        number = halves[:, 0].astype(np.uint64)
        order = np.argsort(number)
        if (np.diff(number[order]) == 0).any():
            order = np.argsort(self.ids, kind="stable")
        again = np.zeros(len(self), bool)
        again[1:] = self.ids[order][1:] == self.ids[order][:-1]
        if again.any():
            run = np.empty(len(self), np.int64)
            run[order] = np.cumsum(~again)
            rank = np.where(self.done, self.origin, -self.origin)
            order = np.lexsort((rank, ~self.done, run))
            order = order[np.diff(run[order], prepend=0) > 0]
        if not ordered:
            if not again.any():
                return self
            order = np.sort(order)
        return self.take(order)

    def compact(self, *, provenance: bool = True) -> Results:
        """Number configurations and chunks in the order of their first rows; drop unused ones.

        Without `provenance` it is left out, and chunks that then say the same become one.
        """
        configurations: dict[Configuration, int] = {}
        origins: dict[str, tuple[int, Origin]] = {}
        number = np.zeros(len(self.origins), np.int32)
        which = np.zeros(len(self.origins), np.int32)
        used, first = np.unique(self.origin, return_index=True)
        for k in used[np.argsort(first)].tolist():
            shared = self.configurations[self.configuration[first[np.searchsorted(used, k)]]]
            which[k] = configurations.setdefault(shared, len(configurations))
            origin = self.origins[k] if provenance else self.origins[k]._replace(provenance={})
            key = json.dumps([int(which[k]), *origin], sort_keys=True)
            number[k] = origins.setdefault(key, (len(origins), origin))[0]
        return replace(
            self,
            configurations=tuple(configurations),
            origins=tuple(origin for _, origin in origins.values()),
            configuration=which[self.origin],
            origin=number[self.origin],
        )

    def computed_ids(self) -> np.ndarray:
        """Return the ids as the hashes of settings and values."""
        settings = [c.settings for c in self.configurations]
        values = read_values(self.rows)
        computed = np.zeros(len(self), f"S{arrow.WIDTH}")
        versions = self.of_configurations([c.algorithm_version for c in self.configurations], int)
        for version in np.unique(versions).tolist():
            mine = np.flatnonzero(versions == version)
            part = {name: column[mine] for name, column in values.items()}
            computed[mine] = identity.run_ids(settings, self.configuration[mine], part, version)
        return computed

    def wrong_ids(self) -> Int[np.ndarray, " some"]:
        """Return the rows whose id is not the hash of their settings and values."""
        return np.flatnonzero(self.computed_ids() != self.ids)

    def median_seconds(self) -> dict[Configuration, tuple[float, int]]:
        """Return of each configuration the median time of a finished run, and how many there are.

        The median: a worker that was paused, or shared its core, says little of the others.
        """
        seconds = np.where(self.done, self.numbers("wall_seconds"), np.nan)
        known = np.flatnonzero(np.isfinite(seconds))
        order = known[np.argsort(self.configuration[known], kind="stable")]
        which, starts = np.unique(self.configuration[order], return_index=True)
        parts = np.split(seconds[order], starts)[1:]
        return {
            self.configurations[k]: (float(np.median(part)), len(part))
            for k, part in zip(which, parts, strict=True)
        }

    def provenance(self, name: str) -> list[Any]:
        """Return the distinct values of one field of the provenance of these runs, sorted."""
        used = (self.origins[k].provenance.get(name) for k in np.unique(self.origin))
        return sorted({value for value in used if value is not None}, key=str)

    def table(self, columns: Literal["tidy", "all"] | Sequence[str] = "tidy") -> pa.Table:
        """Return a flat table with one row per run.

        - `"tidy"`: few columns: which run, its score, what became of it.
        - `"all"`: every setting, value, return and all provenance besides.
        - a list of names: these columns.
        """
        from mirrorax.runs import flat

        return flat.table(self, columns)

    @staticmethod
    def from_table(table: pa.Table) -> Results:
        """Return the runs of a flat table, such as `table("all")` or one made by hand."""
        from mirrorax.runs import flat

        return flat.read(table)

    def curves(self) -> pa.Table | None:
        """Return `run_id` and one column of lists per learning curve; None if there are none."""
        from mirrorax.runs import flat

        return flat.curves(self)


def as_results(runs: Results | pa.Table) -> Results:
    """Return results as they are; a flat table is read."""
    return runs if isinstance(runs, Results) else Results.from_table(runs)


def empty() -> Results:
    """Return the results of no runs."""
    none = np.zeros(0, np.int32)
    return Results((), (), ROWS.empty_table(), none, none)


def concat(parts: Iterable[Results]) -> Results:
    """Put results together; equal configurations become one."""
    parts = list(parts)
    if not parts:
        return empty()
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


# --- heads ----------------------------------------------------------------------------------------


def from_outcome(table: pa.Table) -> Results:
    """Return the runs of one outcome; raise `Damaged` if its head is ill-formed."""
    head = arrow.read_head(table.schema.metadata)
    zeros = np.zeros(len(table), np.int32)
    rows = table.replace_schema_metadata(None)
    return Results((read_configuration(head),), (read_origin(head),), rows, zeros, zeros)


def to_outcome(results: Results, which: Int[np.ndarray, " some"]) -> pa.Table:
    """Return runs of one chunk as the table of an `Outcome`."""
    part = results.take(which)
    settings, version = results.configurations[part.configuration[0]]
    head = {
        "settings": settings.model_dump(mode="json"),
        "algorithm_version": version,
        **results.origins[part.origin[0]]._asdict(),
    }
    return arrow.with_head(part.rows, head)


def to_arrow(results: Results, **more: Any) -> pa.Table:
    """Return the runs of many chunks as one table, which `from_arrow` reads back.

    `more` stands in the head besides.
    """
    shared = np.zeros(len(results.origins), np.int32)
    shared[results.origin] = results.configuration
    head = {
        **more,
        "configurations": [
            {"settings": c.settings.model_dump(mode="json"), "algorithm_version": c[1]}
            for c in results.configurations
        ],
        "origins": [
            {"configuration": which, **origin._asdict()}
            for which, origin in zip(shared.tolist(), results.origins, strict=True)
        ],
    }
    column = pa.array(results.origin, pa.int32())
    return arrow.with_head(results.rows.append_column(ORIGIN, column), head)


def from_arrow(table: pa.Table) -> Results:
    """Return the runs of a table that `to_arrow` made; raise `Damaged` if it is ill-formed."""
    head = arrow.read_head(table.schema.metadata)
    listed: list[Any] = [head.get(name) for name in ("configurations", "origins")]
    if not all(isinstance(e, list) and all(isinstance(x, dict) for x in e) for e in listed):
        raise Damaged("its head does not list configurations and chunks")
    configurations = [read_configuration(entry) for entry in listed[0]]
    shared = [entry.get("configuration") for entry in listed[1]]
    if not all(type(k) is int and 0 <= k < len(configurations) for k in shared):
        raise Damaged("its head names a configuration that is not there")
    if ORIGIN not in table.column_names or table[ORIGIN].type != pa.int32():
        raise Damaged(f"it has no column {ORIGIN!r} with the chunks of its runs")
    column = table[ORIGIN]
    origin = column.to_numpy() if not column.null_count else np.full(1, -1)
    if len(origin) and not 0 <= origin.min() <= origin.max() < len(shared):
        raise Damaged(f"column {ORIGIN!r} names a chunk that is not there")
    rows = table.drop_columns([ORIGIN]).replace_schema_metadata(None)
    return Results(
        tuple(configurations),
        tuple(read_origin(entry) for entry in listed[1]),
        rows,
        np.array(shared, np.int32)[origin] if len(origin) else np.zeros(0, np.int32),
        origin,
    )
