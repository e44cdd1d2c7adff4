"""Many outcomes together: what a store, an export or a finished training holds.

`Results` are an Arrow table with one row per run, and what the runs of each chunk share, once per
chunk. `from_arrow` reads the table of one outcome, and that of many which `to_arrow` writes: the
rows, a column with the chunk of each row, and one head with all settings and chunks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from mirrorax.runs import arrow
from mirrorax.runs.arrow import CURVE, Configuration, Damaged, Origin
from mirrorax.runs.chunk import ids_of, read_values
from mirrorax.runs.presets import LATER_VALUES
from mirrorax.runs.settings import TEMPERATURES, TRACED

if TYPE_CHECKING:
    from mirrorax.runs.scoring import Scored

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
    """Runs of any number of chunks: rows, and what the runs of each chunk share."""

    #: one row per run, with the columns of an `Outcome`
    rows: pa.Table
    origins: tuple[Origin, ...]
    #: of each row, its place in `origins`
    origin: Int[np.ndarray, " runs"]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return (
            f"Results({len(self):,} runs, {len(self.configurations):,} configurations, "
            f"{len(self.origins):,} chunks)"
        )

    @cached_property
    def _numbered(self) -> tuple[dict[Configuration, int], Int[np.ndarray, " chunks"]]:
        numbers: dict[Configuration, int] = {}
        known = [numbers.setdefault(o.configuration, len(numbers)) for o in self.origins]
        return numbers, np.array(known, np.int32)

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """The distinct settings of the chunks, with the version of the algorithm."""
        return tuple(self._numbered[0])

    @cached_property
    def configuration(self) -> Int[np.ndarray, " runs"]:
        """Of each run, its place in `configurations`."""
        return self._numbered[1][self.origin]

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        """Return one column of `table("all")`."""
        return self.table([name])[name]

    @cached_property
    def scored(self) -> Scored:
        """The runs with normalised returns."""
        from mirrorax.runs import scoring

        return scoring.scored(self)

    def take(self, which: Int[np.ndarray, " some"]) -> Results:
        """Return some of the runs, in the order given."""
        return replace(self, rows=self.rows.take(pa.array(which)), origin=self.origin[which])

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

    def places(self, ids: pa.Array) -> Int[np.ndarray, " runs"]:
        """Return the place of each run among these ids; -1 where it is not one of them."""
        place = pc.index_in(self.rows["run_id"], value_set=ids)
        return np.asarray(pc.fill_null(place, -1).to_numpy())

    def numbers(self, name: str) -> Float[np.ndarray, " runs"]:
        """Return a column of the rows as floats; NaN where there is no value."""
        column = self.rows[name].cast(pa.float64())
        return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)

    def unique(self) -> Results:
        """Return one row per run, sorted by `run_id`.

        A finished one counts before a failed one, and the first finished; of failures the last.
        """
        rank = np.where(self.done, self.origin, -self.origin)
        order = np.lexsort((rank, ~self.done, self.ids))
        ids, new = self.ids[order], np.ones(len(self), bool)
        new[1:] = ids[1:] != ids[:-1]
        return self.take(order[new])

    def compact(self, *, provenance: bool = True) -> Results:
        """Number the chunks in the order of their first rows; drop unused ones.

        Without `provenance` it is left out, and chunks that then say the same become one.
        """
        origins: dict[Any, tuple[int, Origin]] = {}
        number = np.zeros(len(self.origins), np.int32)
        used, first = np.unique(self.origin, return_index=True)
        for k in used[np.argsort(first)].tolist():
            origin = self.origins[k]
            if not provenance:
                origin = origin.model_copy(update={"provenance": {}})
            said = json.dumps([origin.bounds, origin.failure, origin.provenance], sort_keys=True)
            number[k] = origins.setdefault((origin.configuration, said), (len(origins), origin))[0]
        kept = tuple(origin for _, origin in origins.values())
        return replace(self, origins=kept, origin=number[self.origin])

    def computed_ids(self) -> np.ndarray:
        """Return the ids as the hashes of settings and values."""
        return ids_of(self.configurations, self.configuration, read_values(self.rows))

    def check_ids(self) -> None:
        """Raise `Damaged` if the id of a run is not the hash of its settings and values."""
        wrong = np.flatnonzero(self.computed_ids() != self.ids)
        if len(wrong):
            row = int(wrong[0])
            raise Damaged(
                f"row {row + 1}: run_id {self.ids[row].decode()!r} is not that of its settings"
            )

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

    def curves(self) -> pa.Table | None:
        """Return `run_id` and one column of lists per learning curve; None if there are none."""
        names = [name for name in self.rows.column_names if name.startswith(CURVE)]
        if not names:
            return None
        rows = self.rows.select(["run_id", *names])
        rows = rows.filter(pc.is_valid(rows[names[0]]))
        return rows.rename_columns(["run_id", *(name.removeprefix(CURVE) for name in names)])


def as_results(runs: Results | pa.Table) -> Results:
    """Return results; a flat table is read, such as `Results.table("all")` or one made by hand."""
    from mirrorax.runs import flat

    return runs if isinstance(runs, Results) else flat.read(runs)


def concat(parts: Iterable[Results]) -> Results:
    """Put results together; of no parts, the results of no runs."""
    parts = list(parts)
    if not parts:
        return Results(ROWS.empty_table(), (), np.zeros(0, np.int32))
    origins: list[Origin] = []
    where = []
    for part in parts:
        where.append(part.origin + np.int32(len(origins)))
        origins.extend(part.origins)
    rows = pa.concat_tables([part.rows for part in parts], promote_options="default")
    return Results(rows, tuple(origins), np.concatenate(where))


# --- tables with a head ---------------------------------------------------------------------------


def from_arrow(table: pa.Table, columns: Sequence[str] = ROWS.names) -> Results:
    """Return the runs of a table with a head, checked; raise `Damaged` if it is ill-formed.

    `columns` are those that must be there, besides the run ids.
    """
    check_columns(table)
    origins = arrow.read_origins(arrow.read_head(table.schema.metadata))
    origin = np.zeros(len(table), np.int32)
    if ORIGIN in table.column_names:
        column = table[ORIGIN]
        origin = np.full(1, -1) if column.null_count else column.to_numpy()
    if len(origin) and not 0 <= origin.min() <= origin.max() < len(origins):
        raise Damaged(f"column {ORIGIN!r} names a chunk that is not there")
    stored = [name for name in table.column_names if name in ROWS.names or name.startswith(CURVE)]
    rows = table.select(stored).replace_schema_metadata(None)
    for name in columns:
        if name not in stored and name not in LATER_VALUES:
            raise Damaged(f"it has no column {name!r}")
        if name not in stored:
            rows = rows.append_column(name, pa.nulls(len(rows), ROWS.field(name).type))
    results = Results(rows, origins, origin)
    for name in ("returns", "greedy_returns"):
        if name in stored:
            lengths = pc.fill_null(pc.list_value_length(rows[name]), 0)
            if (lengths.to_numpy(zero_copy_only=False)[results.done] < 1).any():
                raise Damaged(f"column {name!r}: a finished run has none")
    return results


def to_arrow(results: Results, **more: Any) -> pa.Table:
    """Return the runs of many chunks as one table, which `from_arrow` reads back.

    `more` stands in the head besides.
    """
    numbers, which = results._numbered
    head = {
        **more,
        "configurations": [
            {"settings": settings.model_dump(mode="json"), "algorithm_version": version}
            for settings, version in numbers
        ],
        "origins": [
            {"configuration": number, **origin.model_dump(exclude={*Configuration._fields})}
            for number, origin in zip(which.tolist(), results.origins, strict=True)
        ],
    }
    column = pa.array(results.origin, pa.int32())
    return arrow.with_head(results.rows.append_column(ORIGIN, column), head)


_HEX = np.zeros(256, bool)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = True
_KINDS = (pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float64())


def check_columns(table: pa.Table) -> None:
    """Raise `Damaged` unless a table has run ids and columns of the kinds that are written."""
    again = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if again:
        raise Damaged(f"column {again[0]!r} is there twice")
    for name in table.column_names:
        try:
            table[name].validate(full=True)
            _check_column(name, table[name])
        except (pa.ArrowException, ValueError) as error:
            raise Damaged(f"column {name!r}: {error}") from None
    if "run_id" not in table.column_names:
        raise Damaged("it has no column of run ids")


def _check_column(name: str, column: pa.ChunkedArray) -> None:
    """Raise `ValueError` unless a column holds what a column of this name may hold."""
    kind = column.type
    if name in ROWS.names or name.startswith(CURVE):
        wanted = ROWS.field(name).type if name in ROWS.names else _LIST
        if kind != wanted:
            raise ValueError(f"it holds {kind}, expected {wanted}")
    elif name == ORIGIN:
        if kind != pa.int32():
            raise ValueError("it does not name the chunks of the runs")
    elif not any(kind in (each, pa.list_(each)) for each in _KINDS):
        raise ValueError(f"it holds {kind}")  # not even in a column of a later version
    if name == "run_id":
        if not _HEX[arrow.read_ids(column).view(np.uint8)].all():
            raise ValueError("a run id has hexadecimal digits only")
    elif kind == pa.string():
        texts = column.unique().drop_null()
        if not pc.all(pc.utf8_is_printable(texts), min_count=0).as_py():
            raise ValueError("it has texts with control characters")
        if pc.any(pc.greater(pc.utf8_length(texts), arrow.LONGEST)).as_py():
            raise ValueError(f"it has texts of more than {arrow.LONGEST} characters")
    needed = name in TRACED and name not in TEMPERATURES
    if column.null_count if needed else kind == _LIST and pc.list_flatten(column).null_count:
        raise ValueError("it has empty places")
    finite = kind != pa.float64() or pc.all(pc.is_finite(column), min_count=0).as_py()
    if name in (*TRACED, "wall_seconds") and not finite:
        raise ValueError("it has numbers that are not finite")
