"""What `train` returns: an outcome with everything that is computed from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.analysis.few_seeds import UNIT, mean_interval
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs.chunk import Outcome
from mirrorax.runs.settings import GRID, RunValues, Settings
from mirrorax.training.views import ResultView

if TYPE_CHECKING:
    from mirrorax.mdpo.session import SegmentProgress, Session


@dataclass(repr=False)
class TrainResult(ResultView):
    """What `train` returns: an outcome with one row per run, in the order of `runs`."""

    outcome: Outcome
    runs: list[RunValues]
    #: the parameters of every policy
    policies: Float[np.ndarray, "runs p"]
    #: the states from which `more` goes on; empty where there are too many runs to keep them
    sessions: list[Session] = field(default_factory=list, repr=False)

    @property
    def settings(self) -> Settings:
        """The settings of all runs."""
        return self.outcome.chunk.settings

    @property
    def returns(self) -> Float[np.ndarray, "runs episodes"]:
        """The returns of the stochastic policies, of scaled rewards."""
        return self.outcome.returns

    @property
    def greedy_returns(self) -> Float[np.ndarray, "runs episodes"]:
        """The returns of the greedy policies, of scaled rewards."""
        return self.outcome.greedy_returns

    @property
    def diverged_at(self) -> Int[np.ndarray, " runs"]:
        """The update at which each run diverged, or -1."""
        return self.outcome.diverged_at

    @property
    def curves(self) -> dict[str, Float[np.ndarray, "runs points"]]:
        """The learning curves, by the name of what was recorded."""
        return dict(self.outcome.curves)

    @property
    def wall_seconds(self) -> float:
        """How long training and evaluation took."""
        return self.outcome.wall_seconds

    @property
    def lanes(self) -> int:
        """How many runs were trained side by side."""
        return int(self.outcome.provenance["lanes"])

    @property
    def layout(self) -> str | None:
        """How updates went over lanes; results depend on it in the last bits, as on `lanes`."""
        return self.outcome.provenance.get("layout")

    @property
    def device(self) -> str:
        """The kind of device that computed."""
        return str(self.outcome.provenance["device"])

    @property
    def continued_from(self) -> tuple[int, ...]:
        """The updates from which runs were trained on by `more`; none in a run of one go."""
        return tuple(self.outcome.provenance.get("continued_from", ()))

    @property
    def bounds_source(self) -> str:
        """Whether the bounds of returns are "known" or "estimated" from these runs."""
        bounds = self.outcome.bounds
        return "known" if bounds is not None and bounds[1] is not None else "estimated"

    @cached_property
    def return_bounds(self) -> tuple[float, float]:
        """The returns that count as 0 and 1, of unscaled rewards; see `run_return_bounds`."""
        assert self.outcome.bounds is not None
        low, high = self.outcome.bounds
        if high is not None:
            return low, high
        seen = np.stack([self.returns.mean(1), self.greedy_returns.mean(1)]) / self._scale
        return suite.estimated_bounds(low, float(seen.max()))

    @property
    def _scale(self) -> Float[np.ndarray, " runs"]:
        return self.outcome.chunk.columns["reward_scale"]

    def _normalize(self, returns: Float[np.ndarray, "runs episodes"]) -> Any:
        return suite.normalize(returns.mean(1), self.return_bounds, self._scale)

    @property
    def run_return_bounds(self) -> Float[np.ndarray, "runs 2"]:
        """The bounds of each run's `returns`: `return_bounds` times its reward scale."""
        return self._scale[:, None] * np.array(self.return_bounds)

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

    def more(
        self, steps: int, on_segment: Callable[[SegmentProgress], None] | None = None
    ) -> TrainResult:
        """Train on for further environment steps; annealed schedules see the new total length.

        This result stays as it is: it can be trained on again from the same state. The new one is
        not what a run of that length in one go would be, and its `continued_from` says so: its
        random numbers are those of the shorter run, whose annealed schedules had ended. A diverged
        run stays frozen. `wall_seconds` is the time of the continuation.
        """
        from mirrorax.mdpo.session import train_sessions

        least = self.settings.steps_per_update
        if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < least:
            allowed = f"at least one update of {least} steps"
            raise UserError(f"steps: {steps!r} is not allowed: {allowed}")
        if not self.sessions:
            raise UserError(f"steps: the states of {len(self.runs)} runs were not kept")
        longer = {**self.settings.model_dump(), "steps": self.settings.steps + int(steps)}
        chunk = replace(self.outcome.chunk, settings=Settings(**longer))
        sessions = [session.continued(chunk.settings) for session in self.sessions]
        outcome = train_sessions(chunk, sessions, on_segment)
        policies = np.concatenate([session.policies for session in sessions])
        return TrainResult(outcome, self.runs, policies, sessions)

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


def rows_of_cells(runs: Sequence[RunValues]) -> dict[tuple[Any, ...], list[int]]:
    """Return the places of the runs of each point of the grid, by its values."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(tuple(getattr(run, name) for name in GRID), []).append(index)
    return groups


def varying(runs: Sequence[RunValues]) -> list[str]:
    """Return the names of the values in which the points of a grid differ."""
    return [name for name in GRID if len({getattr(run, name) for run in runs}) > 1]


def interval_of(
    normalized: Float[np.ndarray, " runs"], bounds_source: str = "known"
) -> tuple[float, float] | None:
    """Return the 95% interval of a mean over runs, cut at 0 and 1 where the bounds are known."""
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


def finite(data: Any) -> Any:
    """Return plain data as JSON has it: a number that is not finite is null."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
