"""The default engine: one worker process per core (pinned, single-threaded XLA) or accelerator.

Workers are plain child processes that talk over a socket. The driver watches all sockets at once: a
message is progress or a result, the end of a stream is a death. A dead worker is replaced and its
chunk run again, at most `RETRIES` times.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrorax.runs.settings import Settings
from mirrorax.sweep import execute, rates, wire
from mirrorax.sweep.engine import RETRIES, Activity, Engine, EngineError
from mirrorax.sweep.plan import Queue
from mirrorax.sweep.task import CHUNK_FUNCTION, Outcome, Task

#: One process with XLA's own threads on 2 cores is much slower than two single-threaded ones.
CPU_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
CPU_XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

_TAIL_BYTES = 4000
_TAIL_LINES = 25
_START_FAILURES = 3


@dataclass
class _Process:
    """A worker process and what it is doing."""

    index: int
    process: subprocess.Popen[bytes]
    connection: socket.socket
    log: Path
    decoder: wire.Decoder = field(default_factory=wire.Decoder)
    ready: bool = False
    task: Task | None = None
    configuration: int | None = None
    fraction: float = 0.0
    since: float = 0.0
    overdue: bool = False  # ended by us, because its chunk took too long


def cores() -> list[int]:
    """Return the cores this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


class LocalEngine(Engine):
    """Worker processes on this machine."""

    def __init__(
        self,
        *,
        logs: Path,
        workers: int | None = None,
        gpus: int = 0,
        function: str = CHUNK_FUNCTION,
        chunk_timeout: float | None = None,
    ) -> None:
        self._cores = cores()
        self._gpus = gpus
        self.workers = workers or gpus or len(self._cores)
        self._logs = logs
        self._function = function
        self._timeout = chunk_timeout
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()
        self._queue: Queue | None = None
        self._attempts: Counter[int] = Counter()
        self._failed_starts = 0
        self._cancelled = False
        self._restarts = 0

    # --- the contract ---

    def start(self, queue: Queue) -> None:
        """Start the workers; each gets a chunk as soon as it is ready."""
        self._queue = queue
        for index in range(min(self.workers, len(queue))):
            self._spawn(index)

    def busy(self) -> bool:
        """Return whether chunks are waiting or under way."""
        waiting = self._queue is not None and len(self._queue) > 0 and not self._cancelled
        return waiting or any(worker.task is not None for worker in self._processes)

    def finished(self, timeout: float) -> list[Outcome]:
        """Hand out chunks, wait for news, and return the chunks that have ended."""
        for worker in list(self._processes):
            self._hand_out(worker)
        outcomes: list[Outcome] = []
        for key, _ in self._selector.select(timeout):
            outcomes.extend(self._attend(key.data))
        outcomes.extend(self._overdue())
        return outcomes

    def cancel(self) -> None:
        """Start nothing more; ask the workers to stop at their next segment."""
        self._cancelled = True
        if self._queue is not None:
            self._queue.clear()
        for worker in self._processes:
            with contextlib.suppress(wire.Closed, OSError):
                wire.send(worker.connection, {"kind": "stop"})

    def activities(self) -> list[Activity]:
        """Return what every worker is doing."""
        now = time.monotonic()
        return [
            Activity(
                worker=f"worker {worker.index}",
                label=worker.task.label if worker.task else "",
                runs=len(worker.task) if worker.task else 0,
                fraction=worker.fraction,
                seconds=now - worker.since if worker.task else 0.0,
                expected=worker.task.seconds if worker.task else 0.0,
                note="" if worker.ready else "starting",
                configuration=worker.task.configuration if worker.task else -1,
            )
            for worker in sorted(self._processes, key=lambda worker: worker.index)
        ]

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
        self._selector.close()

    # --- processes ---

    def _environment(self, index: int) -> dict[str, str]:
        if self._gpus:
            return {**os.environ, "CUDA_VISIBLE_DEVICES": str(index % self._gpus)}
        flags = f"{os.environ.get('XLA_FLAGS', '')} {CPU_XLA_FLAGS}".strip()
        return {**os.environ, **CPU_ENVIRONMENT, "XLA_FLAGS": flags}

    def _spawn(self, index: int) -> None:
        ours, theirs = socket.socketpair()
        core = -1 if self._gpus else self._cores[index % len(self._cores)]
        log = self._logs / f"worker-{index}.log"
        command = [sys.executable, "-P", "-m", "mirrorax.sweep.worker", str(theirs.fileno())]
        with theirs, log.open("wb") as output:
            process = subprocess.Popen(
                [*command, str(os.getpid()), self._function, str(core)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment(index),
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal reaches the driver alone
            )
        worker = _Process(index, process, ours, log)
        self._processes.append(worker)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hand_out(self, worker: _Process) -> None:
        if self._cancelled or not worker.ready or worker.task is not None or self._queue is None:
            return
        task = self._queue.take(worker.configuration)
        if task is None:
            return
        worker.task, worker.configuration = task, task.configuration
        worker.fraction, worker.since = 0.0, time.monotonic()
        # A worker that has just died is noticed when its stream ends.
        with contextlib.suppress(wire.Closed):
            wire.send(worker.connection, {"kind": "task", **execute.payload(task)})

    def _attend(self, worker: _Process) -> list[Outcome]:
        try:
            messages = wire.receive(worker.connection, worker.decoder)
        except wire.Closed:
            return self._bury(worker)
        outcomes: list[Outcome] = []
        for message in messages:
            outcomes.extend(self._handle(worker, message))
        return outcomes

    def _handle(self, worker: _Process, message: dict[str, Any]) -> list[Outcome]:
        kind = message["kind"]
        if kind == "ready":
            worker.ready = True
            self._failed_starts = 0
        elif kind == "progress":
            worker.fraction = message["fraction"]
        if kind not in ("result", "error", "stopped"):
            return []
        task, worker.task = worker.task, None
        if task is None or message["number"] != task.number:
            raise EngineError(f"worker {worker.index} answered for a chunk it was not given")
        if kind == "stopped":
            return []
        if kind == "result":
            try:
                result = execute.as_result(message["fields"], task)
            except (KeyError, ValueError) as error:
                return self._again(task, f"not a result: {error}")
            return [Outcome(task, result, attempts=self._attempts[task.number] + 1)]
        if message["memory"]:
            return [self._give_up(task, self._memory_text(task, message["text"]))]
        return self._again(task, f"{message['text']}\n{self._tail(worker)}".strip())

    def _bury(self, worker: _Process) -> list[Outcome]:
        """A worker's stream has ended: find out why, replace it, and run its chunk again."""
        self._selector.unregister(worker.connection)
        worker.connection.close()
        self._processes.remove(worker)
        try:
            code = worker.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            code = worker.process.wait()
        if self._cancelled:
            return []
        ended = self._too_long() if worker.overdue else _ended(code)
        reason = f"{ended}\n{self._tail(worker)}".strip()
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _START_FAILURES:
                raise EngineError(f"workers cannot start: {reason}")
        outcomes: list[Outcome] = []
        if worker.task is not None:
            if code == -signal.SIGKILL and not worker.overdue:
                reason += "\n" + self._fits(worker.task)
            outcomes = self._again(worker.task, reason)
        if self._queue is not None and len(self._queue) > 0:
            self._restarts += 1
            self._spawn(worker.index)
        return outcomes

    def _again(self, task: Task, reason: str) -> list[Outcome]:
        self._attempts[task.number] += 1
        if self._attempts[task.number] > RETRIES:
            return [self._give_up(task, reason)]
        if self._queue is not None and not self._cancelled:
            self._queue.put_back(task)
        return []

    def _give_up(self, task: Task, reason: str) -> Outcome:
        return Outcome(task, None, reason, attempts=max(self._attempts[task.number], 1))

    def _overdue(self) -> list[Outcome]:
        if self._timeout is not None:
            for worker in self._processes:
                if worker.task and time.monotonic() - worker.since > self._timeout:
                    worker.overdue = True
                    worker.process.kill()  # its stream ends, and it is handled as a death
        return []

    # --- words ---

    def _tail(self, worker: _Process) -> str:
        try:
            data = worker.log.read_bytes()[-_TAIL_BYTES:]
        except OSError:
            return ""
        return "\n".join(data.decode(errors="replace").splitlines()[-_TAIL_LINES:])

    def _too_long(self) -> str:
        return f"the chunk took longer than --chunk-timeout {self._timeout:g} s; it was stopped"

    def _fits(self, task: Task) -> str:
        lanes = rates.lanes_that_fit(Settings(**task.settings), self.workers)
        return (
            f"if the kernel killed it for want of memory: it ran {task.lanes} lanes, "
            f"about {lanes} would fit now"
        )

    def _memory_text(self, task: Task, text: str) -> str:
        lanes = rates.lanes_that_fit(Settings(**task.settings), self.workers)
        return f"out of memory at {task.lanes} lanes; about {lanes} would fit ({text[:500]})"


def _ended(code: int) -> str:
    if code < 0:
        try:
            return f"the worker was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"the worker was killed by signal {-code}"
    return f"the worker ended with exit code {code}"
