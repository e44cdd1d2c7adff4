"""The contract of an engine: pull chunks, yield outcomes, cancel. Adding one is one file.

The driver calls, from one thread:

    engine.start(queue)
    while engine.busy():
        for finished in engine.finished(timeout=0.2): ...
    engine.close()

An engine takes a chunk from the queue when it has room for one, tries it again where the fault was
the machine's (at most `RETRIES` times), and returns every chunk it took exactly once: with the
bytes of its outcome, which is a result or a failure. It never touches the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mirrorax import plugins
from mirrorax.errors import Failure, UserError
from mirrorax.mdpo import machine
from mirrorax.runs import arrow
from mirrorax.runs.arrow import Damaged
from mirrorax.runs.chunk import Outcome
from mirrorax.runs.results import Results, from_arrow
from mirrorax.sweep.measure import known_sizes
from mirrorax.sweep.plan import Queue, QueuedChunk
from mirrorax.sweep.worker import ChunkFunction, run_chunk

#: How often a chunk is run again after its worker died.
RETRIES = 3


class EngineError(Failure):
    """The engine cannot work at all; the text says why."""


class NoResult(Exception):
    """What a worker sent is not the outcome of its chunk."""


@dataclass(frozen=True, eq=False)
class FinishedChunk:
    """A chunk that has ended, with its outcome."""

    queued: QueuedChunk
    data: bytes  # those of the outcome
    results: Results  # the same, read


@dataclass(frozen=True)
class Activity:
    """What one worker is doing, for the display."""

    worker: str
    queued: QueuedChunk | None = None  # None if it is idle
    fraction: float = 0.0
    seconds: float = 0.0  # since the chunk was started
    note: str = ""


class Engine(ABC):
    """Something that computes chunks."""

    #: how many chunks are computed at once
    workers: int
    queue: Queue

    def start(self, queue: Queue) -> None:
        """Take chunks from this queue, from the first call of `finished` on."""
        self.queue = queue

    @abstractmethod
    def busy(self) -> bool:
        """Return whether chunks are waiting or under way."""

    @abstractmethod
    def finished(self, timeout: float) -> list[FinishedChunk]:
        """Return the chunks that have ended; wait for one at most this long."""

    @abstractmethod
    def cancel(self) -> None:
        """Start nothing more; ask what is under way to stop at its next segment."""

    @abstractmethod
    def activities(self) -> list[Activity]:
        """Return what every worker is doing."""

    @abstractmethod
    def kill(self) -> None:
        """End every worker at once. Called from a signal handler: must not block."""

    @abstractmethod
    def close(self) -> None:
        """End every worker and wait until they are gone."""


def accept(queued: QueuedChunk, data: bytes) -> FinishedChunk:
    """Return a chunk with the outcome that came back; raise `NoResult` if it is not one of it."""
    try:
        results = from_arrow(arrow.decode(data))
        if (results.ids != queued.chunk.ids).any():
            raise Damaged("it is not of the runs of its chunk")
    except (Damaged, UserError, ValueError, KeyError) as error:
        raise NoResult(f"not a result: {error}") from None
    return FinishedChunk(queued, data, results)


def give_up(queued: QueuedChunk, reason: str, attempts: int = 1) -> FinishedChunk:
    """Return a chunk that has no result, with the reason."""
    text = f"given up after {attempts} attempts: {reason}"
    origin = machine.collect(lanes=queued.chunk.lanes)
    return accept(queued, Outcome.failed(queued.chunk, text, origin).to_bytes())


def out_of_memory(queued: QueuedChunk, workers: int, text: str) -> FinishedChunk:
    """Return a chunk that did not fit, and say what would."""
    fits = fitting(queued, workers)
    reason = f"out of memory at {queued.chunk.lanes} lanes; {fits} ({text[:500]})"
    return give_up(queued, reason)


def fitting(queued: QueuedChunk, workers: int) -> str:
    """Say how many lanes of a chunk's program fit, as far as its sizes are known."""
    settings = queued.chunk.settings
    sizes = known_sizes([settings]).get(settings)
    return (
        f"about {sizes.lanes_that_fit(workers)} would fit now" if sizes else "run with fewer lanes"
    )


class InlineEngine(Engine):
    """The simplest engine: chunks one after the other in this process."""

    workers = 1

    def __init__(self, function: ChunkFunction) -> None:
        self._function = function
        self._configuration: int | None = None

    def busy(self) -> bool:
        """Return whether chunks are waiting."""
        return len(self.queue) > 0

    def finished(self, timeout: float) -> list[FinishedChunk]:
        """Run the next chunk."""
        queued = self.queue.take(self._configuration)
        if queued is None:
            return []
        self._configuration = queued.configuration
        try:
            data = run_chunk(self._function, queued.chunk.to_bytes(), plugins.loaded())
            return [accept(queued, data)]
        except Exception as error:
            return [give_up(queued, f"{type(error).__name__}: {error}")]

    def cancel(self) -> None:
        """Start nothing more."""
        self.queue.clear()

    def activities(self) -> list[Activity]:
        """Return nothing: between two calls nothing happens."""
        return []

    def kill(self) -> None:
        """Do nothing: there are no workers to end."""

    def close(self) -> None:
        """Do nothing: there are no workers to end."""
