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

from mirrorax.errors import UserError, unknown
from mirrorax.formatting import check_whole
from mirrorax.runs.chunk import Chunk, chunk_of_runs
from mirrorax.runs.settings import (
    GRID,
    LEARNED_WEIGHTS,
    RunValues,
    Settings,
    as_float32,
    check_values,
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

#: more runs than this are a study, for `mirrorax sweep`
MOST_RUNS = 100_000

#: lanes are counted in 32 bits
MOST_LANES = 2**31 - 1

#: how many points a learning curve has unless told otherwise
CURVE_POINTS = 20

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
    curve_points: int = CURVE_POINTS,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    **settings: Any,
) -> TrainResult:
    """Train MDPO(h, D) and evaluate it.

    `alpha` and `lam` (0.01 and 0.1 unless learned; lam is 1 for a drift that sees advantages), `w`
    and `v` (0.5 and 0.1 where learned), `gamma`, `reward_scale` and the learning rates may each be
    one number or several; several span a grid, and each point of it is trained with every seed, all
    side by side. `seeds` is a number of seeds or a list of them; `steps` is the preset's, 1,000,000
    in `default`. `settings` are the fields of `mirrorax.runs.settings.Settings`, over those of the
    preset.
    `curve_points=n` evaluates about n times along the way, for the learning curves, and changes no
    run; 0 saves the time. `eval_every=k` is a setting, and also records losses, h, D, temperatures
    and gradient norms.
    `layout` says how updates go over lanes, "map" or "vmap"; unless given, what suits the device.
    `on_segment` is called with the progress and may raise to stop; see also `mirrorax.callbacks`.
    `progress=False` shows no progress bar; there is one in a terminal and in a notebook.

    A run depends on its own specification alone: it is the same in any grid, and in a sweep.
    """
    numbers = (alpha, lam, w, v, gamma, reward_scale, actor_lr, critic_lr)
    fields = {"steps": steps, **dict(zip(GRID, numbers, strict=True))}
    request = make_request(
        env,
        potential=potential,
        drift=drift,
        seeds=seeds,
        preset=preset,
        lanes=lanes,
        layout=layout,
        **{name: value for name, value in fields.items() if value is not None},
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
    curve_points: int = CURVE_POINTS,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> TrainResult:
    """Train what was asked for; see `train`."""
    curve_points = check_whole("curve_points", curve_points)
    chunk, settings = request.chunk, request.chunk.settings
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    called: Callable[..., None] | None = None
    if progress or callbacks not in ((), []):
        from mirrorax.callbacks import Callbacks, ProgressBar

        called = Callbacks(callbacks, *([ProgressBar()] if progress else []))

    def notify(method: str, *arguments: Any) -> None:
        if called is not None:
            called(method, *arguments)

    # Everything is valid: only now what is heavy.
    from mirrorax.mdpo.program import check_memory, default_lanes, make_program
    from mirrorax.mdpo.session import train_chunk
    from mirrorax.training.result import TrainResult

    program = make_program(settings, request.environment, request.potential, request.drift)
    lanes = chunk.lanes or default_lanes()
    check_memory(program, lanes)
    every = None
    if curve_points and not settings.eval_every:
        every = max(1, settings.updates // curve_points)
    policies: list[np.ndarray] = []
    sessions: list[Session] = []

    def keep(session: Session) -> None:
        policies.append(session.policies)
        if len(chunk) <= KEPT_SESSIONS * lanes:
            sessions.append(session)

    def report(segment: SegmentProgress) -> None:
        if on_segment is not None:
            on_segment(segment)
        notify("on_segment", segment)

    try:
        notify("on_start", settings, chunk.runs)
        outcome = train_chunk(
            chunk,
            on_segment=report,
            program=program,
            layout=request.layout,
            evaluate_every=every,
            on_session=keep,
        )
    except BaseException:
        with contextlib.suppress(Exception):  # the error of the training is raised
            notify("on_end", None)
        raise
    trained = np.concatenate(policies)
    result = TrainResult(**vars(outcome), policies=trained, sessions=sessions)
    notify("on_end", result)
    return result


@dataclass(frozen=True, eq=False)
class Request:
    """A validated request."""

    chunk: Chunk
    layout: Layout | None = None
    #: objects that stand in for the names in the settings
    environment: Task | None = None
    potential: Potential | None = None
    drift: Drift | None = None


def make_request(
    env: str | Task,
    *,
    potential: str | Potential = "entropy",
    drift: str | Drift = "kl",
    seeds: int | Iterable[int] = 5,
    preset: str = "default",
    lanes: int | None = None,
    layout: Layout | None = None,
    **fields: Any,
) -> Request:
    """Check what is to be trained; raise `UserError` on the first mistake.

    `fields` are fields of `Settings`, and names of `GRID` with one number or several.
    """
    check_env_alone(env, fields)
    grid = {name: fields.pop(name) for name in GRID if name in fields}
    named: dict[str, Any] = {"environment": env, "potential": potential, "drift": drift}
    names = {kind: _name_of(kind, value) for kind, value in named.items()}
    settings = make_settings(preset, **fields, **names)
    runs = plan_runs(settings, grid, seeds)
    check_lanes(lanes)
    if layout is not None and layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    objects = {kind: value for kind, value in named.items() if not isinstance(value, str)}
    return Request(chunk_of_runs(settings, runs, lanes), layout, **objects)


def check_env_alone(env: Any, more: Mapping[str, Any]) -> None:
    """Refuse a second environment under the name that the setting has."""
    if "environment" in more:
        raise UserError(f"environment: {more['environment']!r} and env = {env!r}; give env alone")


def check_lanes(lanes: int | None) -> None:
    """Refuse what is not a number of lanes, or None for the device's own."""
    if lanes is not None:
        check_whole("lanes", lanes, 1, MOST_LANES)


def plan_runs(
    settings: Settings, grid: Mapping[str, Any], seeds: int | Iterable[int]
) -> list[RunValues]:
    """Span the grid of the given values and seeds (n stands for 0, ..., n - 1); check every run."""
    seeds = _plain(seeds)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        seeds = range(check_whole("seeds", seeds, 1, MOST_RUNS))
    for learned, weight in ((settings.learned_alpha, "w"), (settings.learned_lam, "v")):
        if learned:
            grid = {weight: LEARNED_WEIGHTS[weight], **grid}
    axes = {name: _different(name, grid[name]) for name in GRID if name in grid}
    axes["seed"] = _different("seed", seeds)
    count = math.prod(map(len, axes.values()))
    if count > MOST_RUNS:
        raise UserError(
            f"seeds: {len(axes['seed'])} of each point of the grid are {count} runs; "
            f"at most {MOST_RUNS} are trained at once, and more are a study for a sweep"
        )
    points = itertools.product(*axes.values())
    return [check_values(settings, dict(zip(axes, point, strict=True))) for point in points]


def _different(name: str, values: Any) -> list[Any]:
    """Return one number or several as a list of numbers, checked, of which no two are the same."""
    values = _plain(values)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        values = [values]
    values = [_plain(value) for value in values]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UserError(f"{name}: {value!r} is not a number, or a list of numbers")
    numbers = [getattr(RunValues(**{name: value}), name) for value in values]
    apart = set(numbers) if name == "seed" else set(map(as_float32, numbers))
    if not numbers:
        raise UserError(f"{name}: []: expected one number or more")
    if len(apart) < len(numbers):
        if name == "seed":
            raise UserError(f"seeds: {numbers}: expected seeds that differ")
        raise UserError(
            f"{name}: {numbers}: expected numbers that differ, in float32 as training computes"
        )
    return numbers


def _plain(value: Any) -> Any:
    """Return the numbers and arrays of numpy and jax as Python's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _name_of(kind: str, value: Any) -> str:
    """Return the name under which what was passed is recorded."""
    if isinstance(value, str):
        return value
    from mirrorax.training import objects

    if kind == "environment":
        return objects.environment_name(value)
    return objects.regularizer_name(kind, value)
