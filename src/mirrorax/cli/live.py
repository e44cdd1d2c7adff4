"""What a person sees and does during training: a progress bar, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

#: how long the first Ctrl-C waits for the end of a segment, or of a compilation
PATIENCE_SECONDS = 1.5


def leave() -> NoReturn:
    """End the process without Python's teardown, which XLA's threads can crash."""
    print("mirrorax: interrupted", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)


class Stop:
    """Ctrl-C while jax works: an exception would be lost in its callbacks, so a flag is set.

    The first Ctrl-C takes effect at the next `check`. If none comes in time, because jax compiles,
    or at the second Ctrl-C, the process ends at once. A thread does that: a signal handler in
    Python has to wait until jax returns.
    """

    def __init__(self) -> None:
        #: what to do before the process ends at once
        self.cleanup: list[Callable[[], None]] = []
        self._requested = False
        self._holding = False
        self._ending = threading.Lock()
        self._previous: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Stop:
        """Listen, unless the signal is ignored, as in background jobs of a shell."""
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._previous = signal.signal(signal.SIGINT, self._handle)
            reading, self._writing = os.pipe()
            os.set_blocking(self._writing, False)
            self._previous_fd = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, args=(reading,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore what was there before."""
        if self._thread is not None:
            signal.set_wakeup_fd(self._previous_fd)
            os.close(self._writing)
            self._thread.join()
            self._thread = None
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, *_: object) -> None:
        if self._requested and not self._holding:
            self._end()
        self._requested = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep the process alive until the end of the block, for work that must not be cut.

        The thread waits for the lock. The handler runs on this thread and cannot wait for it: it
        leaves the end to the thread.
        """
        self._holding = True
        try:
            with self._ending:
                yield
        finally:
            self._holding = False

    def _watch(self, reading: int) -> None:
        """Read the numbers of the signals, until the other end of the pipe is closed."""
        times, wait = 0, None
        while select.select([reading], [], [], wait)[0]:
            numbers = os.read(reading, 64)
            times += numbers.count(signal.SIGINT)
            if not numbers:
                os.close(reading)
                return
            if times > 1:
                break
            wait = PATIENCE_SECONDS if times else None
        self._end()

    def _end(self) -> None:
        """End the process."""
        self._ending.acquire()
        for action in self.cleanup:
            action()
        # The bar may have hidden the cursor, and a print may be what is interrupted.
        cursor = b"\x1b[?25h\n" if sys.stderr.isatty() else b""
        os.write(2, cursor + b"mirrorax: interrupted\n")
        os._exit(130)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self._requested:
            raise KeyboardInterrupt


class Bar:
    """A progress bar on standard error, with the mean return so far."""

    def __init__(self, env: str, hidden: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._env = env
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[seen]}"),
            TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            disable=hidden,
        )
        self._task = self._bar.add_task(f"{env} (compiling)", total=None, seen="")

    def __enter__(self) -> Bar:
        """Show it."""
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave it as it is; remove it if there was an error, which is one line."""
        if kind is None:
            self._bar.stop()
        else:
            self._bar.live.transient = True
            self._bar.live.stop()

    def __call__(self, progress: Any) -> None:
        """Move it on."""
        seen = ""
        if progress.returns is not None:
            seen = f"return {progress.returns.mean():.4g}"
        self._bar.update(
            self._task,
            description=self._env,
            completed=progress.updates_done,
            total=progress.updates_total,
            seen=seen,
        )
