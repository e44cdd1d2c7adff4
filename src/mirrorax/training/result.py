"""What `train` returns: an outcome with everything that is computed from it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.analysis.scores import UNIT, mean_interval, seeds_in_words
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.formatting import Frame, check_whole, counted
from mirrorax.runs.chunk import Outcome
from mirrorax.runs.settings import GRID, RunValues, Settings

if TYPE_CHECKING:
    from mirrorax.analysis.landscape import Landscape
    from mirrorax.figures.curves import LearningCurve
    from mirrorax.mdpo.session import SegmentProgress, Session


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TrainResult(Frame, Outcome):
    """What `train` returns: an outcome with one row per run, in the order of `runs`.

    Returns are of scaled rewards.
    """

    #: the parameters of every policy
    policies: Float[np.ndarray, "runs p"]
    #: the states from which `more` goes on; empty where there are too many runs to keep them
    sessions: list[Session] = field(default_factory=list)
    #: bounds of returns that were estimated from other runs than these
    estimated: tuple[float, float] | None = None

    @property
    def settings(self) -> Settings:
        """The settings of all runs."""
        return self.chunk.settings

    @property
    def runs(self) -> list[RunValues]:
        """The values of every run."""
        return self.chunk.runs

    @property
    def title(self) -> str:
        """What was trained, in words."""
        settings = self.settings
        return f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}"

    @property
    def lanes(self) -> int:
        """How many runs were trained side by side."""
        return int(self.provenance["lanes"])

    @property
    def layout(self) -> str | None:
        """How updates went over lanes; results depend on it in the last bits, as on `lanes`."""
        return self.provenance.get("layout")

    @property
    def device(self) -> str:
        """The kind of device that computed."""
        return str(self.provenance["device"])

    @property
    def continued_from(self) -> tuple[int, ...]:
        """The updates from which runs were trained on by `more`; none in a run of one go."""
        return tuple(self.provenance.get("continued_from", ()))

    @property
    def bounds_source(self) -> str:
        """Whether the bounds of returns are "known" or "estimated" from runs."""
        known = self.estimated is None and self.bounds is not None and self.bounds[1] is not None
        return "known" if known else "estimated"

    @cached_property
    def return_bounds(self) -> tuple[float, float]:
        """The returns that count as 0 and 1, of unscaled rewards; see `run_return_bounds`."""
        if self.estimated is not None:
            return self.estimated
        assert self.bounds is not None
        low, high = self.bounds
        if high is not None:
            return low, high
        seen = np.stack([self.returns.mean(1), self.greedy_returns.mean(1)]) / self._scale
        return suite.estimated_bounds(low, float(seen.max()))

    @property
    def _scale(self) -> Float[np.ndarray, " runs"]:
        return self.chunk.columns["reward_scale"]

    @property
    def run_return_bounds(self) -> Float[np.ndarray, "runs 2"]:
        """The bounds of each run's `returns`: `return_bounds` times its reward scale."""
        return self._scale[:, None] * np.array(self.return_bounds)

    @property
    def normalized(self) -> Float[np.ndarray, " runs"]:
        """The mean stochastic return of each run, 0 and 1 at the bounds; never clipped."""
        return suite.normalize(self.returns.mean(1), self.return_bounds, self._scale)

    @property
    def greedy_normalized(self) -> Float[np.ndarray, " runs"]:
        """The same for the greedy policy."""
        return suite.normalize(self.greedy_returns.mean(1), self.return_bounds, self._scale)

    @property
    def diverged(self) -> Bool[np.ndarray, " runs"]:
        """Which runs were frozen because a loss or parameter was no longer finite."""
        return self.diverged_at >= 0

    @property
    def mean(self) -> float:
        """The mean of `normalized`."""
        return float(self.normalized.mean())

    @property
    def _score_bounds(self) -> tuple[float, float] | None:
        """The bounds at which intervals of scores are cut."""
        return UNIT if self.bounds_source == "known" else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Student's 95% interval of that mean over runs; None with fewer than three of them."""
        return mean_interval(self.normalized, self._score_bounds)

    def seeds_in_words(self, scores: Sequence[float], noun: str = "seed") -> str:
        """Return the 95% interval of the mean of some scores, or what stands in its place."""
        return seeds_in_words(np.array([scores]), self._score_bounds, noun=noun)

    @property
    def varying(self) -> list[str]:
        """The names of the values in which the points of the grid differ."""
        return [name for name in GRID if len({getattr(run, name) for run in self.runs}) > 1]

    def _rows_of_cells(self) -> dict[tuple[Any, ...], list[int]]:
        """Return the places of the runs of each point of the grid, by its values."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, run in enumerate(self.runs):
            groups.setdefault(tuple(getattr(run, name) for name in GRID), []).append(index)
        return groups

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Mean and interval of each point of the grid, over its seeds; None: no interval."""
        scores, greedy = self.normalized, self.greedy_normalized
        return [
            {
                **dict(zip(GRID, point, strict=True)),
                "runs": len(rows),
                "mean": float(scores[rows].mean()),
                "interval": mean_interval(scores[rows], self._score_bounds),
                "scores": scores[rows].tolist(),
                "greedy_mean": float(greedy[rows].mean()),
            }
            for point, rows in self._rows_of_cells().items()
        ]

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

        steps = check_whole("steps", steps, self.settings.steps_per_update)  # one update or more
        if not self.sessions:
            raise UserError(
                f"steps: the states of these {len(self.runs)} runs were not kept: those of a saved "
                "result, or of many runs, cannot be trained on"
            )
        longer = {**self.settings.model_dump(), "steps": self.settings.steps + steps}
        chunk = replace(self.chunk, settings=Settings(**longer))
        sessions = [session.continued(chunk.settings) for session in self.sessions]
        outcome = train_sessions(chunk, sessions, on_segment)
        policies = np.concatenate([session.policies for session in sessions])
        return TrainResult(**vars(outcome), policies=policies, sessions=sessions)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON: a number that is not finite is None."""
        arrays = ("returns", "greedy_returns", "normalized", "greedy_normalized", "diverged")
        plain = ("mean", "interval", "cells", "bounds_source", "wall_seconds", "lanes", "layout")
        data = {
            **{name: getattr(self, name).tolist() for name in (*arrays, "run_return_bounds")},
            **{name: getattr(self, name) for name in (*plain, "device")},
            "diverged_at": [int(k) if k >= 0 else None for k in self.diverged_at],
            "return_bounds": list(self.return_bounds),
            "runs": [run.model_dump(mode="json") for run in self.runs],
            "settings": self.settings.model_dump(mode="json"),
            "continued_from": list(self.continued_from),
        }
        return finite(data)

    def to_json(self) -> str:
        """Return `to_dict` as one line."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write the folder that `train --out` writes; `mirrorax.load` gives the result back."""
        from mirrorax.training.folder import save

        return save(folder, self)

    def _summary(self) -> tuple[str, list[list[str]]]:
        names = self.varying
        rows = [[*names, "seeds", "score", "greedy"]]
        for cell in sorted(self.cells, key=lambda cell: -cell["mean"]):
            scores = f"{cell['mean']:.3f}", f"{cell['greedy_mean']:.3f}"
            rows.append([*(f"{cell[name]:g}" for name in names), str(cell["runs"]), *scores])
        count = counted(len(self.runs), "run")
        return f"{self.title}: {count}, mean score {self.mean:.3f}", rows

    def _columns(self) -> tuple[list[str], dict[str, Any]]:
        scores = {"score": self.normalized, "greedy_score": self.greedy_normalized}
        values = self.chunk.columns
        return [*self.varying, "seed"], {**values, **scores, "diverged": self.diverged}

    def _picture(self, ax: Any) -> Any:
        names = set(self.varying)
        if names & {"alpha", "w"} and names & {"lam", "v"}:
            return self.heatmap(ax)
        return self.plot(ax) if "return" in self.curves else None

    @property
    def landscape(self) -> Landscape:
        """The scores over the two temperatures; an error if the runs differ in other values."""
        from mirrorax.analysis.landscape import landscapes
        from mirrorax.runs.results import from_arrow

        items = landscapes(from_arrow(self.to_arrow()))
        if len(items) > 1:
            raise UserError(f"landscape: the runs are {len(items)} grids of temperatures, not one")
        return items[0]

    def heatmap(self, ax: Any = None) -> Any:
        """Draw the mean scores over the two temperatures; return the axis."""
        return self.landscape.heatmap(ax)

    def learning_curves(self) -> list[LearningCurve]:
        """Return the normalised returns along the training of each point of the grid."""
        from mirrorax.figures.curves import LearningCurve

        if "return" not in self.curves:
            raise UserError("curves: the result has none; train with curve_points=20 or eval_every")
        steps = self.curves["update"][0] * self.settings.steps_per_update
        scores = suite.normalize(self.curves["return"], self.return_bounds, self._scale[:, None])
        random = self._random_score()
        curves = []
        for rows in self._rows_of_cells().values():
            values = [f"{name} {getattr(self.runs[rows[0]], name):g}" for name in self.varying]
            whole = f"mean of {len(rows)} runs" if len(rows) > 1 else "one run"
            label = ", ".join(values) or whole
            curves.append(LearningCurve(label, steps, scores[rows], random))
        return curves

    def _random_score(self) -> float | None:
        """Return the score of random play: known, a bound that was estimated, or played."""
        name = self.settings.environment
        known = 0.0 if self.bounds_source == "estimated" else suite.random_score(name)
        if known is not None:
            return known
        from mirrorax.envs import adapter

        try:
            env = adapter.make(name)
        except UserError:
            return None  # an object without a name, or of a plugin that is not loaded
        if not isinstance(env, adapter.Environment):
            return None  # Gymnasium's would take too long
        return float(suite.normalize(adapter.random_return(env), self.return_bounds))

    def plot(self, ax: Any = None) -> Any:
        """Draw the learning curves, a line for each point of the grid; return the axis."""
        from mirrorax.figures.curves import draw_curves
        from mirrorax.figures.style import drawing

        with drawing(ax) as ax:
            draw_curves(self.learning_curves(), ax, seeds=True).figure.suptitle(self.title)
            return ax


def finite(data: Any) -> Any:
    """Return plain data as JSON has it: a number that is not finite is None."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
