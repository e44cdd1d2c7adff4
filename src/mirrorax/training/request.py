"""What `mirrorax.train` is asked for, checked before anything heavy is imported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError, shown, unknown
from mirrorax.runs import float32
from mirrorax.runs.chunk import Chunk, make_chunk
from mirrorax.runs.settings import (
    OTHER_NUMBERS,
    TEMPERATURES,
    RunValues,
    Settings,
    check_values,
    make_settings,
)

if TYPE_CHECKING:
    from mirrorax.envs.adapter import Task
    from mirrorax.mdpo.program import Layout
    from mirrorax.regularizers import Drift, Potential

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

#: the values that span a grid, in the order of its runs
GRID = (*TEMPERATURES, *OTHER_NUMBERS)


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
            "environment": name_of(env),
            "potential": regularizer_name("potential", potential),
            "drift": regularizer_name("drift", drift),
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
        if isinstance(value, int | float) and float32.HIGHEST < abs(value) < math.inf:
            limit = f"at most {float32.HIGHEST:g}, in float32"
            raise UserError(f"{name}: {value!r} is not allowed: {limit}")
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
    if settings.learned_alpha and "w" not in grid:
        grid["w"] = 0.5
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
            _refuse_coinciding(name, values)
    return runs


def _refuse_coinciding(name: str, values: Iterable[float | None]) -> None:
    """Refuse two values of a grid that are one number in float32."""
    pair = float32.coinciding(value for value in values if value is not None)
    if pair is not None:
        raise UserError(
            f"{name}: {pair[0]!r} and {pair[1]!r} are one number in float32, which training "
            "computes in; give one of them"
        )


def name_of(env: str | Task) -> str:
    """Return the name under which an environment's runs are recorded; it tells apart what differs.

    The suite's own name where it means an equal object, otherwise the path of its class, with the
    fields of a dataclass that is not as its class makes it without arguments. Such a path is a
    label: it means this object in this process, and nothing elsewhere.
    """
    if isinstance(env, str):
        return env
    name = _name_of_object(env)
    if ":" in name and not name.startswith("gymnasium:"):
        suite.adopt(name, env)
    return name


def _name_of_object(env: Task) -> str:
    from mirrorax.envs.adapter import Task, make

    if not isinstance(env, Task):
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
    values = ", ".join(f"{f.name}={getattr(env, f.name)!r}" for f in fields(env) if f.init)
    return f"{path}({' '.join(values.split())})" if values else path


def regularizer_name(kind: str, regularizer: str | Potential | Drift) -> str:
    """Return the name of h or D; an object must be what its name means."""
    if isinstance(regularizer, str):
        return regularizer
    from mirrorax import regularizers

    cls = regularizers.Potential if kind == "potential" else regularizers.Drift
    if not isinstance(regularizer, cls):
        raise UserError(f"{kind}: {regularizer!r} is neither a name nor a {cls.__name__} object")
    find = regularizers.potential if kind == "potential" else regularizers.drift
    try:
        known = find(str(regularizer))
    except UserError:
        raise UserError(
            f"{kind}: {str(regularizer)!r} is not registered; give it its name with "
            f"mirrorax.register_{kind}({str(regularizer)!r}, function)"
        ) from None
    if known != regularizer:
        raise UserError(
            f"{kind}: the name {str(regularizer)!r} of this object means another one; "
            f"register it under a name of its own (mirrorax.register_{kind})"
        )
    return str(regularizer)


def rows_of_cells(runs: Sequence[RunValues]) -> dict[tuple[Any, ...], list[int]]:
    """Return the places of the runs of each point of the grid, by its values."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(tuple(getattr(run, name) for name in GRID), []).append(index)
    return groups


def varying(runs: Sequence[RunValues]) -> list[str]:
    """Return the names of the values in which the points of a grid differ."""
    return [name for name in GRID if len({getattr(run, name) for run in runs}) > 1]
