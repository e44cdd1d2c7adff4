"""Run one chunk, wherever this is: the same few lines in every engine's workers."""

from __future__ import annotations

import importlib
import resource
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mirrorax import plugins
from mirrorax.runs import provenance
from mirrorax.runs.settings import Settings
from mirrorax.sweep.task import CHUNK_FUNCTION, ChunkFunction, OutOfMemory, Result, Task

_MEMORY_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "bad_alloc")


def resolve(name: str) -> ChunkFunction:
    """Import the chunk function from "module:attribute"."""
    if name == CHUNK_FUNCTION:
        from mirrorax.mdpo.compilation import enable_cache

        enable_cache()
    module, _, attribute = name.partition(":")
    function: ChunkFunction = getattr(importlib.import_module(module), attribute)
    return function


def payload(task: Task) -> dict[str, Any]:
    """Return what a worker needs of a task."""
    return {
        "number": task.number,
        "settings": dict(task.settings),
        "columns": dict(task.columns),
        "keys": task.keys,
        "lanes": task.lanes,
        "plugins": plugins.loaded(),
    }


def execute(
    function: ChunkFunction,
    message: Mapping[str, Any],
    on_segment: Callable[[Any], None] | None = None,
) -> dict[str, Any]:
    """Run the chunk in `message`; return the fields of a `Result` as plain data.

    Raises `OutOfMemory` where the memory did not suffice, whatever the library calls it. The
    plugins that are loaded are those of the driver, whose user has typed or installed them.
    """
    plugins.load_all(message["plugins"])
    plugins.expect(message["settings"]["plugins"], "chunk")
    try:
        found = function(
            Settings(**message["settings"]),
            {name: np.asarray(column) for name, column in message["columns"].items()},
            np.asarray(message["keys"], dtype=np.uint32),
            lanes=message["lanes"],
            on_segment=on_segment,
        )
    except MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        if any(word in str(error) for word in _MEMORY_WORDS):
            raise OutOfMemory(str(error)) from error
        raise
    curves = getattr(found, "curves", None) or {}
    return {
        "returns": np.asarray(found.returns, dtype=np.float64),
        "greedy_returns": np.asarray(found.greedy_returns, dtype=np.float64),
        "diverged_at": np.asarray(found.diverged_at, dtype=np.int64),
        "wall_seconds": float(found.wall_seconds),
        "lanes": int(found.lanes),
        "device": str(found.device),
        "curves": {name: np.asarray(values, dtype=np.float64) for name, values in curves.items()},
        "provenance": provenance.of(message["settings"]["environment"]),
        "random_return": getattr(found, "random_return", None),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def as_result(fields: Mapping[str, Any], task: Task) -> Result:
    """Check that what came back has the shape of the task; return it as a `Result`."""
    names = Result.__dataclass_fields__
    result = Result(**{name: fields[name] for name in names})
    count = len(task)
    for name in ("returns", "greedy_returns", "diverged_at"):
        array = getattr(result, name)
        if len(array) != count:
            raise ValueError(f"chunk {task.number}: {name} of {len(array)} runs, expected {count}")
    return result


def fraction_of(progress: Any) -> float:
    """Return how much of a chunk is done, from what the chunk function reports."""
    fraction = getattr(progress, "fraction", None)
    if fraction is None:
        fraction = progress if isinstance(progress, (int, float)) else 0.0
    return float(fraction)
