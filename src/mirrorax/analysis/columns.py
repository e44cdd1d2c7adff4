"""The store's columns as this room reads them: which make an algorithm, and how to get arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int

from mirrorax.errors import UserError
from mirrorax.runs.settings import FIELDS, TEMPERATURES

#: What is said of an algorithm first.
_FIRST = ("potential", "drift", "alpha_schedule", "lam_schedule", "actor_q")
#: Fields of a run that do not tell one algorithm from another.
_ELSEWHERE = ("environment", "reward_scale", *TEMPERATURES, "seed")

#: Columns whose values together name an algorithm: all that a run is, except where it was run
#: (environment, reward scale), its temperatures and its seed.
ALGORITHM = (
    *_FIRST,
    *(name for name in FIELDS if name not in (*_FIRST, *_ELSEWHERE)),
    "algorithm_version",
)

#: Columns without which nothing can be said.
REQUIRED = (
    "environment",
    "potential",
    "drift",
    "alpha",
    "lam",
    "seed",
    "returns",
    "greedy_returns",
    "return_min",
    "return_max",
)

PROVENANCE = (
    "mirrorax_version",
    "commit",
    "dirty",
    "jax_version",
    "gymnax_version",
    "gymnasium_version",
    "numpy_version",
    "device",
    "lanes",
    "host",
)


def require(table: pa.Table) -> None:
    """Raise unless the table has runs and the columns an analysis needs."""
    missing = [name for name in REQUIRED if name not in table.column_names]
    if missing:
        raise UserError(f"store: the table has no column {', '.join(missing)}")
    if table.num_rows == 0:
        raise UserError("store: it holds no runs yet, so there is nothing to analyse")


def codes(column: pa.ChunkedArray) -> tuple[Int[np.ndarray, " rows"], list[Any]]:
    """Number the distinct values of a column; return the numbers and the values."""
    if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
        # Arrow has no dictionaries of lists; there are few distinct ones, so text will do.
        column = pc.binary_join(pc.cast(column, pa.list_(pa.string())), " x ")
    encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # an empty chunked array stays chunked
        encoded = pa.concat_arrays(encoded.chunks)
    return (
        encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        encoded.dictionary.to_pylist(),
    )


def telling_plugins(table: pa.Table) -> pa.Table:
    """Leave only those plugins of a run that not all runs in its environment have.

    The plugin of an environment is no part of an algorithm; that of a potential has a name of its
    own there. What is left tells apart runs with different versions of the same plugin.
    """
    if (
        "plugins" not in table.column_names
        or not pc.any(pc.greater(pc.list_value_length(table["plugins"]), 0)).as_py()
    ):
        return table
    environments = table["environment"].to_pylist()
    used = [frozenset(entry or ()) for entry in table["plugins"].to_pylist()]
    common: dict[str, frozenset[str]] = {}
    for name, entry in zip(environments, used, strict=True):
        common[name] = common.get(name, entry) & entry
    # A name that comes from a plugin is in a column of its own; only versions are told apart here.
    versions: dict[str, set[str]] = {}
    for text in frozenset().union(*used):
        versions.setdefault(text.partition("==")[0], set()).add(text)
    several = {text for group in versions.values() if len(group) > 1 for text in group}
    left = [
        sorted((entry - common[name]) & several)
        for name, entry in zip(environments, used, strict=True)
    ]
    at = table.column_names.index("plugins")
    return table.set_column(at, "plugins", pa.array(left, pa.list_(pa.string())))


def numbers(table: pa.Table, name: str, default: float = np.nan) -> Float[np.ndarray, " rows"]:
    """Return a column as floats: nulls are NaN, an absent column is the default throughout."""
    if name not in table.column_names:
        return np.full(table.num_rows, default)
    column = table.column(name)
    if pa.types.is_null(column.type):
        return np.full(table.num_rows, np.nan)
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(), dtype=np.float64)


def whole_numbers(table: pa.Table, name: str) -> Int[np.ndarray, " rows"]:
    """Return a column of whole numbers, to their last digit."""
    try:
        if table.column(name).null_count:
            raise ValueError
        return np.asarray(pc.cast(table.column(name), pa.int64()).to_numpy(), dtype=np.int64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise UserError(f"{name}: a whole number below 2^63 is needed in every run") from None


def matches(table: pa.Table, name: str, value: str) -> Bool[np.ndarray, " rows"]:
    """Return where a column of texts has a value; nowhere if it is absent."""
    if name not in table.column_names or pa.types.is_null(table.column(name).type):
        return np.zeros(table.num_rows, bool)
    same = pc.fill_null(pc.equal(table.column(name), value), False)
    return np.asarray(same.to_numpy(), dtype=bool)


def matrix(
    table: pa.Table, name: str
) -> tuple[Float[np.ndarray, "rows evaluations"], Int[np.ndarray, " rows"]]:
    """Return a column of lists as a matrix, padded with NaN, and the length of each list."""
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_type))
    lengths = np.asarray(
        pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False), dtype=np.int64
    )
    flat = np.asarray(column.flatten().to_numpy(zero_copy_only=False), dtype=np.float64)
    width = max(1, int(lengths.max(initial=0)))
    if np.all(lengths == width):
        return flat.reshape(len(lengths), width), lengths
    out = np.full((len(lengths), width), np.nan)
    out[np.arange(width) < lengths[:, None]] = flat
    return out, lengths
