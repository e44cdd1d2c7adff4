"""What a person sees and does while training runs: a progress bar, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


def leave() -> NoReturn:
    """End the process without Python's teardown, which XLA's threads would not survive."""
    print("mirrorax: interrupted", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)


#: how long the first Ctrl-C waits for the end of a segment, or of a compilation
PATIENCE_SECONDS = 3.0


class Stop:
    """Ctrl-C while jax works: an exception would be lost in its callbacks, a flag is not.

    The first one is heard of at the next `check`. If none comes in a few seconds, because jax
    compiles, or at the second one, the process ends at once. A thread sees to that: a handler in
    Python would have to wait until jax returns.
    """

    def __init__(self) -> None:
        #: what to do before the process ends at once
        self.cleanup: list[Callable[[], None]] = []
        self._asked = False
        self._holding = False
        self._ending = threading.Lock()
        self._before: Any = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Stop:
        """Listen, unless whoever started us wants it ignored, as a shell does in the background."""
        ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)
        if threading.current_thread() is threading.main_thread() and not ignored:
            self._before = signal.signal(signal.SIGINT, self._hear)
            heard, self._told = os.pipe()
            os.set_blocking(self._told, False)
            self._told_before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
            self._thread = threading.Thread(target=self._watch, args=(heard,), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        if self._thread is not None:
            signal.set_wakeup_fd(self._told_before)
            os.close(self._told)
            self._thread.join()
            self._thread = None
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, *_: object) -> None:
        if self._asked and not self._holding:
            self._end()
        self._asked = True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let the process not be ended in here, but after it: for what must be done whole.

        The thread waits for the lock. A handler on this thread would wait for itself, and so leaves
        the end to the thread.
        """
        self._holding = True
        try:
            with self._ending:
                yield
        finally:
            self._holding = False

    def _watch(self, heard: int) -> None:
        """Read the numbers of the signals, until the other end of the pipe is closed."""
        times, wait = 0, None
        while select.select([heard], [], [], wait)[0]:
            numbers = os.read(heard, 64)
            times += numbers.count(signal.SIGINT)
            if not numbers:
                os.close(heard)
                return
            if times > 1:
                break
            wait = PATIENCE_SECONDS if times else None
        self._end()

    def _end(self) -> None:
        """End the process; whoever comes second waits for that."""
        self._ending.acquire()
        for action in self.cleanup:
            action()
        # The bar may have hidden the cursor; print could be what we interrupt.
        shown = b"\x1b[?25h\n" if sys.stderr.isatty() else b""
        os.write(2, shown + b"mirrorax: interrupted\n")
        os._exit(130)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed."""
        if self._asked:
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

    def __exit__(self, *_: object) -> None:
        """Leave it as it stands."""
        self._bar.stop()

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
