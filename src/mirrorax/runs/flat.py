"""Runs as one flat table, settings and provenance beside them as columns, and back.

`table` is for people and their tools. `read` takes such a table, or one that was made by hand, back
to `Results`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int
from pydantic import ValidationError

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError, shown
from mirrorax.runs import arrow, scoring
from mirrorax.runs.arrow import Origin
from mirrorax.runs.chunk import PROVENANCE, VERSION_FIELD
from mirrorax.runs.presets import LATER
from mirrorax.runs.results import ROWS, Results
from mirrorax.runs.settings import TEMPERATURES, TRACED, RunValues, Settings, one_line

VERSION = VERSION_FIELD

#: Where the returns that count as 0 and 1 come from; see `scoring`.
KNOWN, ESTIMATED = "known", "estimated"

_KINDS = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def _arrow_type(default: Any) -> pa.DataType:
    """Return the column type of a setting, by its default: text if it has none, or an empty one."""
    if isinstance(default, tuple):
        return pa.list_(_arrow_type(default[0] if default else ""))
    return _KINDS.get(type(default), pa.string())


def _source(origin: Origin) -> str | None:
    if origin.bounds is None:
        return None
    return ESTIMATED if origin.bounds[1] is None else KNOWN


def _recorded(name: str, origin: Origin) -> Any:
    return origin.provenance.get(name)


#: The columns of what the runs of a chunk share: the type, and how it is read from the chunk.
_SETTINGS: dict[str, tuple[pa.DataType, Callable[[Origin], Any]]] = {
    name: (_arrow_type(info.default), attrgetter(f"settings.{name}"))
    for name, info in Settings.model_fields.items()
}
_SHARED: dict[str, tuple[pa.DataType, Callable[[Origin], Any]]] = {
    **_SETTINGS,
    VERSION: (pa.int64(), attrgetter(VERSION)),
    "status": (pa.string(), lambda origin: "done" if origin.failure is None else "failed"),
    "failure": (pa.string(), attrgetter("failure")),
    "bounds_source": (pa.string(), _source),
    **{name: (_KINDS[kind], partial(_recorded, name)) for name, kind in PROVENANCE.items()},
}
_RESULT = ("score", "greedy_score", "status", "diverged")
_RESULTS = (
    *("score", "greedy_score", "status", "failure", "returns", "greedy_returns", "diverged"),
    *("diverged_at", "return_min", "return_max", "bounds_source", "wall_seconds"),
)

#: Columns without which a table says nothing of runs.
REQUIRED = (
    *("environment", "potential", "drift", "alpha", "lam", "seed"),
    *("returns", "greedy_returns", "return_min", "return_max"),
)


def names(results: Results) -> list[str]:
    """Return the columns of the full table, in their order."""
    further = {name for origin in results.origins for name in origin.provenance}
    return [
        *("run_id", *_SETTINGS, *TRACED, VERSION, *_RESULTS, *PROVENANCE),
        *sorted(further - set(PROVENANCE)),
    ]


def column(results: Results, name: str) -> pa.ChunkedArray | pa.Array:
    """Return a column of the full table."""
    if name in ROWS.names:
        return results.rows[name]
    if name in ("score", "greedy_score"):
        scores = results.scored
        returns = scores.greedy if name == "greedy_score" else scores.stochastic
        values = scoring.run_scores(returns, scores.state)
        return pa.array(values, mask=np.isnan(values))
    if name == "diverged":
        return pa.array(results.diverged, mask=~results.done)
    which = pa.array(results.origin)
    if name in ("return_min", "return_max"):
        end = ("return_min", "return_max").index(name)
        bounds = [o.bounds[end] if o.bounds else None for o in results.origins]
        return pc.multiply(pa.array(bounds, pa.float64()).take(which), results.rows["reward_scale"])
    kind, read = _SHARED.get(name, (None, partial(_recorded, name)))
    return pa.array([read(origin) for origin in results.origins], kind).take(which)


def table(results: Results, columns: Literal["tidy", "all"] | Sequence[str] = "tidy") -> pa.Table:
    """Return a flat table with one row per run; see `Results.table`."""
    known = names(results)
    chosen: Sequence[str] | None = columns
    if isinstance(columns, str):
        chosen = known if columns == "all" else _tidy(results) if columns == "tidy" else None
    if chosen is None or not set(chosen) <= set(known):
        wrong = columns if chosen is None else min(set(chosen) - set(known))
        raise UserError(f"columns: {wrong!r}; expected tidy, all or some of {', '.join(known)}")
    return pa.table({name: column(results, name) for name in chosen})


def _tidy(results: Results) -> list[str]:
    """Return which run it is, every setting and value that varies, and the result."""
    usual = dict.fromkeys(("alpha_schedule", "lam_schedule"), "constant")
    settings = []
    for name in _SETTINGS:
        values = {getattr(c.settings, name) for c in results.configurations}
        if len(values | {usual.get(name)} - {None} if values else values) > 1:
            settings.append(name)
    varying = [name for name in TRACED if _varies(results, name)]
    chosen = ["run_id", "environment"]
    chosen += ["reward_scale"] if "reward_scale" in varying else []
    chosen += ["potential", "drift", *settings, "alpha", "lam", *varying]
    if len({c.algorithm_version for c in results.configurations}) > 1:
        chosen.append(VERSION)
    return [*dict.fromkeys(name for name in chosen if name != "seed"), "seed", *_RESULT]


def _varies(results: Results, name: str) -> bool:
    values = results.numbers(name)
    first = values[0] if len(values) else 0.0
    usual = {"reward_scale": 1.0, "w": np.nan, "v": np.nan}.get(name, first)
    return not np.array_equal(values, np.full(len(values), usual), equal_nan=True)


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
    rows = _read_rows(table)
    chunks = table.select([name for name in _SHARED if name in table.column_names])
    for name in ("return_min", "return_max"):
        chunks = chunks.append_column(name, _unscaled(table, name, rows["reward_scale"]))
    origin, first = _groups(chunks)
    origins = tuple(_read_origin(fields) for fields in chunks.take(first).to_pylist())
    results = Results(rows, origins, origin)
    if "run_id" in table.column_names:
        return results
    computed = arrow.id_column(results.computed_ids())
    return replace(results, rows=rows.set_column(0, "run_id", computed))


def _read_rows(table: pa.Table) -> pa.Table:
    columns: dict[str, Any] = {}
    for field in ROWS:
        name, kind = field.name, field.type
        default = RunValues.model_fields[name].default if name in TRACED else None
        columns[name] = pa.array([default] * len(table), kind)
        if name in table.column_names:
            columns[name] = _cast(table, name, kind)
        if name in TEMPERATURES:  # a value that does not apply is null
            nan = pc.fill_null(pc.is_nan(columns[name]), False)
            columns[name] = pc.if_else(nan, pa.scalar(None, kind), columns[name])
        elif default is not None and name != "seed":
            columns[name] = pc.fill_null(columns[name], default)
    if "diverged" in table.column_names:
        flagged = pc.fill_null(_cast(table, "diverged", pa.bool_()), False)
        at = pc.fill_null(columns["diverged_at"], 0)
        columns["diverged_at"] = pc.if_else(flagged, at, pa.scalar(None, pa.int64()))
    return pa.table(columns, schema=ROWS)


def _cast(table: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    try:
        column = table[name].cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        column = None
    if name == "seed" and (column is None or column.null_count):
        raise UserError("seed: a whole number below 2^63 is needed in every run")
    if column is None:
        raise UserError(f"{name}: {table[name].type} in the table, expected {kind}")
    return column


def _unscaled(table: pa.Table, name: str, scale: pa.ChunkedArray) -> pa.Array:
    """Return bounds of unscaled rewards: they give those of the table, to the last bit."""
    bound = _cast(table, name, pa.float64()).to_numpy(zero_copy_only=False)
    both = np.stack([bound, scale.to_numpy()], axis=1)
    pairs, inverse = np.unique(both, axis=0, return_inverse=True)
    out = []
    for value, factor in pairs.tolist():
        ratio = value / factor
        near = (float(f"{ratio:.12g}"), ratio, *np.nextafter(ratio, [-np.inf, np.inf]))
        out.append(next((float(x) for x in near if x * factor == value), ratio))
    values = np.array(out, np.float64)[inverse.ravel()]
    return pa.array(values, mask=np.isnan(values))


def _read_origin(fields: dict[str, Any]) -> Origin:
    """Return a chunk from the columns of one of its runs."""
    settings = {n: i.default for n, i in Settings.model_fields.items() if not i.is_required()}
    settings |= LATER
    for name in _SETTINGS:
        value = fields.pop(name, None)
        settings |= {} if value is None else {name: value}
    version = fields.pop(VERSION, None)
    low, high = fields.pop("return_min"), fields.pop("return_max")
    status, source = fields.pop("status", "done"), fields.pop("bounds_source", KNOWN)
    failure = fields.pop("failure", None)
    if status not in ("done", "failed", None) or source not in (KNOWN, ESTIMATED, None):
        raise UserError(f"status, bounds_source: {shown(status)}, {shown(source)}: unknown words")
    # An unknown upper bound is None in a chunk; one that is missing is NaN, which is refused.
    upper = None if source == ESTIMATED else np.nan if high is None else high
    failed = status == "failed"
    try:
        return Origin(
            settings=arrow.stored_settings(settings),
            algorithm_version=ALGORITHM_VERSION if version is None else version,
            bounds=None if failed else (low, upper),
            failure=(failure or "no reason was recorded") if failed else None,
            provenance=fields,
        )
    except ValidationError as error:
        raise UserError(f"settings, return_min, return_max: {one_line(error)}") from None


def _groups(table: pa.Table) -> tuple[Int[np.ndarray, " rows"], Int[np.ndarray, " groups"]]:
    """Number the rows by all columns; return also the first row of each group."""
    key = np.zeros(len(table), np.int64)
    for column in table.columns:
        if pa.types.is_list(column.type):  # Arrow has no dictionaries of lists
            column = pc.binary_join(pc.cast(column, pa.list_(pa.string())), "\0")
        encoded = pc.dictionary_encode(column.combine_chunks(), null_encoding="encode")
        count = len(encoded.dictionary)
        if count > 1:
            numbers = encoded.indices.to_numpy(zero_copy_only=False)
            key = np.unique(key * count + numbers, return_inverse=True)[1]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group.astype(np.int32), first
