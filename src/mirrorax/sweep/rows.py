"""From a chunk's results to the rows of a shard."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.envs import suite
from mirrorax.runs import ids, schema
from mirrorax.runs.schema import ESTIMATED, KNOWN
from mirrorax.spec.expand import Runs
from mirrorax.sweep.task import Result


def _fixed(runs: Runs, random_return: float | None = None) -> dict[str, pa.Array]:
    """Return the columns that are known before a run starts; all runs share one configuration."""
    count = len(runs)
    settings = runs.configurations[int(runs.configuration[0])]
    wanted = schema.runs()
    columns: dict[str, pa.Array] = {"run_id": ids.to_arrow(runs.ids)}
    for name, value in settings.model_dump().items():
        columns[name] = pa.array([value] * count, wanted.field(name).type)
    for name, values in runs.values.items():
        absent = np.isnan(values) if values.dtype.kind == "f" else None
        columns[name] = pa.array(values, wanted.field(name).type, mask=absent)
    columns["algorithm_version"] = pa.array([ALGORITHM_VERSION] * count, pa.int64())
    scale, known = runs.values["reward_scale"], suite.environment(settings.environment)
    bounds = known.known_bounds()
    columns["bounds_source"] = pa.array([KNOWN if bounds else ESTIMATED] * count)
    if bounds is not None:
        columns["return_min"] = pa.array(scale * bounds[0])
        columns["return_max"] = pa.array(scale * bounds[1])
    elif random_return is not None:
        # What counts as 1 is the best that was seen, which only a reader of all runs knows.
        columns["return_min"] = pa.array(scale * random_return)
    return columns


def _table(columns: Mapping[str, Any], provenance: Mapping[str, Any], count: int) -> pa.Table:
    stamped = {
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **provenance,
    }
    wanted = schema.runs()
    arrays = []
    for field in wanted:
        if field.name in columns:
            arrays.append(columns[field.name])
        else:
            arrays.append(pa.array([stamped.get(field.name)] * count, field.type))
    return pa.table(arrays, schema=wanted)


def _lists(values: np.ndarray) -> pa.Array:
    rows, width = values.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    flat = np.ascontiguousarray(values, dtype=np.float64).reshape(-1)
    return pa.ListArray.from_arrays(offsets, flat)


def done(runs: Runs, result: Result, provenance: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a chunk that was computed."""
    count = len(runs)
    diverged_at = np.asarray(result.diverged_at, dtype=np.int64)
    columns = {
        **_fixed(runs, result.random_return),
        "status": pa.array(["done"] * count),
        "failure": pa.nulls(count, pa.string()),
        "returns": _lists(result.returns),
        "greedy_returns": _lists(result.greedy_returns),
        "diverged": pa.array(diverged_at >= 0),
        "diverged_at": pa.array(diverged_at, pa.int64(), mask=diverged_at < 0),
        "wall_seconds": pa.array(np.full(count, result.wall_seconds / count)),
    }
    where = {"device": result.device, "lanes": result.lanes, **result.provenance}
    return _table(columns, {**provenance, **where}, count)


def curves(runs: Runs, result: Result) -> pa.Table | None:
    """Return the learning curves of a chunk, if it has any."""
    if not result.curves:
        return None
    columns = {"run_id": ids.to_arrow(runs.ids)}
    columns.update((name, _lists(values)) for name, values in sorted(result.curves.items()))
    return pa.table(columns)


def failed(runs: Runs, reason: str, lanes: int, provenance: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a chunk that was given up."""
    count = len(runs)
    columns = {
        **_fixed(runs),
        "status": pa.array(["failed"] * count),
        "failure": pa.array([reason] * count),
    }
    return _table(columns, {**provenance, "lanes": lanes}, count)
