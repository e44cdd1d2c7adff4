"""The simplest engine: chunks one after the other in this process. For tests and benchmarks."""

from __future__ import annotations

from mirrorax.sweep import execute
from mirrorax.sweep.engine import Activity, Engine
from mirrorax.sweep.plan import Queue
from mirrorax.sweep.task import ChunkFunction, Outcome


class InlineEngine(Engine):
    """Run every chunk where the driver runs."""

    workers = 1

    def __init__(self, function: ChunkFunction) -> None:
        self._function = function
        self._queue: Queue | None = None
        self._configuration: int | None = None

    def start(self, queue: Queue) -> None:
        """Begin to take chunks from the queue."""
        self._queue = queue

    def busy(self) -> bool:
        """Return whether chunks are waiting."""
        return self._queue is not None and len(self._queue) > 0

    def finished(self, timeout: float) -> list[Outcome]:
        """Run the next chunk."""
        task = self._queue.take(self._configuration) if self._queue is not None else None
        if task is None:
            return []
        self._configuration = task.configuration
        try:
            fields = execute.execute(self._function, execute.payload(task))
        except Exception as error:
            return [Outcome(task, None, f"{type(error).__name__}: {error}")]
        return [Outcome(task, execute.as_result(fields, task))]

    def cancel(self) -> None:
        """Start nothing more."""
        if self._queue is not None:
            self._queue.clear()

    def activities(self) -> list[Activity]:
        """Return nothing: between two calls nothing happens."""
        return []

    def kill(self) -> None:
        """Start nothing more."""
        self.cancel()

    def close(self) -> None:
        """Do nothing: there is nobody to end."""
