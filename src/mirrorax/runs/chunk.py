"""The one currency: a `Chunk` of runs to train, and its `Outcome`.

    Chunk(settings, columns, lanes)  --train_chunk-->  Outcome(chunk, arrays, provenance)

Both have one form outside Python: an Arrow table with one row per run, and a *head* in the table's
metadata with what all its runs share. The bytes that a worker sends are the bytes of a shard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int, UInt32

from mirrorax import plugins
from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError
from mirrorax.formatting import Shown
from mirrorax.runs import arrow, identity
from mirrorax.runs.presets import LATER_VALUES
from mirrorax.runs.settings import TRACED, RunValues, Settings


@dataclass(frozen=True, eq=False, repr=False)
class Chunk(Shown):
    """Runs with the same settings, and so with one compiled program: what a trainer is given."""

    settings: Settings
    #: every traced value, one entry per run; NaN where a value does not apply
    columns: Mapping[str, np.ndarray]
    #: runs that are trained side by side; None: the default of the device
    lanes: int | None = None
    #: random keys in place of those that follow from the runs
    own_keys: UInt32[np.ndarray, "runs 2"] | None = None

    def __len__(self) -> int:
        return len(self.columns["seed"])

    @cached_property
    def ids(self) -> np.ndarray:
        """The id of every run, 32 bytes each."""
        return identity.run_ids(self.settings, self.columns)

    @cached_property
    def keys(self) -> UInt32[np.ndarray, "runs 2"]:
        """The random key of every run."""
        if self.own_keys is not None:
            return self.own_keys
        return identity.run_keys(self.settings, self.columns)

    def select(self, which: Sequence[int] | np.ndarray | slice) -> Chunk:
        """Return some of the runs, in the order given."""
        columns = {name: column[which] for name, column in self.columns.items()}
        keys = None if self.own_keys is None else self.own_keys[which]
        return Chunk(self.settings, columns, self.lanes, keys)

    def to_bytes(self) -> bytes:
        """Return the bytes that a worker is sent: values and settings. It computes the keys."""
        head = {"settings": self.settings.model_dump(mode="json"), "lanes": self.lanes}
        return arrow.encode(arrow.with_head(pa.table(value_columns(self)), head))

    @classmethod
    def from_bytes(cls, data: bytes) -> Chunk:
        """Read a chunk that was sent. Its names mean what they mean in this process."""
        table = arrow.decode(data)
        head = arrow.read_head(table.schema.metadata)
        plugins.expect(head["settings"].get("plugins", []), "chunk")
        return cls(Settings(**head["settings"]), read_values(table), head["lanes"])


def make_chunk(
    settings: Settings,
    columns: Mapping[str, Sequence[Any] | np.ndarray],
    lanes: int | None = None,
    keys: UInt32[np.ndarray, "runs 2"] | None = None,
) -> Chunk:
    """Return the chunk of some runs. A column that is missing has its default.

    `keys` replace the random keys, which follow from the runs.
    """
    if keys is None:
        return Chunk(settings, complete_columns(columns, len(next(iter(columns.values())))), lanes)
    keys = np.asarray(keys, np.uint32)
    if keys.ndim != 2 or keys.shape[1] != 2 or len(keys) == 0:
        raise UserError(f"keys: expected pairs of words, got shape {keys.shape}")
    return Chunk(settings, complete_columns(columns, len(keys)), lanes, keys)


def complete_columns(
    columns: Mapping[str, Sequence[Any] | np.ndarray], count: int
) -> dict[str, np.ndarray]:
    """Return every traced value as an array: a missing one has its default, and None is NaN."""
    defaults = RunValues().model_dump()
    if unknown := sorted(set(columns) - set(TRACED)):
        raise UserError(f"{unknown[0]}: not a traced value; allowed: {', '.join(TRACED)}")
    full = {}
    for name in TRACED:
        values = columns.get(name, [defaults[name]] * count)
        if len(values) != count:
            raise UserError(f"{name}: {len(values)} values for {count} runs")
        if name not in identity.WHOLE and not isinstance(values, np.ndarray):
            values = [np.nan if value is None else value for value in values]
        full[name] = np.asarray(values).astype(np.int64 if name in identity.WHOLE else np.float64)
    return full


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Shown):
    """What became of a chunk: arrays with one row per run, or the reason why there are none."""

    chunk: Chunk
    returns: Float[np.ndarray, "runs episodes"]
    greedy_returns: Float[np.ndarray, "runs episodes"]
    #: the update at which a run diverged, or -1
    diverged_at: Int[np.ndarray, " runs"]
    wall_seconds: float
    #: the returns that count as 0 and 1, of unscaled rewards. The second is None where it is not
    #: known: it is then the best return among the runs that are read, and the first is a random
    #: policy's.
    bounds: tuple[float, float | None] | None
    #: where, when and with what the chunk was trained; see `mirrorax.runs.provenance`
    provenance: Mapping[str, Any] = field(default_factory=dict)
    curves: Mapping[str, Float[np.ndarray, "runs points"]] = field(default_factory=dict)
    #: why the chunk has no result
    failure: str | None = None

    @classmethod
    def failed(cls, chunk: Chunk, reason: str, provenance: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a chunk that was given up."""
        none = np.zeros((len(chunk), 0))
        never = np.full(len(chunk), -1, np.int64)
        return cls(chunk, none, none, never, 0.0, None, provenance, failure=reason)

    def to_arrow(self) -> pa.Table:
        """Return the outcome as a table."""
        count = len(self.chunk)
        diverged_at = np.asarray(self.diverged_at, np.int64)
        table = {
            **value_columns(self.chunk),
            "returns": arrow.list_column(self.returns),
            "greedy_returns": arrow.list_column(self.greedy_returns),
            "diverged_at": pa.array(diverged_at, mask=diverged_at < 0),
            "wall_seconds": pa.array(np.full(count, self.wall_seconds / max(count, 1))),
            **{
                arrow.CURVE + name: arrow.list_column(points)
                for name, points in sorted(self.curves.items())
            },
        }
        head = {
            "settings": self.chunk.settings.model_dump(mode="json"),
            "algorithm_version": ALGORITHM_VERSION,
            "bounds": None if self.bounds is None else list(self.bounds),
            "failure": self.failure,
            "provenance": dict(self.provenance),
        }
        return arrow.with_head(pa.table(table), head)

    def to_bytes(self) -> bytes:
        """Return the bytes of the outcome: what a worker sends and what stands in a shard."""
        return arrow.encode(self.to_arrow())


def value_columns(chunk: Chunk) -> dict[str, pa.Array]:
    """Return the columns that say which runs these are."""
    columns: dict[str, pa.Array] = {"run_id": arrow.id_column(chunk.ids)}
    for name in TRACED:
        values = chunk.columns[name]
        if name in LATER_VALUES and np.isnan(values).all():
            continue  # written as before there was such a value
        if name in identity.WHOLE:
            columns[name] = pa.array(np.asarray(values, np.int64))
        else:
            numbers = np.asarray(values, np.float64)
            columns[name] = pa.array(numbers, mask=np.isnan(numbers))
    return columns


def read_values(table: pa.Table) -> dict[str, np.ndarray]:
    """Return the traced values of a table's runs; NaN where a value does not apply."""
    absent = np.full(len(table), np.nan)
    return {
        name: table[name].to_numpy().astype(np.int64 if name in identity.WHOLE else np.float64)
        if name in table.column_names or name not in LATER_VALUES
        else absent
        for name in TRACED
    }
