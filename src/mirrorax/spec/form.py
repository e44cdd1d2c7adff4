"""The keys of a study file as a pydantic model, and its mistakes as one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from mirrorax.errors import nearest, shown, what_is_wrong
from mirrorax.runs.presets import OTHER_NAMES
from mirrorax.runs.settings import (
    STATIC,
    TEMPERATURES,
    TRACED,
    NonNegative,
    Positive,
    RunValues,
    Settings,
    Weight,
    as_float32,
    canonical,
    coinciding,
)

_MOST_ENTRIES = 100_000


def mistake(path: str, value: Any, allowed: str) -> str:
    """Say what is wrong in a file: where, what is there, and what would be allowed."""
    return f"{path}: {allowed}" if value is None else f"{path}: {shown(value)}: {allowed}"


def _whole(value: Any) -> Any:
    """Take 1e6 for the whole number it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- axes -----------------------------------------------------------------------------------------

#: Significant digits of a point of a range. Powers differ in the last bit from one C library to
#: the next, and a run's identity must not.
RANGE_DIGITS = 12
MOST_POINTS = 10_000

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Ends = Annotated[list[_Number], Field(min_length=2, max_length=2)]


class Range(BaseModel):
    """`{ log = [low, high], points = n }` or `{ linear = [low, high], points = n }`.

    `plus` lists values to put in front of the range: a logarithmic one cannot reach 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    log: _Ends | None = None
    linear: _Ends | None = None
    points: Annotated[int, Field(ge=2, le=MOST_POINTS)]
    plus: list[_Number] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_scale(self) -> Range:
        if (self.log is None) == (self.linear is None):
            raise ValueError("give one of log = [low, high] and linear = [low, high]")
        return self

    @field_validator("log", "linear")
    @classmethod
    def _rises(cls, ends: list[float] | None, info: ValidationInfo) -> list[float] | None:
        if ends is not None and not ends[0] < ends[1]:
            raise ValueError(f"a range rises: low < high, got {ends}")
        if ends is not None and info.field_name == "log" and ends[0] <= 0:
            raise ValueError(f"a logarithmic range starts above 0, got {ends[0]}")
        return ends

    def values(self) -> tuple[float, ...]:
        """Return the values in order: `plus`, then the points from low to high."""
        low, high = self.log or self.linear or [0.0, 0.0]
        spaced = np.linspace if self.log is None else np.geomspace
        points = spaced(low, high, self.points)
        rounded = (float(f"{point:.{RANGE_DIGITS}g}") for point in points)
        return (*(value + 0.0 for value in self.plus), *(value + 0.0 for value in rounded))


def _as_list(value: Any) -> Any:
    single = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [value] if single else value


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    again = [value for value, count in Counter(values).items() if count > 1]
    if again:
        raise ValueError(f"{again[0]!r} is given twice; each value once")
    return values


def _apart(values: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse values that would be one cell under two names."""
    values = _once(tuple(value + 0.0 for value in values))  # -0.0 is 0.0
    pair = coinciding(values)
    if pair is not None:
        raise ValueError(
            f"{pair[0]!r} and {pair[1]!r} are one number in float32, which training computes in; "
            "give one of them"
        )
    return values


def _listed(entry: Any, *checks: Any) -> Any:
    """Return the type of a list with at least one entry."""
    size = Field(min_length=1, max_length=_MOST_ENTRIES)
    return Annotated[tuple[entry, ...], size, BeforeValidator(_as_tuple), *checks]


def _axis(number: Any) -> Any:
    """Return the type of an axis: a number, a list of numbers, or a range that becomes one."""
    entries = TypeAdapter(list[number])

    def spread(grid: Range) -> tuple[float, ...]:
        try:
            return _apart(tuple(entries.validate_python(grid.values())))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ValueError(f"{first['input']!r} {what_is_wrong(first)}") from None

    listed = _listed(number, BeforeValidator(_as_list), AfterValidator(_apart))
    return Annotated[
        Annotated[listed, Tag("<list>")]
        | Annotated[Annotated[Range, AfterValidator(spread)], Tag("<range>")],
        Discriminator(lambda value: "<range>" if isinstance(value, dict) else "<list>"),
    ]


# --- environments, pairs, schedules, seeds --------------------------------------------------------


def _name(field: str) -> Any:
    """Return the type of the name that is the value of a setting, in its canonical form."""
    return Annotated[str, AfterValidator(partial(canonical, field))]


