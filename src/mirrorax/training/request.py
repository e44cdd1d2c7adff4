"""What a person asks `mirrorax.train` for, checked before anything heavy is done."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError, shown, unknown
from mirrorax.runs import float32
from mirrorax.runs.settings import OTHER_NUMBERS, TEMPERATURES, RunValues, Settings, check_values

if TYPE_CHECKING:
    from mirrorax.envs.adapter import Task
    from mirrorax.regularizers import Drift, Potential

#: One number, or several: several span a grid with the others.
Numbers = float | Sequence[float] | np.ndarray | None

#: how updates go over lanes: one by one, or batched
LAYOUTS = ("map", "vmap")

#: more seeds than this are a slip of the pen
MOST_SEEDS = 100_000

#: more runs than this are a study, for `mirrorax sweep`
MOST_RUNS = 100_000

#: lanes are counted in 32 bits
MOST_LANES = 2**31 - 1

#: the values that span a grid, in the order of its runs
GRID = (*TEMPERATURES, *OTHER_NUMBERS)

#: the largest number of the arithmetic of training
_LARGEST = float32.HIGHEST


def _several(name: str, given: Any) -> list[Any]:
    if hasattr(given, "tolist"):
        given = given.tolist()  # numpy's and jax's numbers and arrays
    if given is None or isinstance(given, int | float | str):
        found = [given]
    elif isinstance(given, Mapping | bytes):
        what = "a table" if isinstance(given, Mapping) else repr(given)
        raise UserError(f"{name}: {what} is not allowed: one number, or a list of numbers")
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
    settings: Settings, grid: dict[str, Any], seeds: int | Iterable[int]
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
    every = (dict(zip(axes, point, strict=True)) for point in itertools.product(*axes.values()))
    runs = [check_values(settings, values) for values in every]
    for name in axes:
        if name in GRID:
            found = [getattr(run, name) for run in runs]
            if len(set(found)) < len(axes[name]):  # texts of one number
                raise UserError(
                    f"{name}: {axes[name]} has repetitions, which would be the same run twice"
                )
            _refuse_coinciding(name, found)
    return runs


def _refuse_coinciding(name: str, values: Iterable[float | None]) -> None:
    """Refuse two values of a grid that are one to the program, and would pass for two."""
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
    given = ", ".join(f"{f.name}={getattr(env, f.name)!r}" for f in fields(env) if f.init)
    return f"{path}({' '.join(given.split())})" if given else path


def regularizer_name(kind: str, given: str | Potential | Drift) -> str:
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
