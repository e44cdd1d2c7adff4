"""How a sweep is doing: counts, rate, time left, the best cell. The driver keeps it."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from jaxtyping import Float, Int

from mirrorax.runs import ids
from mirrorax.runs.results import Results
from mirrorax.runs.scoring import matrix, normalised
from mirrorax.runs.settings import TEMPERATURES
from mirrorax.store.reading import Reader
from mirrorax.sweep.engine import Activity
from mirrorax.sweep.plan import Plan, QueuedChunk
from mirrorax.sweep.rates import COMPILE_SECONDS

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
        score = normalised(matrix(results.rows["returns"])[0].mean(axis=1) / scale, low, high)
        parts = [_either(results, "alpha", "w"), _either(results, "lam", "v"), scale]
        columns = np.column_stack([configuration, *parts])
        held = np.isfinite(score)
        places, which = np.unique(columns[held], axis=0, return_inverse=True)
        sums, counts = np.bincount(which.ravel(), score[held]), np.bincount(which.ravel())
        for (number, *place), more, count in zip(places.tolist(), sums, counts, strict=True):
            cell = (int(number), *place)
            total, seen = self.cells.get(cell, (0.0, 0))
            self.cells[cell] = (total + float(more), seen + int(count))

    def read_cells(self, root: Path) -> None:
        """Take the cells of this study's earlier runs from the store."""
        reader = Reader(root, ["returns", *TEMPERATURES, "reward_scale"])
        reader.refresh()
        results = reader.results()
        runs = self.plan.runs
        index = pc.index_in(results.rows["run_id"], value_set=ids.to_arrow(runs.ids))
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
        alpha = "w" if settings.learned_alpha else "alpha"
        drift = "v" if settings.learned_lam else "lam"
        schedules = ""
        if (settings.alpha_schedule, settings.lam_schedule) != ("constant", "constant"):
            schedules = f" {settings.alpha_schedule}/{settings.lam_schedule}"
        scaled = "" if scale == 1.0 else f" x{scale:g}"
        return (
            f"{settings.environment}{scaled} ({settings.potential}, {settings.drift}){schedules} "
            f"{alpha}={heat:g} {drift}={lam:g}: {total / seen:.3f} over {seen}"
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


def _either(results: Results, name: str, weight: str) -> Float[np.ndarray, " runs"]:
    """Return a temperature, or the weight of its target where it is learned."""
    values = results.numbers(name)
    return np.where(np.isnan(values), results.numbers(weight), values)
