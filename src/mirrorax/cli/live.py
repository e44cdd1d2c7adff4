"""What a person sees and does while training runs: a progress bar, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any, NoReturn


def leave() -> NoReturn:
    """End the process without Python's teardown, which XLA's threads would not survive."""
    print("mirrorax: interrupted", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(130)


class Stop:
    """Ctrl-C while jax works: an exception would be lost in its callbacks, a flag is not.

    The first one is heard of at the next `check`, the second one ends the process at once.
    """

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Stop:
        """Listen."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        """Listen no more."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _hear(self, *_: object) -> None:
        if self._asked:
            # The bar may have hidden the cursor; print could be what we interrupt.
            shown = b"\x1b[?25h\n" if sys.stderr.isatty() else b""
            os.write(2, shown + b"mirrorax: interrupted\n")
            os._exit(130)
        self._asked = True

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
