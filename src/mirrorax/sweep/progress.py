"""How a sweep is doing, and how that is shown.

While it runs (`SweepProgress`, `Display`): a live picture on a terminal, lines in a log otherwise.
From another process (`read_status`): what the store alone says, per environment and pair.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.formatting import counted, duration, notebook_line, rate
from mirrorax.runs import arrow
from mirrorax.runs.results import Results
from mirrorax.runs.settings import GRID
from mirrorax.store import files
from mirrorax.store.reading import Reader, latest_study
from mirrorax.store.store import LiveState, read_live
from mirrorax.sweep.engine import Activity
from mirrorax.sweep.measure import COMPILE_SECONDS
from mirrorax.sweep.plan import Plan, QueuedChunk

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live as RichLive


#: The columns that the scores of stored runs need.
SCORE_COLUMNS = ("returns", "reward_scale")
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

    def __post_init__(self) -> None:
        self.before = int(self.plan.done.sum())
        self.failed_before = int(self.plan.failed.sum())
        self.total = len(self.plan.runs)
        self._scores = np.full(self.total, np.nan)
        self._left = sum(chunk.seconds for chunk in self.plan.chunks)
        self._uncompiled = {chunk.configuration for chunk in self.plan.chunks}

    def add(self, queued: QueuedChunk, results: Results) -> None:
        """Count a chunk that has ended."""
        count = len(queued)
        self._left -= queued.seconds
        self._uncompiled.discard(queued.configuration)
        self.failed_before -= int(self.plan.failed[queued.places].sum())
        if not results.done.all():
            self.failed += count
            return
        self.done += count
        self.diverged += int(results.diverged.sum())
        self.predicted += queued.seconds
        self.actual += float(results.numbers("wall_seconds").sum())
        self._scores[queued.places] = _scores(results)

    def add_stored(self, results: Results) -> None:
        """Take the scores of this study's earlier runs, which a store has."""
        place = results.places(arrow.id_column(self.plan.runs.ids))
        mine = np.flatnonzero((place >= 0) & results.done)
        if len(mine):
            self._scores[place[mine]] = _scores(results.take(mine))

    def rate(self) -> float:
        """Return finished runs per second."""
        return self.done / max(time.monotonic() - self.started, 1e-3)

    def seconds_left(self) -> float:
        """Return the expected time to the end, corrected by how the predictions have fared."""
        factor = self.actual / self.predicted if self.predicted > 0 else 1.0
        # A chunk that has reported a segment has been compiled.
        under_way = [(each, each.queued) for each in self.activities if each.queued]
        running = {queued.configuration for each, queued in under_way if each.fraction > 0}
        left = self._left * factor + len(self._uncompiled - running) * COMPILE_SECONDS
        longest = 0.0
        for each, queued in under_way:
            expected = queued.seconds * factor
            if each.fraction > _TELLING:
                expected = each.seconds / each.fraction
            own = max(expected - each.seconds, 0.0)
            left += own - queued.seconds * factor
            longest = max(longest, own)
        # A chunk is not divided: the other workers cannot help with it.
        return max(left / max(self.workers, 1), longest, 0.0)

    @cached_property
    def _cell(self) -> Int[np.ndarray, " runs"]:
        """The cell of each run: runs of a cell differ in their seeds alone."""
        runs = self.plan.runs
        values = [np.nan_to_num(runs.values[name], nan=-1.0) for name in GRID]
        cells = np.column_stack([runs.configuration, *values])
        return np.unique(cells, axis=0, return_inverse=True)[1].ravel()

    def best(self) -> str:
        """Return the best cell so far, in words; empty if there is none."""
        held = np.isfinite(self._scores)
        if not held.any():
            return ""
        cells, runs = self._cell[held], self.plan.runs
        seen, total = np.bincount(cells), np.bincount(cells, self._scores[held])
        mean = np.divide(total, seen, out=np.full(len(seen), -np.inf), where=seen > 0)
        best = int(np.argmax(mean))
        run = int(np.argmax(self._cell == best))
        settings = runs.configurations[runs.configuration[run]]
        at = " ".join(f"{name}={runs.values[name][run]:g}" for name in settings.axes)
        schedules = ""
        if (settings.alpha_schedule, settings.lam_schedule) != ("constant", "constant"):
            schedules = f" {settings.alpha_schedule}/{settings.lam_schedule}"
        scale = runs.values["reward_scale"][run]
        scaled = "" if scale == 1.0 else f" x{scale:g}"
        return (
            f"{settings.environment}{scaled} ({settings.potential}, {settings.drift}){schedules} "
            f"{at}: {mean[best]:.3f} over {counted(int(seen[best]), 'seed')}"
        )

    def state(self) -> LiveState:
        """Return what `status` shows of it."""
        running: Counter[str] = Counter()
        for activity in self.activities:
            if activity.queued:
                running[activity.queued.label] += len(activity.queued)
        # Not validated: what cannot be read back must not stop the sweep.
        return LiveState.model_construct(
            running=running,
            rate=self.rate(),
            seconds_left=self.seconds_left(),
            workers=self.workers,
            best=self.best(),
        )


def _scores(results: Results) -> Float[np.ndarray, " runs"]:
    """Return the scores of runs; NaN where no bounds are known: best returns would change them."""
    bounds = [o.bounds or (None, None) for o in results.origins]
    low, high = results.of_origins(bounds, np.float64).reshape(-1, 2).T
    returns, _ = arrow.read_lists(results.rows["returns"])
    scale = results.numbers("reward_scale")
    return np.asarray(suite.normalize(returns.mean(axis=1), (low, high), scale))


