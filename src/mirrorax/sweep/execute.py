"""One chunk in a worker: bytes in, bytes out. The same few lines for every engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from mirrorax import plugins
from mirrorax.runs.chunk import Chunk, Outcome

#: The function that trains, as "module:attribute". Only workers import it.
CHUNK_FUNCTION = "mirrorax.mdpo.session:train_chunk"

_MEMORY_WORDS = ("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "bad_alloc")


class ChunkFunction(Protocol):
    """`mirrorax.mdpo.session.train_chunk`, or what stands in for it."""

    def __call__(self, chunk: Chunk, *, on_segment: Callable[[Any], None] | None = None) -> Outcome:
        """Train the runs of a chunk."""


class StopChunk(Exception):
    """Raised inside a chunk, between two segments, to drop it."""


class OutOfMemory(Exception):
    """A chunk does not fit; trying again will not help."""


def resolve(name: str) -> ChunkFunction:
    """Import the chunk function from "module:attribute"."""
    if name == CHUNK_FUNCTION:
        from mirrorax.mdpo.machine import enable_cache

        enable_cache()
    module, _, attribute = name.partition(":")
    function: ChunkFunction = getattr(importlib.import_module(module), attribute)
    return function


def run_chunk(
    function: ChunkFunction,
    data: bytes,
    driver_plugins: Iterable[str],
    on_segment: Callable[[Any], None] | None = None,
) -> bytes:
    """Train the chunk in `data`; return the bytes of its outcome.

    The driver's plugins are loaded, whose user has typed or installed them. Raises `OutOfMemory`
    where the memory did not suffice, whatever the library calls it.
    """
    plugins.load_all(driver_plugins)
    chunk = Chunk.from_bytes(data)
    try:
        return function(chunk, on_segment=on_segment).to_bytes()
    except MemoryError as error:
        raise OutOfMemory(str(error)) from error
    except RuntimeError as error:
        if any(word in str(error) for word in _MEMORY_WORDS):
            raise OutOfMemory(str(error)) from error
        raise
