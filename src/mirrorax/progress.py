"""The progress bar of a training, in a terminal and in a notebook."""

from __future__ import annotations

import sys
from typing import Any


def visible() -> bool:
    """Return whether a bar can be seen: in a terminal, or in a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class Bar:
    """A progress bar on standard error, with the mean return so far.

    Unless it is said whether to `show` it, it is shown where somebody can see it.
    """

    def __init__(self, env: str, show: bool | None = None) -> None:
        self._shown = visible() if show is None else show
        if not self._shown:
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._env = env
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[seen]}"),
            TimeRemainingColumn(),
            console=None if "ipykernel" in sys.modules else Console(file=sys.stderr),
        )
        self._task = self._bar.add_task(f"{env} (compiling)", total=None, seen="")

    def __enter__(self) -> Bar:
        """Show it."""
        if self._shown:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Leave it as it is; remove it if there was an error, which is one line."""
        if not self._shown:
            return
        if kind is None:
            self._bar.stop()
        else:
            self._bar.live.transient = True
            self._bar.live.stop()

    def __call__(self, progress: Any) -> None:
        """Move it on."""
        if not self._shown:
            return
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
