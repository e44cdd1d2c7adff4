"""What is shown while a sweep runs: a live picture on a terminal, lines in a log otherwise."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from mirrorax.formatting import counted, duration, rate
from mirrorax.sweep.progress import SweepProgress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_LINE_EVERY = 10.0


class Display(Protocol):
    """Somewhere to show progress."""

    def show(self, progress: SweepProgress) -> None:
        """Show the present state."""

    def say(self, text: str) -> None:
        """Say something that stays."""

    def close(self, progress: SweepProgress | None) -> None:
        """Show the last state and leave the terminal as it was."""


class Silent:
    """Show nothing."""

    def show(self, progress: SweepProgress) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def close(self, progress: SweepProgress | None) -> None:
        """Do nothing."""


class Lines:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def show(self, progress: SweepProgress) -> None:
        """Print a line if the last one is some time ago."""
        if time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self.say(_line(progress))

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=sys.stderr, flush=True)

    def close(self, progress: SweepProgress | None) -> None:
        """Print the last state."""
        if progress is not None:
            self.say(_line(progress))


class Live:
    """A bar per worker and one over all, redrawn in place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live as RichLive

        self._console = console
        self._live = RichLive(console=console, auto_refresh=False, transient=False)

    def show(self, progress: SweepProgress) -> None:
        """Redraw."""
        if not self._live.is_started:
            self._live.start()  # not before: an early error must leave the terminal alone
        self._live.update(_picture(progress), refresh=True)

    def say(self, text: str) -> None:
        """Print a line above the picture."""
        self._console.print(text, markup=False, highlight=False)

    def close(self, progress: SweepProgress | None) -> None:
        """Draw the last state and give the terminal back."""
        if progress is not None:
            self.show(progress)
        if self._live.is_started:
            self._live.stop()


def make(*, quiet: bool = False) -> Display:
    """Return the display that suits where standard error goes."""
    if quiet:
        return Silent()
    if sys.stderr.isatty():
        from rich.console import Console

        return Live(Console(stderr=True))
    return Lines()


def _counts(progress: SweepProgress) -> str:
    present = progress.before + progress.done
    text = f"{present:,} of {progress.total:,} runs"
    if progress.failed:
        text += f", {progress.failed:,} failed"
    if progress.diverged:
        text += f", {progress.diverged:,} diverged"
    return text


def _speed(progress: SweepProgress) -> str:
    if not progress.done and progress.activities:
        return "compiling" if progress.compiling else "first runs under way"
    return f"{rate(progress.rate())}, {duration(progress.seconds_left())} left"


def _line(progress: SweepProgress) -> str:
    best = progress.best()
    return f"{_counts(progress)}; {_speed(progress)}" + (f"; best {best}" if best else "")


def _picture(progress: SweepProgress) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(width=30)
    grid.add_column(no_wrap=True)
    for activity in progress.activities:
        detail = activity.note or "idle"
        if activity.label:
            parts = [activity.label, counted(activity.runs, "run"), duration(activity.seconds)]
            detail = ", ".join([*parts, *([activity.note] if activity.note else [])])
        bar = ProgressBar(total=1.0, completed=min(activity.fraction, 1.0), width=30)
        grid.add_row(activity.worker, bar, detail)
    present = progress.before + progress.done
    whole = ProgressBar(total=max(progress.total, 1), completed=present, width=30)
    grid.add_row("all", whole, f"{_counts(progress)}; {_speed(progress)}")
    best = progress.best()
    return Group(grid, Text(f"best cell so far: {best}")) if best else Group(grid)
