"""What `mirrorax.train` returns, and how one trains on from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs.settings import RunValues, Settings
from mirrorax.training.request import GRID

if TYPE_CHECKING:
    from mirrorax.mdpo.chunk import ChunkResult
    from mirrorax.mdpo.session import Progress, Session


def rows_of_cells(runs: Sequence[RunValues]) -> dict[tuple[Any, ...], list[int]]:
    """Return the places of the runs of each point of the grid, by its values."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(tuple(getattr(run, name) for name in GRID), []).append(index)
    return groups


def interval_of(
    normalized: Float[np.ndarray, " runs"], bounds_source: str = "known"
) -> tuple[float, float] | None:
    """Return the 95% interval of a mean over runs, cut at 0 and 1 where the bounds are known."""
    from mirrorax.analysis.few_seeds import UNIT, mean_interval  # needs pyarrow

    return mean_interval(normalized, UNIT if bounds_source == "known" else None)


def mean_of_cells(
    runs: Sequence[RunValues],
    normalized: Float[np.ndarray, " runs"],
    greedy: Float[np.ndarray, " runs"],
    bounds_source: str = "known",
) -> list[dict[str, Any]]:
    """Return mean and interval of each point of the grid, over its seeds; None: no interval."""
    return [
        {
            **dict(zip(GRID, point, strict=True)),
            "runs": len(rows),
            "mean": float(normalized[rows].mean()),
            "interval": interval_of(normalized[rows], bounds_source),
            "scores": normalized[rows].tolist(),
            "greedy_mean": float(greedy[rows].mean()),
        }
        for point, rows in rows_of_cells(runs).items()
    ]


@dataclass
class TrainResult:
    """What `train` returns: one row per run, in the order of `runs`."""

    settings: Settings
    runs: list[RunValues]
    returns: Float[np.ndarray, "runs episodes"]
    greedy_returns: Float[np.ndarray, "runs episodes"]
    diverged_at: Int[np.ndarray, " runs"]
    #: the returns that count as 0 and 1, of unscaled rewards; see `run_return_bounds`
    return_bounds: tuple[float, float]
    curves: dict[str, Float[np.ndarray, "runs points"]]
    wall_seconds: float
    lanes: int
    device: str
    policies: Float[np.ndarray, "runs parameters"] = field(repr=False)
    #: the state to go on from, see `more`; empty after very many runs, whose states would not fit
    sessions: list[Session] = field(repr=False, default_factory=list)
    #: how updates go over lanes: "map" (one by one) or "vmap" (batched)
    layout: str | None = None
    #: "known", or "estimated": a random policy's mean return, and the best mean return seen here
    bounds_source: str = "known"
    #: the updates at which the runs had ended and were trained on by `more`; none in runs of one go
    continued_from: tuple[int, ...] = ()

    def _normalize(self, returns: np.ndarray) -> Float[np.ndarray, " runs"]:
        low, high = self.return_bounds
        scale = np.array([run.reward_scale for run in self.runs])
        normal: np.ndarray = (returns.mean(1) / scale - low) / (high - low)
        return normal

    @property
    def run_return_bounds(self) -> Float[np.ndarray, "runs 2"]:
        """The bounds of each run's `returns`: `return_bounds` times its reward scale."""
        scale = np.array([run.reward_scale for run in self.runs])
        return scale[:, None] * np.array(self.return_bounds)

    @property
    def normalized(self) -> Float[np.ndarray, " runs"]:
        """The mean stochastic return of each run, 0 and 1 at the bounds; never clipped."""
        return self._normalize(self.returns)

    @property
    def greedy_normalized(self) -> Float[np.ndarray, " runs"]:
        """The same for the greedy policy."""
        return self._normalize(self.greedy_returns)

    @property
    def diverged(self) -> Bool[np.ndarray, " runs"]:
        """Which runs were frozen because a loss or parameter was no longer finite."""
        return self.diverged_at >= 0

    @property
    def mean(self) -> float:
        """The mean of `normalized`."""
        return float(self.normalized.mean())

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of that mean over runs; None with fewer than three of them."""
        return interval_of(self.normalized, self.bounds_source)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Mean and interval of each point of the grid, over its seeds."""
        return mean_of_cells(self.runs, self.normalized, self.greedy_normalized, self.bounds_source)

    def more(self, steps: int, on_segment: Callable[[Progress], None] | None = None) -> TrainResult:
        """Train on for further environment steps; annealed schedules see the new total length.

        This result stays as it is: it can be trained on again from the same state. The new one is
        not what a run of that length in one go would be, and its `continued_from` says so: its
        random numbers are those of the shorter run, whose annealed schedules had ended. A diverged
        run stays frozen. `wall_seconds` is the time of the continuation.
        """
        from mirrorax.mdpo.chunk import run_sessions

        least = self.settings.steps_per_update
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < least:
            raise UserError(
                f"steps: {steps!r} is not allowed: at least one update of {least} steps"
            )
        if not self.sessions:
            raise UserError(f"steps: the states of {len(self.runs)} runs were not kept")
        settings = Settings(
            **{**self.settings.model_dump(), "steps": self.settings.steps + int(steps)}
        )
        sessions = [session.continued(settings) for session in self.sessions]
        done = run_sessions(sessions, len(sessions), on_segment)
        policies = [session.policies for session in sessions]
        bounds = self.return_bounds if self.bounds_source == "known" else None
        return make_result(settings, self.runs, done, bounds, policies, sessions)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "returns": self.returns.tolist(),
            "greedy_returns": self.greedy_returns.tolist(),
            "normalized": self.normalized.tolist(),
            "greedy_normalized": self.greedy_normalized.tolist(),
            "mean": self.mean,
            "interval": self.interval,
            "cells": self.cells,
            "diverged": self.diverged.tolist(),
            "diverged_at": [int(k) if k >= 0 else None for k in self.diverged_at],
            "return_bounds": list(self.return_bounds),
            "bounds_source": self.bounds_source,
            "run_return_bounds": self.run_return_bounds.tolist(),
            "runs": [run.model_dump(mode="json") for run in self.runs],
            "settings": self.settings.model_dump(mode="json"),
            "continued_from": list(self.continued_from),
            "wall_seconds": self.wall_seconds,
            "lanes": self.lanes,
            "layout": self.layout,
            "device": self.device,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one line; a number that is not finite becomes null."""
        return json.dumps(finite(self.to_dict()), allow_nan=False)


def finite(data: Any) -> Any:
    """Return plain data as JSON has it: a number that is not finite is null."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def make_result(
    settings: Settings,
    runs: list[RunValues],
    done: ChunkResult,
    bounds: tuple[float, float] | None,
    policies: list[np.ndarray],
    sessions: list[Session],
) -> TrainResult:
    """Put together what became of some runs; bounds of returns that nobody knows are estimated."""
    source = "known" if bounds is not None else "estimated"
    if bounds is None:
        assert done.random_return is not None
        scale = np.array([run.reward_scale for run in runs])
        seen = np.stack([done.returns.mean(1), done.greedy_returns.mean(1)]) / scale
        bounds = suite.estimated_bounds(done.random_return, float(seen.max()))
    return TrainResult(
        settings=settings,
        runs=runs,
        returns=done.returns,
        greedy_returns=done.greedy_returns,
        diverged_at=done.diverged_at,
        return_bounds=bounds,
        curves=done.curves,
        wall_seconds=done.wall_seconds,
        lanes=done.lanes,
        device=done.device,
        policies=np.concatenate(policies),
        sessions=sessions,
        layout=done.layout,
        bounds_source=source,
        continued_from=sessions[0].continued_from if sessions else (),
    )
