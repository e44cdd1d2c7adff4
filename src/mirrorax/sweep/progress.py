"""How a sweep is doing (counts, rate, time left, the best cell), and how that is shown.

It is a live picture on a terminal, and lines in a log otherwise.
"""

from __future__ import annotations

import math
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Int

from mirrorax.envs import suite
from mirrorax.formatting import counted, duration, rate
from mirrorax.runs import arrow
from mirrorax.runs.results import Results
from mirrorax.store.reading import Reader
from mirrorax.sweep.engine import Activity
from mirrorax.sweep.measure import COMPILE_SECONDS
from mirrorax.sweep.plan import Plan, QueuedChunk

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_WINDOW = 300.0  # seconds over which the rate is measured
_BEST_EVERY = 2.0  # looking through a hundred thousand cells takes a while
_TELLING = 0.05  # a chunk this far along says more of its length than the prediction


@dataclass
class SweepProgress:
    """The state of a running sweep."""

    plan: Plan
    workers: int
    started: float = field(default_factory=time.monotonic)
    done: int = 0  # runs of this session
    failed: int = 0
    diverged: int = 0
    predicted: float = 0.0  # what the finished chunks should have taken
    actual: float = 0.0  # what they took
    activities: list[Activity] = field(default_factory=list)
    #: (configuration, alpha or w, lambda, reward scale) -> sum of scores and their number
    cells: dict[tuple[int, float, float, float], tuple[float, int]] = field(default_factory=dict)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _best: tuple[float, str] = (-1e9, "")  # when it was looked for, and what was best

    def __post_init__(self) -> None:
        self.before = int(self.plan.done.sum())
        self.total = len(self.plan.runs)
        self._left = sum(chunk.seconds for chunk in self.plan.chunks)
        self._uncompiled = {chunk.configuration for chunk in self.plan.chunks}

    def add(self, queued: QueuedChunk, results: Results) -> None:
        """Count a chunk that has ended."""
        count = len(queued)
        self._left -= queued.seconds
        self._uncompiled.discard(queued.configuration)
        if not results.done.all():
            self.failed += count
            return
        self.done += count
        self.diverged += int(results.diverged.sum())
        self.predicted += queued.seconds
        self.actual += float(results.numbers("wall_seconds").sum())
        now = time.monotonic()
        self._recent.append((now, count))
        while self._recent and now - self._recent[0][0] > _WINDOW:
            self._recent.popleft()
        self._add_cells(results, np.full(count, queued.configuration))

    def _add_cells(self, results: Results, configuration: Int[np.ndarray, " runs"]) -> None:
        """Add the scores of runs, whose configurations in the plan are given.

        Without known bounds of returns there is none: it would change with every better run.
        """
        unknown = (math.nan, math.nan)
        bounds = [b if (b := o.bounds) and b[1] is not None else unknown for o in results.origins]
        low, high = results.of_origins(bounds, np.float64).reshape(-1, 2).T
        scale = results.numbers("reward_scale")
        returns, _ = arrow.read_lists(results.rows["returns"])
        score = suite.normalize(returns.mean(axis=1), (low, high), scale)
        alpha, w = results.numbers("alpha"), results.numbers("w")
        temperature = np.where(np.isnan(alpha), w, alpha)
        columns = np.column_stack([configuration, temperature, results.numbers("lam"), scale])
        held = np.isfinite(score)
        places, which = np.unique(columns[held], axis=0, return_inverse=True)
        sums, counts = np.bincount(which.ravel(), score[held]), np.bincount(which.ravel())
        for (number, *place), more, count in zip(places.tolist(), sums, counts, strict=True):
            cell = (int(number), *place)
            total, seen = self.cells.get(cell, (0.0, 0))
            self.cells[cell] = (total + float(more), seen + int(count))

    def read_cells(self, root: Path) -> None:
        """Take the cells of this study's earlier runs from the store."""
        reader = Reader(root, ["returns", "alpha", "w", "lam", "reward_scale"])
        reader.refresh()
        results = reader.results()
        runs = self.plan.runs
        index = pc.index_in(results.rows["run_id"], value_set=arrow.id_column(runs.ids))
        place = pc.fill_null(index, -1).to_numpy()
        mine = np.flatnonzero((place >= 0) & results.done)
        if len(mine):
            self._add_cells(results.take(mine), runs.configuration[place[mine]])

    @property
    def compiling(self) -> bool:
        """Whether no chunk has reported a segment yet."""
        return not self.done and not any(activity.fraction for activity in self.activities)

    def rate(self) -> float:
        """Return finished runs per second, lately."""
        span = min(time.monotonic() - self.started, _WINDOW)
        return sum(count for _, count in self._recent) / max(span, 1e-3)

    def seconds_left(self) -> float:
        """Return the expected time to the end, corrected by how the predictions have fared."""
        factor = self.actual / self.predicted if self.predicted > 0 else 1.0
        # A chunk that has reported a segment has been compiled.
        running = {activity.configuration for activity in self.activities if activity.fraction > 0}
        left = self._left * factor + len(self._uncompiled - running) * COMPILE_SECONDS
        longest = 0.0
        for activity in self.activities:
            expected = activity.expected * factor
            if activity.fraction > _TELLING:
                expected = activity.seconds / activity.fraction
            own = max(expected - activity.seconds, 0.0)
            left += own - activity.expected * factor
            longest = max(longest, own)
        # A chunk is not divided: the other workers cannot help with it.
        return max(left / max(self.workers, 1), longest, 0.0)

    def best(self) -> str:
        """Return the best cell so far, in words; empty if there is none."""
        now = time.monotonic()
        if now - self._best[0] > _BEST_EVERY:
            self._best = (now, self._find_best())
        return self._best[1]

    def finish(self) -> None:
        """Nothing is under way any more: what is shown now stays."""
        self.activities = []
        self._best = (time.monotonic(), self._find_best())

    def _find_best(self) -> str:
        if not self.cells:
            return ""
        cell, (total, seen) = max(self.cells.items(), key=lambda item: item[1][0] / item[1][1])
        number, heat, lam, scale = cell
        settings = self.plan.runs.configurations[number]
        temperature = "w" if settings.learned_alpha else "alpha"
        schedules = ""
        if (settings.alpha_schedule, settings.lam_schedule) != ("constant", "constant"):
            schedules = f" {settings.alpha_schedule}/{settings.lam_schedule}"
        scaled = "" if scale == 1.0 else f" x{scale:g}"
        return (
            f"{settings.environment}{scaled} ({settings.potential}, {settings.drift}){schedules} "
            f"{temperature}={heat:g} lam={lam:g}: {total / seen:.3f} over {seen}"
        )

    def state(self) -> dict[str, Any]:
        """Return all of it as plain data, for `status`."""
        running: dict[str, int] = {}
        for activity in self.activities:
            if activity.label:
                running[activity.label] = running.get(activity.label, 0) + activity.runs
        return {
            "running": running,
            "rate": self.rate(),
            "seconds_left": self.seconds_left(),
            "workers": self.workers,
            "session_done": self.done,
            "session_failed": self.failed,
            "best": self.best(),
        }


_LINE_EVERY = 10.0


class Display(Protocol):
    """Somewhere to show progress."""

    def show(self, progress: SweepProgress) -> None:
        """Show the present state."""

    def say(self, text: str) -> None:
        """Say something that stays."""

    def close(self, progress: SweepProgress) -> None:
        """Show the last state and leave the terminal as it was."""


class Silent:
    """Show nothing."""

    def show(self, progress: SweepProgress) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def close(self, progress: SweepProgress) -> None:
        """Do nothing."""


class Lines:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def show(self, progress: SweepProgress) -> None:
        """Print a line if the last one is some time ago."""
        if time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self.close(progress)

    def say(self, text: str) -> None:
        """Print a line."""
        print(text, file=sys.stderr, flush=True)

    def close(self, progress: SweepProgress) -> None:
        """Print the state."""
        best = progress.best()
        text = f"{_counts(progress)}; {_speed(progress)}"
        self.say(f"{text}; best {best}" if best else text)


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

    def close(self, progress: SweepProgress) -> None:
        """Draw the last state and give the terminal back."""
        self.show(progress)
        self._live.stop()


def make_display(*, quiet: bool = False) -> Display:
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
