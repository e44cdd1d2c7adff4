"""A chunk in another process, bytes in and bytes out: `run_chunk`, the same for every engine.

The module is also the worker process of the local engine, which is started as
`python -m mirrorax.sweep.worker FD PARENT FUNCTION CORE`. It receives chunks over a socket, trains
them one after the other and sends back the bytes of their outcomes. A message is a line of JSON,
followed by bytes where it says so in its `kind`. The worker never outlives its driver: the kernel
kills it when the driver dies (where it can), and the end of the socket ends it otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
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


# --- the process of the local engine --------------------------------------------------------------

_PR_SET_PDEATHSIG = 1
_REPORT_EVERY = 0.25
_TRIES = 50  # to lower the priority


def send(connection: Connection, message: dict[str, Any], payload: bytes = b"") -> None:
    """Send a message. Only bytes are sent, never objects, which would be pickled."""
    connection.send_bytes(json.dumps(message).encode() + b"\n" + payload)


def receive(connection: Connection) -> tuple[dict[str, Any], bytes]:
    """Wait for a message; raise `EOFError` or `OSError` if the other side is gone."""
    message, _, payload = connection.recv_bytes().partition(b"\n")
    return json.loads(message), payload


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; leave if that has happened."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def keep_niceness() -> None:
    """Stay as low in priority as the sweep was started.

    A worker is a session of its own, which Linux may schedule as a group (autogroup): niceness then
    counts inside the group only, and one whole group has the same share as another.
    """
    niceness = os.nice(0) if hasattr(os, "nice") else 0
    if niceness <= 0:  # a higher priority than others needs a right
        return
    for _ in range(_TRIES):
        try:
            with open("/proc/self/autogroup", "w") as group:
                group.write(str(niceness))
        except BlockingIOError:  # the kernel lets one process of all do this each tenth of a second
            time.sleep(0.1 + 0.01 * (os.getpid() % 20))
        except OSError:
            return  # no such groups here
        else:
            return


class Worker:
    """One connection to the driver, one chunk at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._received: queue.Queue[tuple[dict[str, Any], bytes]] = queue.Queue()
        self._stopping = threading.Event()
        self._reported = 0.0

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        """Send a message; leave if the driver is gone."""
        try:
            send(self._connection, message, payload)
        except OSError:
            os._exit(0)

    def listen(self) -> None:
        """Receive until the driver closes the connection, then leave at once."""
        while True:
            try:
                message, payload = receive(self._connection)
            except (EOFError, OSError):
                os._exit(0)
            if message["kind"] == "stop":
                self._stopping.set()
            self._received.put((message, payload))

    def on_segment(self, progress: Any) -> None:
        """Report how far the chunk is; drop it if the driver has asked to stop."""
        if self._stopping.is_set():
            raise StopChunk
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY:
            self._reported = now
            self.send({"kind": "progress", "fraction": float(progress.fraction)})

    def serve(self, function_name: str) -> None:
        """Import the chunk function, say so, and train what comes."""
        function = resolve(function_name)
        self.send({"kind": "ready"})
        while True:
            message, chunk = self._received.get()
            if message["kind"] == "stop":
                return
            answer: dict[str, Any] = {"number": message["number"]}
            try:
                data = run_chunk(function, chunk, message["plugins"], self.on_segment)
            except StopChunk:
                self.send({**answer, "kind": "stopped"})
            except OutOfMemory as error:
                self.send({**answer, "kind": "error", "memory": True, "text": str(error)})
            except Exception as error:
                traceback.print_exc()
                sys.stderr.flush()
                text = "".join(traceback.format_exception_only(error)).strip()
                self.send({**answer, "kind": "error", "memory": False, "text": text})
            else:
                self.send({**answer, "kind": "outcome"}, data)


def main(arguments: list[str]) -> int:
    """Run a worker process."""
    descriptor, parent, function_name, core = arguments
    die_with(int(parent))
    keep_niceness()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    if int(core) >= 0:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {int(core)})
    worker = Worker(Connection(int(descriptor)))
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.serve(function_name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
