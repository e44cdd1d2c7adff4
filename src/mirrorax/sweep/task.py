"""What is handed to a worker and what comes back: plain data, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mirrorax.runs.settings import Settings

#: The function that trains, as "module:attribute". Only workers import it.
CHUNK_FUNCTION = "mirrorax.mdpo.chunk:run_chunk"


@dataclass(frozen=True, eq=False)
class Task:
    """One chunk as an engine sees it: up to `lanes` runs of one configuration."""

    number: int  # its place in the plan
    configuration: int  # chunks with the same number share one compiled program
    settings: Mapping[str, Any]
    columns: Mapping[str, np.ndarray]
    keys: np.ndarray
    lanes: int
    label: str  # for people: environment and pair
    seconds: float  # how long it is expected to take

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True, eq=False)
class Result:
    """What a chunk function found, as arrays."""

    returns: np.ndarray
    greedy_returns: np.ndarray
    diverged_at: np.ndarray
    wall_seconds: float
    lanes: int
    device: str
    curves: Mapping[str, np.ndarray] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # the worker's, over the driver's
    random_return: float | None = None  # where the bounds of returns are not known beforehand


@dataclass(frozen=True, eq=False)
class Outcome:
    """What became of a task: a result, or the reason why there is none."""

    task: Task
    result: Result | None
    reason: str = ""
    attempts: int = 1


class Stop(Exception):
    """Raised inside a chunk, between two segments, to drop it."""


class OutOfMemory(Exception):
    """A chunk does not fit; trying again will not help."""


class ChunkFunction(Protocol):
    """What `mirrorax.mdpo.chunk.run_chunk` and every stand-in look like."""

    def __call__(
        self,
        settings: Settings,
        columns: dict[str, np.ndarray],
        keys: np.ndarray,
        *,
        lanes: int | None = None,
        on_segment: Callable[[Any], None] | None = None,
    ) -> Any:
        """Train the runs; return an object with the fields of `Result`."""
