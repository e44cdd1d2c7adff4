"""How a sweep is doing: counts, rate, time left, the best cell. The driver keeps it."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from mirrorax.envs import suite
from mirrorax.runs import ids as run_ids
from mirrorax.spec.expand import Runs
from mirrorax.store import reading
from mirrorax.sweep.engine import Activity
from mirrorax.sweep.plan import Plan
from mirrorax.sweep.rates import COMPILE_SECONDS
from mirrorax.sweep.task import Outcome

_WINDOW = 300.0  # seconds over which the rate is measured
_BEST_EVERY = 2.0  # looking through a hundred thousand cells takes a while
_TELLING = 0.05  # a chunk this far along says more of its length than the prediction


@dataclass
class Progress:
    """The state of a running sweep."""

    plan: Plan
    workers: int
    started: float = field(default_factory=time.monotonic)
    done: int = 0  # runs of this session
    failed: int = 0
    diverged: int = 0
    predicted: float = 0.0  # what the finished chunks should have taken, and took
    actual: float = 0.0
    activities: list[Activity] = field(default_factory=list)
    #: (configuration, alpha or w, lambda, reward scale) -> sum of scores and their number
    cells: dict[tuple[int, float, float, float], tuple[float, int]] = field(default_factory=dict)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _best: tuple[float, str] = (-1e9, "")  # when it was looked for, and what was found

    def __post_init__(self) -> None:
        self.before = int(self.plan.done.sum())
        self.total = len(self.plan.runs)
        self._left = sum(chunk.seconds for chunk in self.plan.chunks)
        self._uncompiled = {chunk.configuration for chunk in self.plan.chunks}

    def add(self, outcome: Outcome, runs: Runs) -> None:
        """Count a chunk that has ended."""
        count = len(outcome.task)
        self._left -= outcome.task.seconds
        self._uncompiled.discard(outcome.task.configuration)
        if outcome.result is None:
            self.failed += count
            return
        self.done += count
        self.diverged += int((np.asarray(outcome.result.diverged_at) >= 0).sum())
        self.predicted += outcome.task.seconds
        self.actual += outcome.result.wall_seconds
        now = time.monotonic()
        self._recent.append((now, count))
        while self._recent and now - self._recent[0][0] > _WINDOW:
            self._recent.popleft()
        self._add_cells(runs, outcome.result.returns.mean(axis=1))

    def _add_cells(self, runs: Runs, returned: np.ndarray) -> None:
        """Add the mean returns of runs of one configuration."""
        number = int(runs.configuration[0])
        settings = runs.configurations[number]
        bounds = suite.environment(settings.environment).known_bounds()
        if bounds is None:
            return  # a score would change with every better run
        low, high = bounds
        scale = runs.values["reward_scale"]
        scores = (returned / scale - low) / (high - low)
        finite = np.isfinite(scores)
        heat = runs.values["w" if settings.learned_alpha else "alpha"]
        places, which = np.unique(
            np.column_stack([heat, runs.values["lam"], scale])[finite], axis=0, return_inverse=True
        )
        sums, counts = np.bincount(which.ravel(), scores[finite]), np.bincount(which.ravel())
        for place, more, count in zip(places.tolist(), sums, counts, strict=True):
            total, seen = self.cells.get((number, *place), (0.0, 0))
            self.cells[number, *place] = (total + float(more), seen + int(count))

    def read_cells(self, root: Path) -> None:
        """Take the cells of this study's earlier runs from the store."""
        reader = reading.Reader(root, ["returns"])
        reader.refresh()
        table = reader.table()
        runs = self.plan.runs
        table = table.append_column(
            "place", pc.index_in(table["run_id"], value_set=run_ids.to_arrow(runs.ids))
        )
        has_returns = pc.greater(pc.list_value_length(table["returns"]), 0)
        table = table.filter(pc.and_kleene(pc.is_valid(table["place"]), has_returns))
        if len(table) == 0:
            return
        returns = table["returns"].combine_chunks()
        lengths = returns.value_lengths().to_numpy()
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        returned = np.add.reduceat(returns.flatten().to_numpy(), starts) / lengths
        places = table["place"].to_numpy()
        for number in np.unique(runs.configuration[places]):
            mine = runs.configuration[places] == number
            self._add_cells(runs.select(places[mine]), returned[mine])

    def rate(self) -> float:
        """Return finished runs per second, lately."""
        if not self._recent:
            return 0.0
        now = time.monotonic()
        span = min(now - self.started, _WINDOW)
        return sum(count for _, count in self._recent) / max(span, 1e-3)

    def seconds_left(self) -> float:
        """Return the expected time to the end, corrected by how the predictions have fared."""
        factor = self.actual / self.predicted if self.predicted > 0 else 1.0
        # What has got anywhere has been compiled.
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
        # One chunk is one worker's: the others cannot help it to its end.
        return max(left / max(self.workers, 1), longest, 0.0)

    def best(self) -> str:
        """Return the best cell so far, in words; empty if there is none."""
        now = time.monotonic()
        if now - self._best[0] > _BEST_EVERY:
            self._best = (now, self._find_best())
        return self._best[1]

    def finish(self) -> None:
        """Nothing is under way any more: what is shown now is the last word."""
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
