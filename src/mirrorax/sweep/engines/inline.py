"""The simplest engine: chunks one after the other in this process. For tests and benchmarks."""

from __future__ import annotations

from mirrorax import plugins
from mirrorax.sweep.engine import Activity, Engine, FinishedChunk, accept, give_up
from mirrorax.sweep.execute import ChunkFunction, run_chunk
from mirrorax.sweep.plan import Queue


class InlineEngine(Engine):
    """Run every chunk where the driver runs."""

    workers = 1

    def __init__(self, function: ChunkFunction) -> None:
        self._function = function
        self._configuration: int | None = None

    def start(self, queue: Queue) -> None:
        """Begin to take chunks from the queue."""
        self.queue = queue

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
