"""A worker process of the local engine: `python -m mirrorax.sweep.worker FD PARENT FUNCTION CORE`.

It reads tasks from a socket, runs them one after the other and sends back results. It never
outlives its driver: the kernel kills it when the driver dies (where it can), and the end of the
socket ends it otherwise.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from typing import Any

_PR_SET_PDEATHSIG = 1
_REPORT_EVERY = 0.25
_TRIES = 50  # to be nice


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
    if niceness <= 0:  # only to be lower than others takes no right
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

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._tasks: queue.Queue[dict[str, Any]] = queue.Queue()
        self._stopping = threading.Event()
        self._sending = threading.Lock()
        self._reported = 0.0

    def send(self, **message: Any) -> None:
        """Send a message; leave if the driver is gone."""
        from mirrorax.sweep import wire

        with self._sending:
            try:
                wire.send(self._connection, message)
            except wire.Closed:
                os._exit(0)

    def listen(self) -> None:
        """Receive until the driver closes the connection, then leave at once."""
        from mirrorax.sweep import wire

        decoder = wire.Decoder()
        while True:
            try:
                messages = wire.receive(self._connection, decoder)
            except (wire.Closed, OSError):
                os._exit(0)
            for message in messages:
                if message["kind"] == "stop":
                    self._stopping.set()
                self._tasks.put(message)

    def on_segment(self, progress: Any) -> None:
        """Report how far the chunk is; drop it if the driver has asked to stop."""
        from mirrorax.sweep.execute import fraction_of
        from mirrorax.sweep.task import Stop

        if self._stopping.is_set():
            raise Stop
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY:
            self._reported = now
            self.send(kind="progress", fraction=fraction_of(progress))

    def serve(self, function_name: str) -> None:
        """Import the chunk function, say so, and run what comes."""
        from mirrorax.sweep import execute
        from mirrorax.sweep.task import OutOfMemory, Stop

        function = execute.resolve(function_name)
        self.send(kind="ready")
        while True:
            message = self._tasks.get()
            if message["kind"] == "stop":
                return
            number = message["number"]
            try:
                fields = execute.execute(function, message, self.on_segment)
            except Stop:
                self.send(kind="stopped", number=number)
            except OutOfMemory as error:
                self.send(kind="error", number=number, memory=True, text=str(error))
            except Exception as error:
                traceback.print_exc()
                sys.stderr.flush()
                text = "".join(traceback.format_exception_only(error)).strip()
                self.send(kind="error", number=number, memory=False, text=text)
            else:
                self.send(kind="result", number=number, fields=fields)


def main(arguments: list[str]) -> int:
    """Run a worker process."""
    descriptor, parent, function_name, core = arguments
    die_with(int(parent))
    keep_niceness()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    if int(core) >= 0:
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {int(core)})
    worker = Worker(socket.socket(fileno=int(descriptor)))
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.serve(function_name)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
