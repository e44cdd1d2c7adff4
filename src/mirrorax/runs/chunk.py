"""The one currency: a `Chunk` of runs to train, and its `Outcome`.

    Chunk(settings, columns, lanes)  --train_chunk-->  Outcome(chunk, arrays, provenance)

Both have one form outside Python: an Arrow table with one row per run, and a *head* in the table's
metadata with what all its runs share. The bytes that a worker sends are the bytes of a shard.

A run's identity is the content hash of everything that decides its result.

The *specification* of a run is one flat mapping: every setting, every traced value and the
`algorithm_version`. Its canonical JSON has sorted keys, no spaces, ASCII only; floats are written
in the shortest form that reads back to the same number, and are floats (`1.0`, never `1`) wherever
the field is one; -0.0 is 0.0; a value that does not apply is null. A field of `LATER` is left out
at the value that means what was done before there was such a field: identities stay as they are.

- `run_ids`: the first 32 hexadecimal digits of the SHA-256 of that text.
- `run_keys`: the first 8 bytes, as two big-endian uint32, of the SHA-256 of the text *without*
  `algorithm_version` and with `eval_every` 0: two versions of the algorithm see the same random
  numbers, and so does a run whose learning curves are recorded.

Device, lane width and library versions are provenance, not identity.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int, UInt32

from mirrorax import plugins
from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError
from mirrorax.formatting import Shown
from mirrorax.registry import LazyModule
from mirrorax.runs.presets import LATER, LATER_VALUES
from mirrorax.runs.settings import TRACED, RunValues, Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from mirrorax.runs import arrow
else:
    # A study is read and expanded to the ids of its runs without pyarrow.
    pa, arrow = LazyModule("pyarrow"), LazyModule("mirrorax.runs.arrow")

ID_DIGITS = 32
VERSION_FIELD = "algorithm_version"

#: What is recorded along the way is not part of what a run is; its key has it at this value.
_RECORDING = {"eval_every": 0}

#: Traced fields that count: whole numbers. All the others are floats (NaN in a column is null).
WHOLE = ("seed",)

#: The fields of an outcome's provenance and their types. A field that does not apply is None.
PROVENANCE: dict[str, type] = {
    "finished_at": str,
    "mirrorax_version": str,
    "commit": str,
    "dirty": bool,
    "jax_version": str,
    "gymnax_version": str,
    "gymnasium_version": str,  # None where Gymnasium does not step the environment
    "numpy_version": str,
    "device": str,
    "lanes": int,
    "layout": str,
    "host": str,  # see `mirrorax.mdpo.machine.host_hash`
}

#: Fields on which a result may depend. The planner says where they differ within a store.
DIFFERING = tuple(
    name for name in PROVENANCE if name not in ("finished_at", "dirty", "numpy_version", "host")
)


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
        return run_ids(self.settings, self.columns)

    @cached_property
    def keys(self) -> UInt32[np.ndarray, "runs 2"]:
        """The random key of every run."""
        if self.own_keys is not None:
            return self.own_keys
        return run_keys(self.settings, self.columns)

    @cached_property
    def runs(self) -> list[RunValues]:
        """The values of every run, None where one does not apply."""
        columns = [self.columns[name].tolist() for name in TRACED]
        known = [[None if value != value else value for value in column] for column in columns]
        rows = (dict(zip(TRACED, row, strict=True)) for row in zip(*known, strict=True))
        return [RunValues.model_construct(**row) for row in rows]

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


def chunk_of_runs(settings: Settings, runs: Sequence[RunValues], lanes: int | None = None) -> Chunk:
    """Return the chunk of runs with these values."""
    columns = {name: [getattr(run, name) for run in runs] for name in TRACED}
    return Chunk(settings, complete_columns(columns, len(runs)), lanes)


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
        if name not in WHOLE and not isinstance(values, np.ndarray):
            values = [np.nan if value is None else value for value in values]
        full[name] = np.asarray(values).astype(np.int64 if name in WHOLE else np.float64)
    return full


@dataclass(frozen=True, eq=False, repr=False)
class Outcome(Shown):
    """What became of a chunk: arrays with one row per run, or the reason why there are none."""

    chunk: Chunk
    #: of the stochastic policies, of scaled rewards
    returns: Float[np.ndarray, "runs episodes"]
    #: of the greedy policies
    greedy_returns: Float[np.ndarray, "runs episodes"]
    #: the update at which a run diverged, or -1
    diverged_at: Int[np.ndarray, " runs"]
    wall_seconds: float
    #: the returns that count as 0 and 1, of unscaled rewards. The second is None where it is not
    #: known: it is then the best return among the runs that are read, and the first is a random
    #: policy's.
    bounds: tuple[float, float | None] | None
    #: where, when and with what the chunk was trained: the fields of `PROVENANCE`
    provenance: Mapping[str, Any] = field(default_factory=dict)
    #: the learning curves, by the name of what was recorded
    curves: Mapping[str, Float[np.ndarray, "runs points"]] = field(default_factory=dict)
    #: why the chunk has no result
    failure: str | None = None

    @staticmethod
    def failed(chunk: Chunk, reason: str, provenance: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a chunk that was given up."""
        none = np.zeros((len(chunk), 0))
        never = np.full(len(chunk), -1, np.int64)
        return Outcome(chunk, none, none, never, 0.0, None, provenance, failure=reason)

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
        if name in WHOLE:
            columns[name] = pa.array(np.asarray(values, np.int64))
        else:
            numbers = np.asarray(values, np.float64)
            columns[name] = pa.array(numbers, mask=np.isnan(numbers))
    return columns


