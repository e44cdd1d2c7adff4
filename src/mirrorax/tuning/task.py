"""The arguments of a search, checked: what is chosen among, what is searched, where it starts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mirrorax.errors import UserError, nearest
from mirrorax.runs.settings import (
    LEARNED_WEIGHTS,
    OTHER_NUMBERS,
    TEMPERATURES,
    RunValues,
    Settings,
    make_settings,
)
from mirrorax.training import check_env_alone, check_lanes
from mirrorax.tuning.evidence import of_results
from mirrorax.tuning.space import LANES, Cell, Range, Specification, plan_budget
from mirrorax.tuning.suggestion import alike, suggest

#: Where each value is searched unless a range is given, and how far that may grow.
DEFAULT_RANGES = {
    "alpha": Range("alpha", 1e-4, 1.0, limits=(1e-8, 1e5)),
    "lam": Range("lam", 1e-3, 1e3, limits=(1e-8, 1e7)),
    "w": Range("w", 0.0, 1.0, scale="linear"),
    "v": Range("v", 1e-3, 1.0, limits=(1e-6, 1.0)),
}
#: Values that a search may be told to vary.
OTHERS = ("actor_lr", "critic_lr", "gamma")
#: The scale of a value, where it is not `log`.
SCALES = {"w": "linear", "gamma": "complement"}
#: At most so many static choices are searched at once.
MOST_ARMS = 24


def prepare(
    env: str,
    potential: str | Sequence[str] | None = None,
    drift: str | Sequence[str] | None = None,
    *,
    budget: int = 256,
    seed: int = 0,
    preset: str = "default",
    ranges: Mapping[str, Sequence[float] | None] | None = None,
    choices: Mapping[str, Sequence[Any]] | None = None,
    results: str | os.PathLike[str] | None = None,
    lanes: int | None = None,
    **more: Any,
) -> Specification:
    """Check the arguments of `tune`, before anything heavy is imported."""
    given = {name: pair for name, pair in (ranges or {}).items() if pair is not None}
    more = {name: value for name, value in more.items() if value is not None}
    for name in TEMPERATURES:
        if f"{name}_range" in more:
            given[name] = more.pop(f"{name}_range")
        if name in more:
            raise UserError(f"{name}: the search finds it; give {name}_range to limit it")
    fixed = {name: more.pop(name) for name in OTHER_NUMBERS if name in more}
    check_env_alone(env, more)
    plan_budget(budget)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 10**6:
        raise UserError(f"seed: {seed!r} is not allowed: a whole number from 0 to 999999")
    check_lanes(lanes)
    more["environment"] = env
    base = make_settings(preset, **more)
    scale = float(RunValues(**fixed).reward_scale)
    # Evidence counts only as far as it was measured under conditions that are alike.
    suggestion = None
    if scale == 1 and alike(base, known := of_results(results)):
        suggestion = suggest(
            base.environment,
            potential=potential if isinstance(potential, str) else None,
            drift=drift if isinstance(drift, str) else None,
            evidence=known,
        )
    options = {name: list(values) for name, values in (choices or {}).items()}
    for name, value in (("potential", potential), ("drift", drift)):
        if value is None:
            value = getattr(suggestion or base, name)
        options[name] = [value] if isinstance(value, str) else list(value)
    arms = _arms(preset, more, options)
    searched = _ranges(arms[0], given, fixed, scale)
    values: dict[str, Any] = {**RunValues().model_dump(), **LEARNED_WEIGHTS}
    default = {**values, "alpha": values["alpha"] * scale, "lam": values["lam"] * scale}
    starts = [_start(0, searched, default)]
    if suggestion is not None:
        cell = {**default, "alpha": suggestion.alpha, "lam": suggestion.lam}
        pair = suggestion.potential, suggestion.drift
        fitting = [k for k, each in enumerate(arms) if (each.potential, each.drift) == pair]
        starts += [_start(arm, searched, cell) for arm in fitting]
    starts += [Cell(arm, starts[0].values) for arm in range(1, len(arms))]
    return Specification(
        ranges=searched,
        budget=plan_budget(budget, 2 * len(searched)),
        arms=arms,
        starts=tuple(dict.fromkeys(starts)),
        seed=int(seed),
        fixed=fixed,
        lanes=lanes or LANES,
    )


def _start(arm: int, ranges: Sequence[Range], values: Mapping[str, float]) -> Cell:
    """Return the cell with these values, as far as they are within the ranges."""
    inside = (min(max(float(values[each.name]), each.low), each.high) for each in ranges)
    return Cell(arm, tuple(inside))


def _arms(
    preset: str, more: Mapping[str, Any], options: Mapping[str, Sequence[Any]]
) -> tuple[Settings, ...]:
    """Return every combination of the static choices, each once."""
    for name, values in options.items():
        if name not in Settings.model_fields or name in ("environment", "plugins"):
            raise UserError(f"choices: {name!r} is not a setting to choose among")
        if not values:
            raise UserError(f"choices: {name} has no value")
    combinations = itertools.product(*options.values())
    chosen = (dict(zip(options, values, strict=True)) for values in combinations)
    arms = tuple(dict.fromkeys(make_settings(preset, **{**more, **each}) for each in chosen))
    if len(arms) > MOST_ARMS:
        raise UserError(f"choices: {len(arms)} combinations; at most {MOST_ARMS}")
    if len({each.axes for each in arms}) > 1:
        raise UserError(
            "choices: schedules that learn a temperature and schedules that do not have different "
            "values to search; search them one after the other"
        )
    return arms


def _ranges(
    settings: Settings,
    given: Mapping[str, Sequence[float]],
    fixed: Mapping[str, float],
    scale: float,
) -> tuple[Range, ...]:
    """Return the ranges to search: two temperatures, and what else was asked for."""
    for name in given:
        if name in TEMPERATURES and name not in settings.axes:
            raise UserError(f"{name}_range: the schedules of these settings have no {name}")
        if name not in (*TEMPERATURES, *OTHERS):
            allowed = (*TEMPERATURES, *OTHERS)
            hint = f" (did you mean {close!r}?)" if (close := nearest(name, allowed)) else ""
            wrong = f"{name!r} is not a value to search{hint}"
            raise UserError(f"ranges: {wrong}; allowed: {', '.join(allowed)}")
        if name in fixed:
            raise UserError(f"{name}: given as a value and as a range; give one of them")
    out = []
    for name in dict.fromkeys((*settings.axes, *given)):
        if name in given:
            each = _given_range(name, given[name])
        else:
            each = DEFAULT_RANGES[name]
            if name in ("alpha", "lam") and settings.temperature_units == "reward":
                each = replace(each, low=each.low * scale, high=each.high * scale)
        _check_ends(each)
        out.append(each)
    return tuple(out)


def _given_range(name: str, pair: Sequence[float]) -> Range:
    try:
        low, high = map(float, pair)
    except (TypeError, ValueError):
        raise UserError(
            f"{name}_range: {pair!r} is not allowed: two numbers, low and high"
        ) from None
    if not low < high or not np.isfinite([low, high]).all():
        raise UserError(f"{name}_range: {low:g}, {high:g} is not allowed: low < high, both finite")
    if low <= 0 and name != "w":
        raise UserError(f"{name}_range: {low:g} is not allowed: positive numbers")
    if name == "v" and high > 0.3:  # no weight is above 1, nor is a neighbour's
        raise UserError(f"v_range: {high:g} is not allowed: at most 0.3")
    return Range(name, low, high, scale=SCALES.get(name, "log"))


def _check_ends(each: Range) -> None:
    """Refuse a range of which a run, or one of the winner's neighbours, could not be trained."""
    ends = each.low, each.high
    for value in (*ends, *each.neighbours(ends[0]), *each.neighbours(ends[1])):
        values: dict[str, Any] = {each.name: value}
        try:
            RunValues(**values)
        except UserError as error:
            reason = str(error).removeprefix(f"{each.name}: ")
            raise UserError(f"{each.name}_range: {reason}, a neighbour of the range") from None
