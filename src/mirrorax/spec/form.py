"""The keys of a study file, as pydantic models, and their complaints as one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    create_model,
)

from mirrorax.envs import suite
from mirrorax.errors import UserError, shown
from mirrorax.regularizers.names import parse_drift, parse_potential
from mirrorax.runs import float32
from mirrorax.runs.settings import (
    ALPHA_SCHEDULES,
    FIELDS,
    LAM_SCHEDULES,
    STATIC,
    RunValues,
    Settings,
    check_schedule,
)
from mirrorax.spec.grid import Range, repeated

_MOST_ENTRIES = 100_000


@dataclass(frozen=True)
class Mistake:
    """One wrong thing in a file: where, what is there, and what would be allowed."""

    path: str
    value: Any
    allowed: str

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.path}: {self.allowed}"
        return f"{self.path}: {shown(self.value)}: {self.allowed}"


def _whole(value: Any) -> Any:
    """Take 1e6 for the whole number it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# --- axes -----------------------------------------------------------------------------------------


def _axis_kind(value: Any) -> str:
    return "<range>" if isinstance(value, (dict, Range)) else "<list>"


def _as_list(value: Any) -> Any:
    single = isinstance(value, (int, float)) and not isinstance(value, bool)
    return [value] if single else value


def values_of(axis: Any) -> Any:
    """Return the values of an axis, whichever way it was spelled."""
    return axis.values() if isinstance(axis, Range) else axis


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    again = repeated(values)
    if again:
        raise ValueError(f"{again[0]!r} is given twice; each value once")
    return values


def _at_most(high: float) -> Any:
    def check(value: float) -> float:
        if value > high:
            raise ValueError(f"Input should be less than or equal to {high:g}")
        return value

    return AfterValidator(check)


def _apart(values: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse what would be one cell under two names."""
    pair = float32.coinciding(_once(values))
    if pair is not None:
        raise ValueError(
            f"{pair[0]!r} and {pair[1]!r} are one number in float32, which training computes in; "
            "give one of them"
        )
    return values


def _within(low: float, high: float) -> Any:
    def check(grid: Range) -> Range:
        values = grid.values()
        for value in values:
            if not low <= value <= high:
                raise ValueError(f"{value!r} is not between {low:g} and {high:g}")
            try:
                float32.zero_or_positive(value)
            except ValueError as error:
                reason = str(error).replace("Input should be", "must be")
                raise ValueError(f"{value!r}: {reason}") from None
        _apart(values)
        return grid

    return AfterValidator(check)


def _axis(low: float, high: float) -> Any:
    number = Annotated[
        float,
        Field(ge=low, allow_inf_nan=False),
        _at_most(high),
        AfterValidator(float32.zero_or_positive),
    ]
    listed = Annotated[
        tuple[number, ...],
        Field(min_length=1, max_length=_MOST_ENTRIES),
        BeforeValidator(_as_tuple),
        BeforeValidator(_as_list),
        AfterValidator(lambda values: _apart(tuple(value + 0.0 for value in values))),
    ]
    ranged = Annotated[Range, _within(low, high)]
    return Annotated[
        Annotated[listed, Tag("<list>")] | Annotated[ranged, Tag("<range>")],
        Discriminator(_axis_kind),
    ]


_LARGEST = 1e30  # a temperature is a float32 in the end

# --- environments, pairs, schedules, seeds --------------------------------------------------------


def _environment(name: str) -> str:
    return suite.environment(name).name


_Scale = Annotated[
    float,
    Field(gt=0, allow_inf_nan=False),
    _at_most(_LARGEST),
    AfterValidator(float32.positive),
]


class Environment(BaseModel):
    """`"CartPole"` or `{ name = "CartPole", reward_scale = 0.5 }` (or a list of scales)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, AfterValidator(_environment)]
    reward_scale: Annotated[
        tuple[_Scale, ...],
        Field(min_length=1, max_length=_MOST_ENTRIES),
        BeforeValidator(_as_tuple),
        BeforeValidator(_as_list),
        AfterValidator(_apart),
    ] = (1.0,)

    def canonical(self) -> tuple[str, tuple[float, ...]]:
        """Return the environment's one spelling and the scales of its rewards."""
        return self.name, self.reward_scale


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


