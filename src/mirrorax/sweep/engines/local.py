"""The default engine: one worker process per core (pinned, single-threaded XLA) or accelerator.

Workers are plain child processes that talk over a socket (see `mirrorax.sweep.worker`). The driver
watches all sockets at once: a message is progress or an outcome, the end of a stream is a death. A
dead worker is replaced and its chunk run again, at most `RETRIES` times.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

from mirrorax import plugins
from mirrorax.mdpo import machine
from mirrorax.sweep import engine
from mirrorax.sweep import worker as wire
from mirrorax.sweep.engine import Activity, Engine, EngineError, FinishedChunk
from mirrorax.sweep.plan import QueuedChunk

_TAIL_BYTES = 4000
_TAIL_LINES = 25
_START_FAILURES = 3


@dataclass
class _Process:
    """A worker process and what it is doing."""

    index: int
    process: subprocess.Popen[bytes]
    connection: Connection
    log: Path
    ready: bool = False
    queued: QueuedChunk | None = None
    configuration: int | None = None
    fraction: float = 0.0
    since: float = 0.0
    overdue: bool = False  # ended by us, because its chunk took too long

    def activity(self, now: float) -> Activity:
        name = f"worker {self.index}"
        if self.queued is None:
            return Activity(name, note="" if self.ready else "starting")
        note = "" if self.fraction else "compiling"
        return Activity(name, self.queued, self.fraction, now - self.since, note)

    def log_tail(self) -> str:
        """Return the last lines that the worker has printed."""
        try:
            data = self.log.read_bytes()[-_TAIL_BYTES:]
        except OSError:
            return ""
        return "\n".join(data.decode(errors="replace").splitlines()[-_TAIL_LINES:])


class LocalEngine(Engine):
    """Worker processes on this machine."""

    def __init__(
        self,
        *,
        logs: Path,
        workers: int | None = None,
        gpus: int = 0,
        function: str | None = None,
        chunk_timeout: float | None = None,
    ) -> None:
        self._cores = machine.cores()
        self._gpus = gpus
        self.workers = workers or gpus or len(self._cores)
        self._logs = logs
        self._function = function or wire.CHUNK_FUNCTION
        self._timeout = chunk_timeout
        self._processes: list[_Process] = []
        self._attempts: Counter[int] = Counter()
        self._failed_starts = 0
        self._cancelled = False

    # --- the contract ---

    def busy(self) -> bool:
        """Return whether chunks are waiting or under way."""
        return len(self.queue) > 0 or any(worker.queued for worker in self._processes)

    def finished(self, timeout: float) -> list[FinishedChunk]:
        """Hand out chunks, wait for messages, and return the chunks that have ended."""
        self._spawn_missing()
        for worker in self._processes:
            self._hand_out(worker)
        by_connection = {worker.connection: worker for worker in self._processes}
        ended: list[FinishedChunk] = []
        for connection in wait(list(by_connection), timeout):
            ended.extend(self._attend(by_connection[connection]))  # type: ignore[index]
        self._end_overdue()
        return ended

    def cancel(self) -> None:
        """Start nothing more; ask the workers to stop at their next segment.

        A worker that compiles has no segment to stop at for a while, and no work to lose.
        """
        self._cancelled = True
        self.queue.clear()
        for worker in self._processes:
            with contextlib.suppress(OSError):
                if worker.fraction:
                    wire.send(worker.connection, {"kind": "stop"})
                else:
                    worker.process.kill()

    def activities(self) -> list[Activity]:
        """Return what every worker is doing."""
        ordered = sorted(self._processes, key=lambda worker: worker.index)
        now = time.monotonic()
        return [worker.activity(now) for worker in ordered]

    def kill(self) -> None:
        """End every worker at once."""
        for worker in self._processes:
            with contextlib.suppress(OSError):
                worker.process.kill()

    def close(self) -> None:
        """End every worker and wait until they are gone."""
        self.kill()
        for worker in self._processes:
            worker.process.wait()
            worker.connection.close()
        self._processes.clear()

    # --- processes ---

    def _spawn_missing(self) -> None:
        """Start a worker for each waiting chunk, up to their number: a queue may grow.

        A worker gets a chunk as soon as it is ready.
        """
        taken = {worker.index for worker in self._processes}
        for index in range(min(self.workers, len(self.queue))):
            if index not in taken:
                self._spawn(index)

    def _spawn(self, index: int) -> None:
        ours, theirs = socket.socketpair()
        variables, core = machine.ONE_CPU, self._cores[index % len(self._cores)]
        if self._gpus:
            variables, core = {"CUDA_VISIBLE_DEVICES": str(index % self._gpus)}, -1
        log = self._logs / f"worker-{index}.log"
        command = [sys.executable, "-P", "-m", "mirrorax.sweep.worker", str(theirs.fileno())]
        with theirs, log.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(os.getpid()), self._function, str(core)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=machine.environment(variables),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
            )
        self._processes.append(_Process(index, process, Connection(ours.detach()), log))

    def _hand_out(self, worker: _Process) -> None:
        ready = worker.ready and worker.queued is None
        queued = self.queue.take(worker.configuration) if ready else None
        if queued is None:
            return
        worker.queued, worker.configuration = queued, queued.configuration
        worker.fraction, worker.since = 0.0, time.monotonic()
        message = {"kind": "chunk", "number": queued.number, "plugins": plugins.loaded()}
        with contextlib.suppress(OSError):  # a worker that has just died is noticed when we listen
            wire.send(worker.connection, message, queued.chunk.to_bytes())

    def _attend(self, worker: _Process) -> list[FinishedChunk]:
        """Read the next message of a worker."""
        try:
            message, payload = wire.receive(worker.connection)
        except (EOFError, OSError):
            return self._bury(worker)
        kind = message["kind"]
        if kind == "ready":
            worker.ready = True
            self._failed_starts = 0
            return []
        if kind == "progress":
            worker.fraction = message["fraction"]
            return []
        queued, worker.queued = worker.queued, None
        if queued is None or message["number"] != queued.number:
            raise EngineError(f"worker {worker.index} answered for a chunk it was not given")
        if kind == "stopped":
            return []
        if kind == "outcome":
            try:
                return [engine.accept(queued, payload)]
            except engine.NoResult as error:
                return self._again(queued, str(error))
        if message["memory"]:
            return [engine.out_of_memory(queued, self.workers, message["text"])]
        return self._again(queued, f"{message['text']}\n{worker.log_tail()}".strip())

    def _bury(self, worker: _Process) -> list[FinishedChunk]:
        """A worker's stream has ended: find out why, replace it, and run its chunk again."""
        worker.connection.close()
        self._processes.remove(worker)
        try:
            code = worker.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        if self._cancelled:
            return []
        reason = _end_in_words(code)
        if worker.overdue:
            reason = f"the chunk took longer than --chunk-timeout {self._timeout:g} s; "
            reason += "it was stopped"
        reason = f"{reason}\n{worker.log_tail()}".strip()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _START_FAILURES:
                raise EngineError(f"workers cannot start: {reason}")
        ended: list[FinishedChunk] = []
        if worker.queued is not None:
            if code == -signal.SIGKILL and not worker.overdue:
                lanes = f"it ran {worker.queued.chunk.lanes} lanes"
                advice = engine.fitting(worker.queued, self.workers)
                reason += f"\nif the kernel killed it for lack of memory: {lanes}, {advice}"
            ended = self._again(worker.queued, reason)
        if len(self.queue) > 0:
            self._spawn(worker.index)
        return ended

    def _again(self, queued: QueuedChunk, reason: str) -> list[FinishedChunk]:
        self._attempts[queued.number] += 1
        if self._attempts[queued.number] > engine.RETRIES:
            return [engine.give_up(queued, reason, self._attempts[queued.number])]
        if not self._cancelled:
            self.queue.put_back(queued)
        return []

    def _end_overdue(self) -> None:
        for worker in self._processes if self._timeout is not None else []:
            if worker.queued and time.monotonic() - worker.since > (self._timeout or 0.0):
                worker.overdue = True
                worker.process.kill()  # its stream ends, and it is handled as a death


def _end_in_words(code: int) -> str:
    if code >= 0:
        return f"the worker ended with exit code {code}"
    names = {each.value: each.name for each in signal.Signals}
    return f"the worker was killed by {names.get(-code, f'signal {-code}')}"