def read_values(table: pa.Table) -> dict[str, np.ndarray]:
    """Return the traced values of a table's runs; NaN where a value does not apply."""
    absent = np.full(len(table), np.nan)
    return {
        name: table[name].to_numpy().astype(np.int64 if name in WHOLE else np.float64)
        if name in table.column_names or name not in LATER_VALUES
        else absent
        for name in TRACED
    }


def run_ids(
    settings: Settings, columns: Mapping[str, np.ndarray], version: int = ALGORITHM_VERSION
) -> np.ndarray:
    """Return the ids of runs with these settings, as an array of 32-byte strings."""
    texts = _texts(settings, columns, {VERSION_FIELD: version})
    ids = [hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS] for text in texts]
    return np.array(ids, dtype=f"S{ID_DIGITS}")


def together(numbers: Int[np.ndarray, " runs"]) -> list[Int[np.ndarray, " some"]]:
    """Return the places of equal numbers, one array for each number, in ascending order."""
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order])) + 1
    return np.split(order, starts) if len(order) else []


def ids_of(
    configurations: Sequence[tuple[Settings, int]],
    configuration: Int[np.ndarray, " runs"],
    columns: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return the ids of runs of several configurations: settings and version of the algorithm.

    `configuration` is the place of each run's in `configurations`.
    """
    ids = np.zeros(len(configuration), f"S{ID_DIGITS}")
    for mine in together(configuration):
        settings, version = configurations[configuration[mine[0]]]
        ids[mine] = run_ids(settings, {n: column[mine] for n, column in columns.items()}, version)
    return ids


def run_keys(settings: Settings, columns: Mapping[str, np.ndarray]) -> UInt32[np.ndarray, "runs 2"]:
    """Return the random keys of runs with these settings."""
    texts = _texts(settings, columns, _RECORDING)
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts)
    return np.frombuffer(digests, dtype=">u4").astype(np.uint32).reshape(-1, 2)


def _json(value: Any) -> str:
    """Return the canonical text of one value."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise UserError(f"a run: its settings are finite numbers, not {value!r}")
        value += 0.0  # -0.0 and 0.0 are one value
    return json.dumps(value, separators=(",", ":"))


def _texts(
    settings: Settings, columns: Mapping[str, np.ndarray], other: Mapping[str, Any]
) -> Iterator[str]:
    """Yield each run's canonical JSON, with other fields in place of and besides the settings.

    Half a million dictionaries would take minutes. The static part of the text is the same for
    all runs, so it is a template, and a traced column has few distinct values, so each is written
    once.
    """
    if set(columns) != set(TRACED):
        raise ValueError(f"columns are {sorted(columns)}, expected {sorted(TRACED)}")
    fixed = {**settings.model_dump(), **other}
    # Of a saved policy its digest counts, not its folder.
    fixed["reference"] = fixed["reference"].rpartition("@")[2]
    texts = {name: _json(value) for name, value in fixed.items()}
    written = {n: text for n, text in texts.items() if n not in LATER or text != _json(LATER[n])}
    names = sorted([*written, *columns])
    template = "".join(
        "%s" if name in columns else f'"{name}":{written[name]},'.replace("%", "%%")
        for name in names
    )
    rows = zip(*(_column_texts(n, columns[n]) for n in names if n in columns), strict=True)
    return ("{" + (template % row)[:-1] + "}" for row in rows)


def _column_texts(name: str, column: np.ndarray) -> list[str]:
    """Return each value of a column with its name and a comma; nothing where it is left out."""
    distinct, inverse = np.unique(column, return_inverse=True)
    texts = [f'"{name}":{_number(name, value)},' for value in distinct.tolist()]
    if name in LATER_VALUES:
        texts = ["" if math.isnan(v) else t for v, t in zip(distinct, texts, strict=True)]
    spread: list[str] = np.array(texts, dtype=object)[inverse].tolist()
    return spread


def _number(name: str, value: float) -> str:
    if name in WHOLE:
        return str(int(value))
    return "null" if math.isnan(value) else _json(float(value))
