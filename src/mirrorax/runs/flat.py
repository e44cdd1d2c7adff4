"""Runs as one flat table, settings and provenance beside them as columns, and back.

`table` is for people and their tools. `read` takes such a table, or one that was made by hand, back
to `Results`.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError, shown
from mirrorax.runs import arrow, identity, provenance, scoring
from mirrorax.runs.arrow import (
    CURVE,
    Configuration,
    Damaged,
    Origin,
    read_origin,
    stored_settings,
)
from mirrorax.runs.presets import LATER
from mirrorax.runs.results import ROWS, Results
from mirrorax.runs.settings import TRACED, RunValues, Settings

VERSION = identity.VERSION_FIELD

#: Where the returns that count as 0 and 1 come from; see `scoring`.
KNOWN, ESTIMATED = "known", "estimated"


_KINDS = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def _arrow_type(annotation: Any) -> pa.DataType:
    """Return the column type of a setting with this annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _arrow_type(arguments[0])
    if origin is Literal:
        return _arrow_type(type(arguments[0]))
    if origin is tuple:
        return pa.list_(_arrow_type(arguments[0]))
    return _KINDS[annotation]


#: The columns of the settings.
SETTINGS = pa.schema(
    [(name, _arrow_type(info.annotation)) for name, info in Settings.model_fields.items()]
)
#: The columns of what is known of a chunk, besides its bounds.
_OF_ORIGINS = ("status", "failure", "bounds_source", *provenance.FIELDS)
_RESULT = ("score", "greedy_score", "status", "diverged")

#: Columns without which a table says nothing of runs.
REQUIRED = (
    *("environment", "potential", "drift", "alpha", "lam", "seed"),
    *("returns", "greedy_returns", "return_min", "return_max"),
)


def table(results: Results, columns: Literal["tidy", "all"] | Sequence[str] = "tidy") -> pa.Table:
    """Return a flat table with one row per run; see `Results.table`."""
    known = results.column_names
    if columns == "all":
        names = known
    elif columns == "tidy":
        names = _tidy(results)
    elif isinstance(columns, str) or not set(columns) <= set(known):
        wrong = columns if isinstance(columns, str) else min(set(columns) - set(known))
        raise UserError(f"columns: {wrong!r}; expected tidy, all or some of {', '.join(known)}")
    else:
        names = list(columns)
    return pa.table({name: results[name] for name in names})


def _tidy(results: Results) -> list[str]:
    """Return which run it is, every setting and value that varies, and the result."""
    settings = [name for name in SETTINGS.names if _varies_in(results.configurations, name)]
    values = [name for name in TRACED if _varies(results, name)]
    names = ["run_id", "environment"]
    names += ["reward_scale"] if "reward_scale" in values else []
    names += ["potential", "drift", *settings, "alpha", "lam", *values]
    if len({c.algorithm_version for c in results.configurations}) > 1:
        names.append(VERSION)
    return [*dict.fromkeys(name for name in names if name != "seed"), "seed", *_RESULT]


def _varies_in(configurations: Sequence[Configuration], name: str) -> bool:
    values = {getattr(c.settings, name) for c in configurations}
    default = Settings.model_fields[name].default
    scheduled = name in ("alpha_schedule", "lam_schedule") and values != {default}
    return len(values) > 1 or (scheduled and bool(values))


def _varies(results: Results, name: str) -> bool:
    values = results.numbers(name)
    usual = {"reward_scale": 1.0, "w": np.nan}.get(name, values[0] if len(values) else 0.0)
    return not np.array_equal(values, np.full(len(values), usual), equal_nan=True)


