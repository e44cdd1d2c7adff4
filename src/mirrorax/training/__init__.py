"""`mirrorax.train`: train MDPO(h, D) on an environment, over seeds and temperatures at once.

    make_request(...) --> Request --train_request--> TrainResult

`make_request` checks what is asked for and needs no jax. `train_request` is `train_chunk` in this
process.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mirrorax.errors import UserError, shown, unknown
from mirrorax.runs.chunk import Chunk, make_chunk
from mirrorax.runs.settings import (
    GRID,
    LEARNED_WEIGHTS,
    RunValues,
    Settings,
    check_values,
    coinciding,
    make_settings,
)

if TYPE_CHECKING:
    from mirrorax.callbacks import Callback
    from mirrorax.envs.adapter import Task
    from mirrorax.mdpo.program import Layout
    from mirrorax.mdpo.session import SegmentProgress, Session
    from mirrorax.regularizers import Drift, Potential
    from mirrorax.training.result import TrainResult

#: One number, or several: several span a grid with the others.
Numbers = float | Sequence[float] | np.ndarray | None

#: how updates go over lanes: one by one, or batched
LAYOUTS = ("map", "vmap")

#: more seeds than this are a mistake
MOST_SEEDS = 100_000

#: more runs than this are a study, for `mirrorax sweep`
MOST_RUNS = 100_000

#: lanes are counted in 32 bits
MOST_LANES = 2**31 - 1

#: Of more sessions than this (32 runs each on a CPU) only the policies are kept, not the states.
KEPT_SESSIONS = 4


def train(
    env: str | Task,
    potential: str | Potential = "entropy",
    drift: str | Drift = "kl",
    alpha: Numbers = None,
    lam: Numbers = None,
    seeds: int | Iterable[int] = 5,
    steps: int | None = None,
    *,
    w: Numbers = None,
    v: Numbers = None,
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

    `alpha` and `lam` (0.01 and 0.1 unless learned; lam is 1 for a drift that sees advantages), `w`
    and `v` (0.5 and 0.1 where learned), `gamma`, `reward_scale` and the learning rates may each be
    one number or
    several; several span a grid, and each point of it is trained with every seed, all side by side.
    `seeds` is a number of seeds or a list of them;
    `steps` is the preset's, 1,000,000 in `default`.
    `settings` are the fields of `mirrorax.runs.settings.Settings`, over those of the preset.
    `curve_points=n` evaluates about n times along the way (`curves["return"]`) and changes nothing;
    `eval_every=k` is a setting, and also records losses, h, D, temperatures and gradient norms.
    `layout` says how updates go over lanes, "map" or "vmap"; unless given, what suits the device.
    `on_segment` is called with the progress and may raise to stop; see also `mirrorax.callbacks`.
    `progress=False` shows no progress bar; there is one in a terminal and in a notebook.

    A run depends on its own specification alone: it is the same in any grid, and in a sweep.
    """
    traced = (alpha, lam, w, v, gamma, reward_scale, actor_lr, critic_lr)
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
    notify: Callable[..., None] | None = None
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if progress or callbacks not in ((), []):
        from mirrorax.callbacks import Callbacks, ProgressBar

        notify = Callbacks([*Callbacks(callbacks), *([ProgressBar()] if progress else [])])

    # Everything is valid: only now what is heavy.
    from mirrorax.mdpo.machine import check_memory
    from mirrorax.mdpo.program import default_lanes, make_program
    from mirrorax.mdpo.session import train_chunk
    from mirrorax.training.result import TrainResult

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
        if notify is not None:
            notify("on_segment", segment)

    try:
        if notify is not None:
            notify("on_start", settings, runs)
        outcome = train_chunk(
            request.chunk,
            on_segment=report,
            program=program,
            layout=request.layout,
            evaluate_every=every,
            on_session=keep,
        )
    except BaseException:
        if notify is not None:
            with contextlib.suppress(Exception):  # the error of the training is raised
                notify("on_end", None)
        raise
    result = TrainResult(outcome, runs, np.concatenate(policies), sessions)
    if notify is not None:
        notify("on_end", result)
    return result


@dataclass(frozen=True, eq=False)
class Request:
    """A validated request: the settings, and the values of every run."""

    settings: Settings
    runs: list[RunValues]
    lanes: int | None = None
    layout: Layout | None = None
    #: objects that stand in for the names in the settings
    environment: Task | None = None
    potential: Potential | None = None
    drift: Drift | None = None

    @property
    def chunk(self) -> Chunk:
        """The runs as columns, with their random keys."""
        columns = {n: [getattr(run, n) for run in self.runs] for n in RunValues.model_fields}
        return make_chunk(self.settings, columns, self.lanes)


