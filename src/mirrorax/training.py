"""`mirrorax.train`: train MDPO(h, D) on an environment, over seeds and temperatures at once."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.callbacks import Callback, Callbacks
from mirrorax.envs import suite
from mirrorax.errors import UserError, unknown
from mirrorax.mdpo.config import RunValues, Settings, check_values, make_settings

if TYPE_CHECKING:
    from mirrorax.envs.adapter import Environment
    from mirrorax.mdpo.chunk import ChunkResult
    from mirrorax.mdpo.session import Progress, Session
    from mirrorax.regularizers import Drift, Potential

#: One number, or several: several span a grid with the others.
Numbers = float | Sequence[float] | np.ndarray | None

#: Of more sessions than this (32 runs each on a CPU) only the policies are kept, not the states.
KEPT_SESSIONS = 4

#: how updates go over lanes: one by one, or batched
LAYOUTS = ("map", "vmap")

#: more seeds than this are a slip of the pen
MOST_SEEDS = 100_000

#: more runs than this are a study, for `mirrorax sweep`
MOST_RUNS = 100_000

#: the largest number of the arithmetic of training
_LARGEST = float(np.finfo(np.float32).max)

_GRID = ("alpha", "lam", "w", "gamma", "reward_scale", "actor_lr", "critic_lr")


def mean_interval(
    values: Float[np.ndarray, " runs"], level: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean over runs, from fixed random numbers."""
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(values), (draws, len(values)))
    low, high = np.quantile(values[picks].mean(1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


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
    def interval(self) -> tuple[float, float]:
        """A 95% bootstrap interval of that mean over runs."""
        return mean_interval(self.normalized)

    @property
    def cells(self) -> list[dict[str, Any]]:
        """Mean and interval of each point of the grid, over its seeds."""
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, run in enumerate(self.runs):
            groups.setdefault(tuple(getattr(run, name) for name in _GRID), []).append(index)
        normalized, greedy = self.normalized, self.greedy_normalized
        return [
            {
                **dict(zip(_GRID, point, strict=True)),
                "runs": len(rows),
                "mean": float(normalized[rows].mean()),
                "interval": list(mean_interval(normalized[rows])),
                "greedy_mean": float(greedy[rows].mean()),
            }
            for point, rows in groups.items()
        ]

    def more(self, steps: int, on_segment: Callable[[Progress], None] | None = None) -> TrainResult:
        """Train on for further environment steps; annealed schedules see the new total length.

        This result stays as it is: it can be trained on again from the same state.
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
        sessions = [session.copy() for session in self.sessions]
        for session in sessions:
            session.settings, session.total = settings, settings.updates
        done = run_sessions(sessions, len(sessions), on_segment)
        policies = [session.policies for session in sessions]
        bounds = self.return_bounds if self.bounds_source == "known" else None
        return _result(settings, self.runs, done, bounds, policies, sessions)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {
            "returns": self.returns.tolist(),
            "greedy_returns": self.greedy_returns.tolist(),
            "normalized": self.normalized.tolist(),
            "greedy_normalized": self.greedy_normalized.tolist(),
            "mean": self.mean,
            "interval": list(self.interval),
            "cells": self.cells,
            "diverged": self.diverged.tolist(),
            "diverged_at": [int(k) if k >= 0 else None for k in self.diverged_at],
            "return_bounds": list(self.return_bounds),
            "bounds_source": self.bounds_source,
            "run_return_bounds": self.run_return_bounds.tolist(),
            "runs": [run.model_dump(mode="json") for run in self.runs],
            "settings": self.settings.model_dump(mode="json"),
            "wall_seconds": self.wall_seconds,
            "lanes": self.lanes,
            "layout": self.layout,
            "device": self.device,
        }

    def to_json(self) -> str:
        """Return `to_dict` as one line; a number that is not finite becomes null."""
        return json.dumps(_finite(self.to_dict()), allow_nan=False)


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _result(
    settings: Settings,
    runs: list[RunValues],
    done: ChunkResult,
    bounds: tuple[float, float] | None,
    policies: list[np.ndarray],
    sessions: list[Session],
) -> TrainResult:
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
    )


def _several(name: str, given: Any) -> list[Any]:
    if hasattr(given, "tolist"):
        given = given.tolist()  # numpy's and jax's numbers and arrays
    if given is None or isinstance(given, int | float | str):
        found = [given]
    elif isinstance(given, Mapping):
        raise UserError(f"{name}: a table is not allowed: one number, or a list of numbers")
    else:
        try:
            found = [item.tolist() if hasattr(item, "tolist") else item for item in given]
        except TypeError:
            raise UserError(f"{name}: {given!r} is not a number or a list of numbers") from None
    if not found:
        raise UserError(f"{name}: an empty list; give at least one number")
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            raise UserError(f"{name}: {value!r} is not a number")
        if isinstance(value, int | float) and _LARGEST < abs(value) < math.inf:
            raise UserError(f"{name}: {value!r} is not allowed: at most {_LARGEST:g}, in float32")
    if len(set(found)) < len(found):
        raise UserError(f"{name}: {found} has repetitions, which would be the same run twice")
    return found


def expand_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return the seeds: n stands for 0, ..., n - 1."""
    given: Any = seeds.tolist() if hasattr(seeds, "tolist") else seeds
    if isinstance(given, int) and not isinstance(given, bool):
        if not 1 <= given <= MOST_SEEDS:
            raise UserError(
                f"seeds: {given} is not allowed: 1 to {MOST_SEEDS} of them, or a list of seeds"
            )
        return list(range(given))
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise UserError(f"seeds: {given!r} is not allowed: a whole number, or a list of seeds")
    found = [seed.tolist() if hasattr(seed, "tolist") else seed for seed in given]
    if not found:
        raise UserError("seeds: an empty list; give at least one seed")
    for seed in found:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise UserError(f"seeds: {seed!r} is not a whole number")
    if len(set(found)) < len(found):
        raise UserError(f"seeds: {found} has repetitions, which would be the same run twice")
    return found


def check_lanes(lanes: Any) -> None:
    """Refuse what is not a number of lanes, or None for the device's own."""
    if lanes is None:
        return
    if isinstance(lanes, bool) or not isinstance(lanes, int | np.integer):
        raise UserError(f"lanes: {lanes!r} is not a whole number")
    if lanes < 1:
        raise UserError(f"lanes: {lanes} is not allowed: at least 1")


def check_layout(layout: Any) -> None:
    """Refuse what is no layout, or None for the device's own."""
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)


def plan_runs(
    settings: Settings, grid: dict[str, Any], seeds: int | Iterable[int]
) -> list[RunValues]:
    """Span the grid of the given values and seeds; every run is checked."""
    grid = {name: value for name, value in grid.items() if value is not None}
    if settings.learned_alpha and "w" not in grid:
        grid["w"] = 0.5
    axes = {name: _several(name, grid[name]) for name in _GRID if name in grid}
    axes["seed"] = expand_seeds(seeds)
    count = math.prod(map(len, axes.values()))
    if count > MOST_RUNS:
        raise UserError(
            f"seeds: {len(axes['seed'])} of each point of the grid are {count} runs; "
            f"at most {MOST_RUNS} are trained at once, and more are a study for a sweep"
        )
    every = (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values()))
    return [check_values(settings, values) for values in every]