def makers(results: Results) -> dict[str, Any]:
    """Return how each column of the full table is made, in their order."""
    configurations, origins = results.configurations, results.origins
    scores: list[scoring.Scored] = []

    def of_configurations(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(results.configuration))

    def of_origins(values: Sequence[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array(values, kind).take(pa.array(results.origin))

    def score(kind: str) -> pa.Array:
        if not scores:
            scores.append(scoring.scored(results))
        values = scoring.run_scores(getattr(scores[0], kind), scores[0].state)
        return pa.array(values, mask=np.isnan(values))

    def bound(which: int) -> pa.Array:
        known = [None if o.bounds is None else o.bounds[which] for o in origins]
        return pc.multiply(of_origins(known, pa.float64()), results.rows["reward_scale"])

    def setting(name: str) -> Any:
        kind = SETTINGS.field(name).type
        return lambda: of_configurations([getattr(c.settings, name) for c in configurations], kind)

    def field(name: str) -> Any:
        kind = _KINDS[provenance.FIELDS[name]] if name in provenance.FIELDS else None
        return lambda: of_origins([o.provenance.get(name) for o in origins], kind)

    sources = [_source(origin) for origin in origins]
    status = ["done" if o.failure is None else "failed" for o in origins]
    used = {name for o in origins for name in o.provenance}
    named = (*provenance.FIELDS, *sorted(used - set(provenance.FIELDS)))
    return {
        "run_id": lambda: results.rows["run_id"],
        **{name: setting(name) for name in Settings.model_fields},
        **{name: (lambda n=name: results.rows[n]) for name in TRACED},
        VERSION: lambda: of_configurations(
            [c.algorithm_version for c in configurations], pa.int64()
        ),
        "score": lambda: score("stochastic"),
        "greedy_score": lambda: score("greedy"),
        "status": lambda: of_origins(status, pa.string()),
        "failure": lambda: of_origins([o.failure for o in origins], pa.string()),
        "returns": lambda: results.rows["returns"],
        "greedy_returns": lambda: results.rows["greedy_returns"],
        "diverged": lambda: pa.array(results.diverged, mask=~results.done),
        "diverged_at": lambda: results.rows["diverged_at"],
        "return_min": lambda: bound(0),
        "return_max": lambda: bound(1),
        "bounds_source": lambda: of_origins(sources, pa.string()),
        "wall_seconds": lambda: results.rows["wall_seconds"],
        **{name: field(name) for name in named},
    }


def _source(origin: Origin) -> str | None:
    if origin.bounds is None:
        return None
    return ESTIMATED if origin.bounds[1] is None else KNOWN


def curves(results: Results) -> pa.Table | None:
    """Return `run_id` and one column of lists per learning curve; None if there are none."""
    names = [name for name in results.rows.column_names if name.startswith(CURVE)]
    if not names:
        return None
    rows = results.rows.select(["run_id", *names])
    rows = rows.filter(pc.is_valid(rows[names[0]]))
    return rows.rename_columns(["run_id", *(name.removeprefix(CURVE) for name in names)])


# --- back -----------------------------------------------------------------------------------------


def read(table: pa.Table) -> Results:
    """Return the runs of a flat table; raise `UserError` where it is not one.

    Settings that it does not name have the value that means what was done before there was such a
    setting, or their default. Runs without an id get one.
    """
    if missing := [name for name in REQUIRED if name not in table.column_names]:
        raise UserError(
            f"table: it has no column {', '.join(missing)} (mirrorax.store.read_results has all)"
        )
    named = [name for name in (*SETTINGS.names, VERSION) if name in table.column_names]
    configuration, first = _groups(table, named, np.zeros(len(table), np.int64))
    known = [_read_configuration(table.select(named).slice(k, 1).to_pylist()[0]) for k in first]
    rows = _read_rows(table)
    own = [name for name in _OF_ORIGINS if name in table.column_names]
    low, high = _bounds(table, rows)
    bounded = table.select(own).append_column("low", low).append_column("high", high)
    origin, first = _groups(bounded, [*own, "low", "high"], configuration)
    origins = [_read_origin(bounded.slice(k, 1).to_pylist()[0]) for k in first]
    results = Results(
        tuple(known), tuple(origins), rows, configuration.astype(np.int32), origin.astype(np.int32)
    )
    if "run_id" in table.column_names:
        return results
    computed = arrow.id_column(results.computed_ids())
    return replace(results, rows=rows.set_column(0, "run_id", computed))


def _read_configuration(fields: dict[str, Any]) -> Configuration:
    version = fields.pop(VERSION, None)
    known = {name: value for name, value in fields.items() if value is not None}
    defaults = {n: i.default for n, i in Settings.model_fields.items() if not i.is_required()}
    return Configuration(
        stored_settings({**defaults, **LATER, **known}),
        ALGORITHM_VERSION if version is None else int(version),
    )


def _read_rows(table: pa.Table) -> pa.Table:
    columns: dict[str, Any] = {}
    for field in ROWS:
        name = field.name
        if name == "seed":
            columns[name] = _whole(table, name)
        elif name in table.column_names:
            columns[name] = _cast(table, name, field.type)
        else:
            default = RunValues.model_fields[name].default if name in TRACED else None
            columns[name] = pa.array([default] * len(table), field.type)
    for name in ("reward_scale", "actor_lr", "critic_lr"):
        columns[name] = pc.fill_null(columns[name], RunValues.model_fields[name].default)
    for name in ("alpha", "w"):  # a value that does not apply is null
        nan = pc.fill_null(pc.is_nan(columns[name]), False)
        columns[name] = pc.if_else(nan, pa.scalar(None, pa.float64()), columns[name])
    if "diverged" in table.column_names:
        flagged = pc.fill_null(_cast(table, "diverged", pa.bool_()), False)
        at = pc.fill_null(columns["diverged_at"], 0)
        columns["diverged_at"] = pc.if_else(flagged, at, pa.scalar(None, pa.int64()))
    return pa.table(columns, schema=ROWS)


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        return table[name].cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UserError(f"{name}: {table[name].type} in the table, expected {kind}") from None


def _whole(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column of whole numbers, to their last digit."""
    try:
        if table[name].null_count:
            raise ValueError
        return table[name].cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise UserError(f"{name}: a whole number below 2^63 is needed in every run") from None


def _bounds(table: pa.Table, rows: pa.Table) -> tuple[pa.Array, pa.Array]:
    """Return the bounds of unscaled rewards."""
    scale = rows["reward_scale"].to_numpy()
    return tuple(
        _unscaled(_cast(table, name, pa.float64()).to_numpy(zero_copy_only=False), scale)
        for name in ("return_min", "return_max")
    )


def _unscaled(bound: np.ndarray, scale: np.ndarray) -> pa.Array:
    """Return numbers that give these bounds, to the last bit, when they are scaled."""
    pairs, inverse = np.unique(np.stack([bound, scale], axis=1), axis=0, return_inverse=True)
    out = []
    for value, factor in pairs.tolist():
        ratio = value / factor
        near = (float(f"{ratio:.12g}"), ratio, *np.nextafter(ratio, [-np.inf, np.inf]))
        out.append(next((float(x) for x in near if x * factor == value), ratio))
    values = np.array(out, np.float64)[inverse.ravel()]
    return pa.array(values, mask=np.isnan(values))


def _read_origin(fields: dict[str, Any]) -> Origin:
    low, high = fields.pop("low"), fields.pop("high")
    status, source = fields.pop("status", "done"), fields.pop("bounds_source", KNOWN)
    failure = fields.pop("failure", None)
    if status not in ("done", "failed", None) or source not in (KNOWN, ESTIMATED, None):
        raise UserError(f"status, bounds_source: {shown(status)}, {shown(source)}: unknown words")
    if status == "failed":
        bounds, failure = None, failure or "no reason was recorded"
    else:
        # An unknown upper bound is null in the head of a chunk, and NaN, which is refused, here.
        high = np.nan if high is None else high
        bounds, failure = [low, None if source == ESTIMATED else high], None
    try:
        return read_origin({"bounds": bounds, "failure": failure, "provenance": fields})
    except Damaged as error:
        raise UserError(f"return_min, return_max, provenance: {error}") from None


def _groups(
    table: pa.Table, names: Sequence[str], key: Int[np.ndarray, " rows"]
) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " groups"]]:
    """Number the rows by a key and several columns; return also the first row of each group."""
    for name in names:
        column = table[name]
        if pa.types.is_list(column.type):  # Arrow has no dictionaries of lists
            column = pc.binary_join(pc.cast(column, pa.list_(pa.string())), "\0")
        array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        encoded = pc.dictionary_encode(array, null_encoding="encode")
        count = len(encoded.dictionary)
        if count > 1:
            numbers = encoded.indices.to_numpy(zero_copy_only=False)
            key = np.unique(key * count + numbers, return_inverse=True)[1]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group, first
