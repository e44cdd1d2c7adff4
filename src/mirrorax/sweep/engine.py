"""The contract of an engine: pull chunks, yield outcomes, cancel. Adding one is one file.

The driver calls, from one thread:

    engine.start(queue)
    while engine.busy():
        for outcome in engine.finished(timeout=0.2): ...
    engine.close()

An engine takes a chunk from the queue when it has room for one, tries it again where the fault was
the machine's (at most `RETRIES` times), and returns every chunk it took exactly once: as a result
or as a reason. It never touches the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mirrorax.sweep.plan import Queue
from mirrorax.sweep.task import Outcome

#: How often a chunk is run again after its worker died.
RETRIES = 3


class EngineError(Exception):
    """The engine cannot work at all; the text says why."""


@dataclass(frozen=True)
class Activity:
    """What one worker is doing, for the display."""

    worker: str
    label: str  # environment and pair; "" if idle
    runs: int
    fraction: float
    seconds: float  # since the chunk was started
    expected: float = 0.0  # how long it should take in all
    note: str = ""
    configuration: int = -1  # of the chunk


class Engine(ABC):
    """Something that computes chunks."""

    #: how many chunks are computed at once
    workers: int

    @abstractmethod
    def start(self, queue: Queue) -> None:
        """Begin to take chunks from the queue."""

    @abstractmethod
    def busy(self) -> bool:
        """Return whether chunks are waiting or under way."""

    @abstractmethod
    def finished(self, timeout: float) -> list[Outcome]:
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
