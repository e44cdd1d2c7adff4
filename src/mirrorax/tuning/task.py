"""The arguments of a search, checked: what is chosen among, what is searched, where it starts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirrorax.errors import UserError
from mirrorax.runs.settings import OTHER_NUMBERS, TEMPERATURES, RunValues, Settings, make_settings
from mirrorax.training import check_env_alone, check_lanes
from mirrorax.tuning.space import Budget, Cell, Range, plan_budget
from mirrorax.tuning.suggestion import alike, suggest

#: Runs side by side. Results depend on the width, so it does not depend on the machine. Few: a
#: batch is to be shared among workers.
LANES = 4
#: Where each value is searched unless a range is given, and how far that may grow.
DEFAULT_RANGES = {
    "alpha": Range("alpha", 1e-4, 1.0, limits=(1e-8, 1e5)),
    "lam": Range("lam", 1e-3, 1e3, limits=(1e-8, 1e7)),
    "w": Range("w", 0.0, 1.0, scale="linear"),
    "v": Range("v", 1e-3, 1.0, limits=(1e-6, 1.0)),
}
#: Values that a search may be told to vary, with the scale of each.
OTHER_SCALES = {"actor_lr": "log", "critic_lr": "log", "gamma": "complement"}
#: At most so many static choices are searched at once.
MOST_ARMS = 24


@dataclass(frozen=True)
class TuneTask:
    """A search whose arguments are checked."""

    arms: tuple[Settings, ...]
    fixed: Mapping[str, float]
    ranges: tuple[Range, ...]
    starts: tuple[Cell, ...]
    budget: Budget
    seed: int
    lanes: int

    @property
    def names(self) -> tuple[str, ...]:
        """The values that are searched."""
        return tuple(each.name for each in self.ranges)


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
) -> TuneTask:
    """Check the arguments of `tune`, before anything heavy is imported."""
    given = {name: pair for name, pair in (ranges or {}).items() if pair is not None}
    for name in TEMPERATURES:
        given |= {name: more.pop(f"{name}_range")} if more.get(f"{name}_range") else {}
        if more.get(name) is not None:
            raise UserError(f"{name}: the search finds it; give {name}_range to limit it")
    more = {name: value for name, value in more.items() if value is not None}
    fixed = {name: more.pop(name) for name in OTHER_NUMBERS if name in more}
    check_env_alone(env, more)
    plan_budget(budget)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 10**6:
        raise UserError(f"seed: {seed!r} is not allowed: a whole number from 0 to 999999")
    check_lanes(lanes)
    base = make_settings(preset, **{**more, "environment": env})
    scale = float(RunValues(**fixed).reward_scale)
    # Evidence counts only as far as it was measured under conditions that are alike.
    suggestion = None
    if scale == 1 and alike(base, results):
        suggestion = suggest(
            base.environment,
            potential=potential if isinstance(potential, str) else None,
            drift=drift if isinstance(drift, str) else None,
            results=results,
        )
    named = {"potential": potential, "drift": drift}
    options = {name: list(values) for name, values in (choices or {}).items()}
    for name, value in named.items():
        if value is None:
            options[name] = [getattr(suggestion, name, getattr(base, name))]
        else:
            options[name] = [value] if isinstance(value, str) else list(value)
    arms = _arms(preset, {**more, "environment": env}, options)
    searched = _ranges(arms[0], given, fixed, scale)
    starts = [_start(searched, {}, scale)]
    if suggestion is not None:
        for number, settings in enumerate(arms):
            if (settings.potential, settings.drift) == (suggestion.potential, suggestion.drift):
                cell = {"alpha": suggestion.alpha, "lam": suggestion.lam}
                starts.append(_start(searched, cell, scale, number))
    starts += [Cell(arm, starts[0].values) for arm in range(1, len(arms))]
    plan = plan_budget(budget, 2 * len(searched))
    unique = tuple(dict.fromkeys(starts))
    return TuneTask(arms, fixed, searched, unique, plan, int(seed), lanes or LANES)


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
    settings = [
        make_settings(preset, **{**more, **dict(zip(options, values, strict=True))})
        for values in combinations
    ]
    arms = tuple(dict.fromkeys(settings))
    if len(arms) > MOST_ARMS:
        raise UserError(f"choices: {len(arms)} combinations; at most {MOST_ARMS}")
    if len({(each.learned_alpha, each.learned_lam) for each in arms}) > 1:
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
    first = "w" if settings.learned_alpha else "alpha"
    second = "v" if settings.learned_lam else "lam"
    names = [first, second, *(name for name in given if name not in TEMPERATURES)]
    for name in given:
        if name in TEMPERATURES and name not in names:
            raise UserError(f"{name}_range: the schedules of these settings have no {name}")
        if name not in TEMPERATURES and name not in OTHER_SCALES:
            allowed = ", ".join([*TEMPERATURES, *OTHER_SCALES])
            raise UserError(f"ranges: {name!r} is not a value to search; allowed: {allowed}")
        if name in fixed:
            raise UserError(f"{name}: given as a value and as a range; give one of them")
    out = []
    for name in names:
        kind = DEFAULT_RANGES[name].scale if name in DEFAULT_RANGES else OTHER_SCALES[name]
        if name in given:
            low, high = _pair(name, given[name])
            each = Range(name, low, high, scale=kind)
            if name == "v" and high > 0.3:  # no weight is above 1, nor is a neighbour's
                raise UserError(f"v_range: {high:g} is not allowed: at most 0.3")
        else:
            each = DEFAULT_RANGES[name]
            if name in ("alpha", "lam") and settings.temperature_units == "reward" and scale != 1:
                each = Range(name, each.low * scale, each.high * scale, limits=each.limits)
        _check_ends(each)
        out.append(each)
    return tuple(out)


def _pair(name: str, given: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        raise UserError(
            f"{name}_range: {given!r} is not allowed: two numbers, low and high"
        ) from None
    if not low < high or not np.isfinite([low, high]).all():
        raise UserError(f"{name}_range: {low:g}, {high:g} is not allowed: low < high, both finite")
    if low <= 0 and name != "w":
        raise UserError(f"{name}_range: {low:g} is not allowed: positive numbers")
    return low, high


def _check_ends(each: Range) -> None:
    """Refuse a range of which a run, or one of the winner's neighbours, could not be trained."""
    ends = [each.low, each.high]
    ends += [value for end in ends for value in each.neighbours(end)]
    for value in ends:
        values: dict[str, Any] = {each.name: value}
        try:
            RunValues(**values)
        except UserError as error:
            reason = str(error).removeprefix(f"{each.name}: ")
            raise UserError(f"{each.name}_range: {reason}, a neighbour of the range") from None


def _start(ranges: Sequence[Range], cell: Mapping[str, float], scale: float, arm: int = 0) -> Cell:
    """Return a cell to start with: the given values, else the defaults, within the ranges."""
    defaults: dict[str, Any] = {**RunValues().model_dump(), "w": 0.5, "v": 0.1}
    values = []
    for each in ranges:
        value = cell.get(each.name, defaults[each.name])
        if each.name in ("alpha", "lam") and each.name not in cell:
            value = value * scale
        values.append(min(max(float(value), each.low), each.high))
    return Cell(arm, tuple(values))