def make_request(
    env: str | Task,
    *,
    potential: str | Potential = "entropy",
    drift: str | Drift = "kl",
    grid: Mapping[str, Numbers] | None = None,
    seeds: int | Iterable[int] = 5,
    preset: str = "default",
    lanes: int | None = None,
    layout: Layout | None = None,
    **settings: Any,
) -> Request:
    """Check what is to be trained; raise `UserError` on the first mistake.

    `grid` maps names of `GRID` to one number or several; `settings` are fields of `Settings`.
    """
    check_env_alone(env, settings)
    checked = make_settings(
        preset,
        **{
            **settings,
            "environment": name_of("environment", env),
            "potential": name_of("potential", potential),
            "drift": name_of("drift", drift),
        },
    )
    runs = plan_runs(checked, grid or {}, seeds)
    check_lanes(lanes)
    check_layout(layout)
    return Request(
        checked,
        runs,
        lanes,
        layout,
        None if isinstance(env, str) else env,
        None if isinstance(potential, str) else potential,
        None if isinstance(drift, str) else drift,
    )


def _several(name: str, values: Any) -> list[Any]:
    """Return one number or several as a list of different numbers."""
    values = _plain(values)
    if values is None or isinstance(values, int | float | str):
        values = [values]
    elif isinstance(values, Mapping | bytes):
        what = "a table" if isinstance(values, Mapping) else repr(values)
        raise UserError(f"{name}: {what} is not allowed: one number, or a list of numbers")
    else:
        try:
            values = [_plain(value) for value in values]
        except TypeError:
            raise UserError(f"{name}: {values!r} is not a number or a list of numbers") from None
    if not values:
        raise UserError(f"{name}: an empty list; give at least one number")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            raise UserError(f"{name}: {value!r} is not a number")
    _refuse_repetitions(name, values, values)
    return list(values)


def _plain(value: Any) -> Any:
    """Return the numbers and arrays of numpy and jax as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _refuse_repetitions(name: str, values: Sequence[Any], shown_values: Sequence[Any]) -> None:
    if len(set(values)) < len(shown_values):
        raise UserError(
            f"{name}: {list(shown_values)} has repetitions, which would be the same run twice"
        )


def expand_seeds(seeds: int | Iterable[int]) -> list[int]:
    """Return the seeds: n stands for 0, ..., n - 1."""
    values: Any = _plain(seeds)
    if isinstance(values, int) and not isinstance(values, bool):
        if not 1 <= values <= MOST_SEEDS:
            raise UserError(
                f"seeds: {values} is not allowed: 1 to {MOST_SEEDS} of them, or a list of seeds"
            )
        return list(range(values))
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise UserError(f"seeds: {values!r} is not allowed: a whole number, or a list of seeds")
    values = [_plain(seed) for seed in values]
    if not values:
        raise UserError("seeds: an empty list; give at least one seed")
    for seed in values:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise UserError(f"seeds: {seed!r} is not a whole number")
    _refuse_repetitions("seeds", values, values)
    return list(values)


def check_env_alone(env: Any, more: Mapping[str, Any]) -> None:
    """Refuse a second environment under the name that the setting has."""
    if "environment" in more:
        raise UserError(f"environment: {more['environment']!r} and env = {env!r}; give env alone")


def check_lanes(lanes: Any) -> None:
    """Refuse what is not a number of lanes, or None for the device's own."""
    if lanes is None:
        return
    if isinstance(lanes, bool) or not isinstance(lanes, int | np.integer):
        raise UserError(f"lanes: {lanes!r} is not a whole number")
    if not 1 <= lanes <= MOST_LANES:
        raise UserError(f"lanes: {shown(lanes)} is not allowed: 1 to {MOST_LANES}")


def check_layout(layout: Any) -> None:
    """Refuse what is no layout, or None for the device's own."""
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)


def plan_runs(
    settings: Settings, grid: Mapping[str, Any], seeds: int | Iterable[int]
) -> list[RunValues]:
    """Span the grid of the given values and seeds; every run is checked."""
    grid = {name: value for name, value in grid.items() if value is not None}
    for learned, weight in ((settings.learned_alpha, "w"), (settings.learned_lam, "v")):
        if learned and weight not in grid:
            grid[weight] = LEARNED_WEIGHTS[weight]
    axes = {name: _several(name, grid[name]) for name in GRID if name in grid}
    axes["seed"] = expand_seeds(seeds)
    count = math.prod(map(len, axes.values()))
    if count > MOST_RUNS:
        raise UserError(
            f"seeds: {len(axes['seed'])} of each point of the grid are {count} runs; "
            f"at most {MOST_RUNS} are trained at once, and more are a study for a sweep"
        )
    points = (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values()))
    runs = [check_values(settings, values) for values in points]
    for name in axes:
        if name in GRID:
            values = [getattr(run, name) for run in runs]
            _refuse_repetitions(name, values, axes[name])  # two texts of one number
            pair = coinciding(value for value in values if value is not None)
            if pair is not None:
                raise UserError(
                    f"{name}: {pair[0]!r} and {pair[1]!r} are one number in float32, which "
                    "training computes in; give one of them"
                )
    return runs


def name_of(kind: str, value: Any) -> str:
    """Return the name under which what was passed is recorded."""
    if isinstance(value, str):
        return value
    from mirrorax.training import objects

    if kind == "environment":
        return objects.environment_name(value)
    return objects.regularizer_name(kind, value)