_LINE_EVERY = 10.0


class Display:
    """What is shown of a sweep: a live picture on a terminal, a line now and then in a log."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._last = time.monotonic()
        self._live: RichLive | None = None
        self._line = None if quiet else notebook_line()
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False)

    def show(self, progress: SweepProgress) -> None:
        """Show the present state: draw it again, or print it if the last line is some time ago."""
        if self._live is not None:
            if not self._live.is_started:
                self._live.start()  # not before: an early error must leave the terminal alone
            self._live.update(_picture(progress), refresh=True)
        elif self._line is not None:
            self._line(_line(progress))
        elif time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self.say(_line(progress))

    def say(self, text: str) -> None:
        """Say something that stays."""
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)
        elif not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def close(self, progress: SweepProgress) -> None:
        """Show the last state and leave the terminal as it was."""
        if self._live is None:
            (self._line or self.say)(_line(progress))
        else:
            self.show(progress)
            self._live.stop()


def _line(progress: SweepProgress) -> str:
    best = progress.best()
    return _counts(progress) + (f"; best {best}" if best else "")


def _counts(progress: SweepProgress) -> str:
    present = progress.before + progress.done
    text = f"{present:,} of {progress.total:,} runs"
    if progress.failed:
        text += f", {progress.failed:,} failed"
    if progress.diverged:
        text += f", {progress.diverged:,} diverged"
    if progress.done:
        text += f"; {rate(progress.rate())}, {duration(progress.seconds_left())} left"
    elif progress.activities:  # nothing is known about the speed yet
        started = any(activity.fraction for activity in progress.activities)
        text += "; first runs under way" if started else "; compiling"
    return text


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
        if queued := activity.queued:
            parts = [queued.label, counted(len(queued), "run"), duration(activity.seconds)]
            detail = ", ".join([*parts, *([activity.note] if activity.note else [])])
        bar = ProgressBar(total=1.0, completed=min(activity.fraction, 1.0), width=30)
        grid.add_row(activity.worker, bar, detail)
    present = progress.before + progress.done
    whole = ProgressBar(total=max(progress.total, 1), completed=present, width=30)
    grid.add_row("all", whole, _counts(progress))
    best = progress.best()
    return Group(grid, Text(f"best cell so far: {best}")) if best else Group(grid)


# --- from the store alone -------------------------------------------------------------------------

#: what is counted of each environment and pair
COUNTS = ("runs", "done", "running", "failed", "diverged")


@dataclass(frozen=True)
class Status:
    """Everything `status` shows."""

    study: str
    #: environment and pair -> the counts of its runs, by the names in `COUNTS`
    groups: dict[tuple[str, str], Counter[str]]
    beyond: int
    damaged: dict[str, str]
    live: LiveState | None

    def rows(self) -> list[list[str]]:
        """Return the counts of the groups as text, a head first."""
        head = ["environment", "pair", *COUNTS]
        body = [[*key, *(f"{n[name]:,}" for name in COUNTS)] for key, n in self.groups.items()]
        return [head, *body]

    def summary(self) -> str:
        """Return the overall counts in a line or two."""
        total = sum(self.groups.values(), Counter[str]())
        parts = [f"{total['done']:,} of {total['runs']:,} runs done"]
        parts += [f"{total['running']:,} running"] if self.live else []
        parts += [f"{total[name]:,} {name}" for name in ("failed", "diverged")]
        lines = [f"{self.study}: " + ", ".join(parts)]
        if self.live:
            speed, left = rate(self.live.rate), duration(self.live.seconds_left)
            workers = counted(self.live.workers, "worker")
            known = f": {speed}, {left} left" if total["done"] else ""
            lines.append(f"running on {workers}{known}")
            lines += [f"best cell so far: {self.live.best}"] if self.live.best else []
        else:
            lines.append("no sweep is running here now")
        if self.beyond:
            lines.append(f"{self.beyond:,} further runs in the store are not in this study")
        for name, why in self.damaged.items():
            lines.append(f"damaged: {name} ({why}); the next 'sweep run' sets it aside")
        return "\n".join(lines)


#: the columns that `read_status` needs
STATUS_COLUMNS = ("diverged_at",)


def read_status(reader: Reader) -> Status:
    """Return the present state of a store; raise `UserError` if no study has been run there."""
    study = latest_study(reader.root)
    if study is None and files.listed(reader.root, "studies"):
        raise UserError(f"store: the record of the study in {reader.root} is damaged")
    if study is None:
        raise UserError(f"store: {reader.root} has no study yet; 'mirrorax sweep run' runs one")
    results, live = reader.results(), read_live(reader.root)
    place = results.places(study.run_ids.combine_chunks())
    mine = place >= 0
    which = study.configuration[place[mine]]
    chosen = {
        "runs": study.configuration,
        "done": which[results.done[mine]],
        "failed": which[~results.done[mine]],
        "diverged": which[results.diverged[mine]],
    }
    counts = {n: np.bincount(c, minlength=len(study.settings)) for n, c in chosen.items()}
    groups: dict[tuple[str, str], Counter[str]] = {}
    for k, pair in enumerate(study.settings):
        key = (pair.environment, f"{pair.potential} {pair.drift}")
        group = groups.setdefault(key, Counter())
        group.update({name: int(count[k]) for name, count in counts.items()})
        group["running"] = live.running.get(" ".join(key), 0) if live else 0
    return Status(study.name, groups, int((~mine).sum()), dict(reader.damaged), live)