def _name_of(env: str | Environment) -> str:
    """Return the name under which an environment's runs are recorded; it tells apart what differs.

    The suite's own name where it means an equal object, otherwise the path of its class, with the
    fields of a dataclass that is not as its class makes it without arguments.
    """
    if isinstance(env, str):
        return env
    from mirrorax.envs.adapter import Environment, make

    if not isinstance(env, Environment):
        raise UserError(f"environment: {env!r} is neither a name nor an Environment object")
    name = str(getattr(env, "name", ""))
    if ":" not in name:
        try:
            if make(name) == env:
                return suite.environment(name).name
        except UserError:
            pass  # a name of the user's own
    path = f"{type(env).__module__}:{type(env).__name__}"
    if not is_dataclass(env):
        return path
    try:
        if type(env)() == env:
            return path
    except TypeError:
        pass  # it has fields without defaults
    given = ", ".join(f"{f.name}={getattr(env, f.name)!r}" for f in fields(env) if f.init)
    return f"{path}({' '.join(given.split())})" if given else path


def _regularizer_name(kind: str, given: str | Potential | Drift) -> str:
    """Return the name of h or D; an object must be what its name means."""
    if isinstance(given, str):
        return given
    from mirrorax import regularizers

    cls = regularizers.Potential if kind == "potential" else regularizers.Drift
    if not isinstance(given, cls):
        raise UserError(f"{kind}: {given!r} is neither a name nor a {cls.__name__} object")
    find = regularizers.potential if kind == "potential" else regularizers.drift
    try:
        known = find(str(given))
    except UserError:
        raise UserError(
            f"{kind}: {str(given)!r} is not registered; give it its name with "
            f"mirrorax.register_{kind}({str(given)!r}, function)"
        ) from None
    if known != given:
        raise UserError(
            f"{kind}: the name {str(given)!r} of this object means another one; "
            f"register it under a name of its own (mirrorax.register_{kind})"
        )
    return str(given)


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
    on_segment: Callable[[Progress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> TrainResult:
    """Train MDPO(h, D) and evaluate it.

    `alpha` (0.01 unless learned), `lam`, `w` (0.5 where alpha is learned), `gamma`, `reward_scale`
    and the learning rates may each be one number or several; several span a grid, and each point of
    it is trained with every seed, all side by side. `seeds` is a number of seeds or a list of them;
    `steps` is the preset's, 1,000,000 in `default`.
    `settings` are the fields of `mirrorax.mdpo.config.Settings`, over those of the preset.
    `curve_points=n` evaluates about n times along the way (`curves["return"]`) and changes nothing;
    `eval_every=k` is a setting, and also records losses, h, D, temperatures and gradient norms.
    `layout` says how updates go over lanes, "map" or "vmap"; unless given, what suits the device.
    `on_segment` hears of progress and may raise to stop; `callbacks` are objects that hear of it,
    see `mirrorax.callbacks`.

    A run depends on its own specification alone: it is the same in any grid, and in a sweep.
    """
    made = make_settings(
        preset,
        **{
            **settings,
            "environment": _name_of(env),
            "potential": _regularizer_name("potential", potential),
            "drift": _regularizer_name("drift", drift),
            **({} if steps is None else {"steps": steps}),
        },
    )
    traced = (alpha, lam, w, gamma, reward_scale, actor_lr, critic_lr)
    runs = plan_runs(made, dict(zip(_GRID, traced, strict=True)), seeds)
    check_lanes(lanes)
    check_layout(layout)
    listeners = Callbacks(callbacks)
    if not isinstance(curve_points, int) or isinstance(curve_points, bool) or curve_points < 0:
        raise UserError(f"curve_points: {curve_points!r}: expected a whole number, 0 or more")

    # Everything is valid: only now what is heavy.
    from mirrorax.envs.adapter import make
    from mirrorax.mdpo.chunk import run_sessions, sessions
    from mirrorax.mdpo.program import default_lanes, make_program
    from mirrorax.spec.identity import run_key, specification

    environment = make(made.environment) if isinstance(env, str) else env
    program = make_program(
        made,
        environment,
        None if isinstance(potential, str) else potential,
        None if isinstance(drift, str) else drift,
    )
    keys = np.array([run_key(specification(made, run)) for run in runs], np.uint32)
    columns = {name: [getattr(run, name) for run in runs] for name in RunValues.model_fields}
    every = None
    if curve_points and not made.eval_every:
        every = max(1, made.updates // curve_points)
    count = -(-len(runs) // (lanes or default_lanes()))
    policies: list[np.ndarray] = []
    kept: list[Session] = []

    def one_by_one() -> Iterator[Session]:
        for session in sessions(made, columns, keys, lanes, program, every, layout):
            yield session
            policies.append(session.policies)
            if count <= KEPT_SESSIONS:
                kept.append(session)

    def hear(progress: Progress) -> None:
        if on_segment is not None:
            on_segment(progress)
        listeners.on_segment(progress)

    result = None
    try:
        listeners.on_start(made, runs)
        done = run_sessions(one_by_one(), count, hear)
        result = _result(made, runs, done, environment.return_bounds, policies, kept)
    finally:
        listeners.on_end(result)
    return result
