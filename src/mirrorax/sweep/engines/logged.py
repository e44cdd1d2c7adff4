"""Any engine, with its finished chunks written by a logger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrorax.callbacks import Logger
from mirrorax.errors import in_one_line
from mirrorax.sweep.engine import FinishedChunk


class LoggedEngine:
    """An engine whose chunks are logged after the store has them.

    A logger that fails is named once and then left out: the sweep goes on.
    """

    def __init__(self, engine: Any, logger: Logger, say: Callable[[str], None]) -> None:
        self._engine, self._say = engine, say
        self._logger: Logger | None = logger
        self._waiting: list[FinishedChunk] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def finished(self, timeout: float) -> list[FinishedChunk]:
        """Log the chunks that were handed out before: they are in the store now."""
        self._log()
        self._waiting = self._engine.finished(timeout)
        return self._waiting

    def close(self) -> None:
        """Log the last chunks and close the engine."""
        try:
            self._log()
        finally:
            self._engine.close()

    def _log(self) -> None:
        for chunk in self._waiting:
            if self._logger is None or not chunk.results.done.all():
                continue
            try:
                name = f"{chunk.queued.label}, {chunk.results.ids[0].decode()[:8]}"
                self._logger.log_chunk(name.replace("/", "_"), chunk.results)
            except Exception as error:
                name = type(self._logger).__name__
                self._logger = None
                self._say(f"log: {name} raised {in_one_line(error)}; nothing more is logged")
        self._waiting = []