class EnvironmentEntry(BaseModel):
    """`"CartPole"` or `{ name = "CartPole", reward_scale = 0.5 }` (or a list of scales)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: _name("environment")  # type: ignore[valid-type]
    reward_scale: _listed(Positive, BeforeValidator(_as_list), AfterValidator(_apart)) = (1.0,)  # type: ignore[valid-type]


def _environment_table(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


def _two(value: Any) -> Any:
    if not (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(entry, str) for entry in value)
    ):
        raise ValueError('expected two names, e.g. ["entropy", "kl"]')
    return tuple(value)


def _pairs(first: str, second: str) -> Any:
    """Return the type of a list of pairs of names, each the value of a setting."""
    pair = Annotated[tuple[_name(first), _name(second)], BeforeValidator(_two)]  # type: ignore[misc,valid-type]
    return _listed(pair, AfterValidator(_once))


def _runs_once(entries: tuple[EnvironmentEntry, ...]) -> tuple[EnvironmentEntry, ...]:
    """Refuse environments that would make a run twice."""
    _once(tuple((e.name, as_float32(scale)) for e in entries for scale in e.reward_scale))
    return entries


def _seeds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= _MOST_ENTRIES:
            raise ValueError(f"a number of seeds is between 1 and {_MOST_ENTRIES:,}")
        return tuple(range(value))
    return _as_tuple(value)


#: The keys that span the grid.
AXES = ("environments", "pairs", "schedules", "alpha", "lam", "w", "v", "seeds")

#: The keys that fix one setting or traced value of the trainer for all runs of a block.
FIXED = tuple(
    name
    for name in (*STATIC, *TRACED)
    if name not in ("environment", "potential", "drift", *TEMPERATURES, "seed", "reward_scale")
    and name != "plugins"  # they follow from the names
)


def _fixed_field(name: str) -> Any:
    info = (Settings if name in STATIC else RunValues).model_fields[name]
    checks: list[Any] = [*info.metadata, BeforeValidator(_as_tuple)]
    if info.annotation is int:
        checks.append(BeforeValidator(_whole))
    if name in ("alpha_schedule", "lam_schedule"):
        checks.append(AfterValidator(partial(canonical, name)))
    return Annotated[info.annotation, *checks]


_seed = Annotated[int, Field(ge=0, lt=2**63)]
_axis_fields: dict[str, Any] = {
    "environments": _listed(
        Annotated[EnvironmentEntry, BeforeValidator(_environment_table)], AfterValidator(_runs_once)
    ),
    "pairs": _pairs("potential", "drift"),
    "schedules": _pairs("alpha_schedule", "lam_schedule"),
    "alpha": _axis(NonNegative),
    "lam": _axis(NonNegative),
    "w": _axis(Weight),
    "v": _axis(Weight),
    "seeds": _listed(_seed, BeforeValidator(_seeds), AfterValidator(_once)),
}

_kinds = {**_axis_fields, **{name: _fixed_field(name) for name in FIXED}}
_fields: dict[str, Any] = {name: (kind, None) for name, kind in _kinds.items()}

#: Where keys of a run stand in a study.
_ELSEWHERE = {
    "environment": "environments",
    "potential": "pairs",
    "drift": "pairs",
    "reward_scale": "environments = [{ name = ..., reward_scale = ... }]",
}
#: The keys of the top level alone.
TOP = ("name", "preset", "plugins", "blocks")

#: The top level of a study, or one of its blocks: every key optional, no other key allowed.
Part: type[BaseModel] = create_model(
    "Part",
    __config__=ConfigDict(frozen=True, extra="forbid", strict=True),
    **_fields,
)


def mistakes(
    model: type[BaseModel], table: Mapping[str, Any], prefix: str
) -> tuple[BaseModel | None, list[str]]:
    """Validate a table; return the object or None, and every mistake in it."""
    try:
        return model.model_validate(dict(table)), []
    except ValidationError as error:
        return None, [
            mistake(prefix + _path(item["loc"], table), item["input"], _reason(item, model, prefix))
            for item in error.errors(include_url=False)
            # An entry that is wrong is also missing from its list: one complaint is enough.
            if not (item["type"] == "too_short" and item["input"])
        ]


def _path(loc: tuple[int | str, ...], table: Mapping[str, Any]) -> str:
    if len(loc) == 3 and loc[0] == "environments" and isinstance(loc[1], int):
        entry = table["environments"][loc[1]]
        loc = loc[:2] if isinstance(entry, str) else loc  # "CartPole" for { name = "CartPole" }
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not step.startswith("<"):
            text += f".{step}" if text else step
    return text


def _reason(item: Any, model: type[BaseModel], prefix: str) -> str:
    if item["type"] == "extra_forbidden":
        return _unknown_key(item["loc"], model, prefix)
    if item["type"] == "too_short":
        return "must not be empty"
    return what_is_wrong(item)


def _unknown_key(loc: tuple[int | str, ...], model: type[BaseModel], prefix: str) -> str:
    if len(loc) > 1 or model is not Part:
        return "no such key"
    key = str(loc[0])
    if key in _ELSEWHERE:
        return f"write it in {_ELSEWHERE[key]}"
    if key in OTHER_NAMES:
        return f"no such key; use {OTHER_NAMES[key]}"
    known = (*AXES, *FIXED, *(() if prefix else TOP))
    guess = nearest(key, known)
    return "no such key; " + (
        f"did you mean {guess!r}?" if guess else f"allowed: {', '.join(known)}"
    )
