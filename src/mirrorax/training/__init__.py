"""`mirrorax.train`: train MDPO(h, D) on an environment, over seeds and temperatures at once.

    make_request(...) --> Request --train_request--> TrainResult

`make_request` needs no jax. `train_request` is `train_chunk` in this process.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs.chunk import Outcome
from mirrorax.runs.scoring import normalised
from mirrorax.runs.settings import RunValues, Settings
from mirrorax.training.request import (
    GRID,
    Numbers,
    Request,
    make_request,
    plan_runs,
    rows_of_cells,
    varying,
)
from mirrorax.training.views import ResultView

if TYPE_CHECKING:
    from mirrorax.callbacks import Callback
    from mirrorax.envs.adapter import Environment
    from mirrorax.mdpo.session import SegmentProgress, Session
    from mirrorax.regularizers import Drift, Potential

__all__ = [
    "GRID",
    "Request",
    "TrainResult",
    "finite",
    "interval_of",
    "make_request",
    "mean_of_cells",
    "plan_runs",
    "rows_of_cells",
    "train",
    "train_request",
    "varying",
]

#: Of more sessions than this (32 runs each on a CPU) only the policies are kept, not the states.
KEPT_SESSIONS = 4


def train(
    env: str | Environment,
    potential: str | Potential = "entropy",
    drift: str | Drift = "kl",
    alpha: Numbers = None,
    lam: Numbers = 0.1,
    seeds: int | Iterable[int] = 5,
    steps: int | None = None,
    *,
    w: Numbers = None,
    gamma: Numbers = None,
    reward_scale: Numbers = None,
    actor_lr: Numbers = None,
    critic_lr: Numbers = None,
    preset: str = "default",
    lanes: int | None = None,
    layout: Literal["map", "vmap"] | None = None,
    curve_points: int = 0,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **settings: Any,
) -> TrainResult:
    """Train MDPO(h, D) and evaluate it.

    `alpha` (0.01 unless learned), `lam`, `w` (0.5 where alpha is learned), `gamma`, `reward_scale`
    and the learning rates may each be one number or several; several span a grid, and each point of
    it is trained with every seed, all side by side. `seeds` is a number of seeds or a list of them;
    `steps` is the preset's, 1,000,000 in `default`.
    `settings` are the fields of `mirrorax.runs.settings.Settings`, over those of the preset.
    `curve_points=n` evaluates about n times along the way (`curves["return"]`) and changes nothing;
    `eval_every=k` is a setting, and also records losses, h, D, temperatures and gradient norms.
    `layout` says how updates go over lanes, "map" or "vmap"; unless given, what suits the device.
    `on_segment` is called with the progress and may raise to stop; see also `mirrorax.callbacks`.
    `progress=False` shows no progress bar; there is one in a terminal and in a notebook.

    A run depends on its own specification alone: it is the same in any grid, and in a sweep.
    """
    traced = (alpha, lam, w, gamma, reward_scale, actor_lr, critic_lr)
    if steps is not None:
        settings["steps"] = steps
    request = make_request(
        env,
        potential=potential,
        drift=drift,
        grid=dict(zip(GRID, traced, strict=True)),
        seeds=seeds,
        preset=preset,
        lanes=lanes,
        layout=layout,
        **settings,
    )
    return train_request(
        request,
        curve_points=curve_points,
        on_segment=on_segment,
        callbacks=callbacks,
        progress=progress,
    )


def train_request(
    request: Request,
    *,
    curve_points: int = 0,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> TrainResult:
    """Train what was asked for; see `train`."""
    if not isinstance(curve_points, int) or isinstance(curve_points, bool) or curve_points < 0:
        raise UserError(f"curve_points: {curve_points!r}: expected a whole number, 0 or more")
    settings, runs = request.settings, request.runs
    listeners = None
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if progress or callbacks or not isinstance(callbacks, list | tuple):
        from mirrorax.callbacks import Callbacks, ProgressBar

        listeners = Callbacks([*Callbacks(callbacks), *([ProgressBar()] if progress else [])])

    # Everything is valid: only now what is heavy.
    from mirrorax.mdpo.memory import check_memory
    from mirrorax.mdpo.program import default_lanes, make_program
    from mirrorax.mdpo.session import train_chunk

    program = make_program(settings, request.environment, request.potential, request.drift)
    lanes = request.lanes or default_lanes()
    check_memory(program, lanes)
    every = None
    if curve_points and not settings.eval_every:
        every = max(1, settings.updates // curve_points)
    policies: list[np.ndarray] = []
    sessions: list[Session] = []

    def keep(session: Session) -> None:
        policies.append(session.policies)
        if len(runs) <= KEPT_SESSIONS * lanes:
            sessions.append(session)

    def report(segment: SegmentProgress) -> None:
        if on_segment is not None:
            on_segment(segment)
        if listeners is not None:
            listeners.on_segment(segment)

    result = None
    try:
        if listeners is not None:
            listeners.on_start(settings, runs)
        outcome = train_chunk(
            request.chunk,
            on_segment=report,
            program=program,
            layout=request.layout,
            evaluate_every=every,
            on_session=keep,
        )
        result = TrainResult(outcome, runs, np.concatenate(policies), sessions)
    finally:
        if listeners is not None:
            listeners.on_end(result)
    return result


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
        return normalised(returns.mean(1) / self._scale, *self.return_bounds)

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


def interval_of(
    normalized: Float[np.ndarray, " runs"], bounds_source: str = "known"
) -> tuple[float, float] | None:
    """Return the 95% interval of a mean over runs, cut at 0 and 1 where the bounds are known."""
    from mirrorax.analysis.few_seeds import UNIT, mean_interval

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