def _pair(names: tuple[str, str]) -> tuple[str, str]:
    wrong: list[str] = []
    found: list[str] = []
    for parse, name in ((parse_potential, names[0]), (parse_drift, names[1])):
        try:
            found.append(str(parse(name)))
        except UserError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return found[0], found[1]


def _schedule(kind: str, allowed: tuple[str, ...]) -> Any:
    def check(name: str) -> str:
        return check_schedule(kind, name, allowed)

    return check


_alpha_schedule = _schedule("alpha_schedule", ALPHA_SCHEDULES)
_lam_schedule = _schedule("lam_schedule", LAM_SCHEDULES)


def _both_schedules(names: tuple[str, str]) -> tuple[str, str]:
    return _alpha_schedule(names[0]), _lam_schedule(names[1])


def _seeds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if not 1 <= value <= _MOST_ENTRIES:
            raise ValueError(f"a number of seeds is between 1 and {_MOST_ENTRIES:,}")
        return tuple(range(value))
    return _as_tuple(value)


def _listed(entry: Any) -> Any:
    return Annotated[
        tuple[entry, ...],
        Field(min_length=1, max_length=_MOST_ENTRIES),
        BeforeValidator(_as_tuple),
    ]


_PairOfNames = Annotated[tuple[str, str], BeforeValidator(_two)]

#: The keys that span the grid.
AXES = ("environments", "pairs", "schedules", "alpha", "lam", "w", "seeds")

#: The keys that fix one setting or traced value of the trainer for all runs of a block.
FIXED = tuple(
    name
    for name in FIELDS
    if name
    not in ("environment", "potential", "drift", "alpha", "lam", "w", "seed", "reward_scale")
    and name != "plugins"  # found, from the modules that the study declares
)


def _fixed_field(name: str) -> Any:
    model = Settings if name in STATIC else RunValues
    info = model.model_fields[name]
    checks: list[Any] = list(info.metadata)
    if info.annotation is int:
        checks.append(BeforeValidator(_whole))
    checks.append(BeforeValidator(_as_tuple))
    if name == "alpha_schedule":
        checks.append(AfterValidator(_alpha_schedule))
    if name == "lam_schedule":
        checks.append(AfterValidator(_lam_schedule))
    annotated: Any = info.annotation
    for check in checks:
        annotated = Annotated[annotated, check]
    return (annotated, None)


_axis_fields: dict[str, Any] = {
    "environments": (_listed(Annotated[Environment, BeforeValidator(_environment_table)]), None),
    "pairs": (_listed(Annotated[_PairOfNames, AfterValidator(_pair)]), None),
    "schedules": (_listed(Annotated[_PairOfNames, AfterValidator(_both_schedules)]), None),
    "alpha": (_axis(0.0, _LARGEST), None),
    "lam": (_axis(0.0, _LARGEST), None),
    "w": (_axis(0.0, 1.0), None),
    "seeds": (
        Annotated[
            tuple[Annotated[int, Field(ge=0, lt=2**63)], ...],
            Field(min_length=1, max_length=_MOST_ENTRIES),
            BeforeValidator(_seeds),
            AfterValidator(_once),
        ],
        None,
    ),
}

#: The top level of a study, or one of its blocks: every key optional, no other key allowed.
Part: type[BaseModel] = create_model(
    "Part",
    __config__=ConfigDict(frozen=True, extra="forbid", strict=True),
    **_axis_fields,
    **{name: _fixed_field(name) for name in FIXED},
)


def mistakes(
    model: type[BaseModel], table: Mapping[str, Any], prefix: str
) -> tuple[BaseModel | None, list[Mistake]]:
    """Validate a table; return the object or None, and every mistake found in it."""
    try:
        return model.model_validate(dict(table)), []
    except ValidationError as error:
        return None, [
            Mistake(prefix + _path(item["loc"], table), item["input"], _reason(item))
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


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return "no such key"
    reason = str(item["msg"]).removeprefix("Value error, ")
    reason = reason[0].lower() + reason[1:]
    return reason.replace("input should be", "must be")
