"""What a run is: its settings (static) and its values (traced). Imports no jax.

A *static* field shapes the compiled program: changing it compiles anew. A *traced* value is data:
temperatures, seed, learning rates, discount and reward scale may differ from lane to lane of one
compiled program. The fields of `Settings` are static, those of `RunValues` traced.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mirrorax import registry
from mirrorax.envs import suite
from mirrorax.errors import UserError, nearest, shown, unknown, what_is_wrong
from mirrorax.regularizers import names
from mirrorax.runs.presets import MEANINGLESS, OTHER_NAMES, PRESETS

_schedules = registry.built_in("schedule").items()
#: The built-in schedules, and those that learn a temperature from a target's weight: `w` or `v`.
LEARNED = tuple(name for name, schedule in _schedules if schedule.learned)
ALPHA_SCHEDULES = tuple(name for name, _ in _schedules)

_LARGEST = 2**31 - 1  # sizes and numbers of updates are int32 in the compiled program
Count = Annotated[int, Field(ge=1, le=_LARGEST)]
Steps = Annotated[int, Field(ge=1, le=2**53)]
Width = Annotated[int, Field(ge=1, le=65_536)]

# Training computes in float32. A number is recorded, and a run identified, as it was written: one
# that float32 cannot hold would then stand for another, 1e-50 for 0 or 0.999999999 for 1.
HIGHEST = 3.4028234663852886e38
#: the smallest one of full precision; many processors flush those below to 0
LOWEST = 1.1754943508222875e-38


def as_float32(value: float) -> float:
    """Return the float32 that is nearest to a number, which must not be larger than `HIGHEST`."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def coinciding(values: Iterable[float]) -> tuple[float, float] | None:
    """Return the first two different numbers that are one in float32, if there are such."""
    seen: dict[float, float] = {}
    for value in values:
        other = seen.setdefault(as_float32(value), value)
        if other != value:
            return other, value
    return None


def _held(value: float) -> float:
    if value > HIGHEST:
        raise ValueError(f"Input should be at most {HIGHEST:g}, in float32")
    if 0 < value < LOWEST:
        raise ValueError(f"Input should be at least {LOWEST:g}; less is 0 in float32")
    return value


def _below_one(value: float) -> float:
    if as_float32(value) >= 1:
        raise ValueError(f"Input should be at most {1 - 2.0**-24:.8f}, or it is 1 in float32")
    return value


NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_held)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_held)]
Unit = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1), AfterValidator(_held)]
Discount = Annotated[float, Field(ge=0, lt=1), AfterValidator(_held), AfterValidator(_below_one)]


def one_line(error: ValidationError) -> UserError:
    """Return the first mistake: the field, what is wrong and the value."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        guess = OTHER_NAMES.get(where) or nearest(where, (*STATIC, *TRACED), 0.7)
        return UserError(f"{where}: no such field" + (f"; use {guess}" if guess else ""))
    reason = what_is_wrong(first)
    if first["type"] == "value_error" and reason.startswith(where):
        return UserError(reason)
    return UserError(f"{where}: {reason} (got {shown(first['input'])})")


#: the settings whose names may come from plugins, and what kind of name each is
_NAMES: dict[str, registry.Kind] = {
    "environment": "environment",
    "potential": "potential",
    "drift": "drift",
    "alpha_schedule": "schedule",
    "lam_schedule": "schedule",
    "network": "network",
    "optimizer": "optimizer",
}


def canonical(field: str, value: str) -> str:
    """Return the canonical form of a setting that is a name; a `UserError` if it is unknown."""
    kind = _NAMES[field]
    if kind == "environment":
        return suite.environment(value).name
    if kind == "potential" or kind == "drift":
        return str(names.parse(value, kind, field))
    return registry.check_name(kind, value, field)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise one_line(error) from None

    def __repr_args__(self) -> Any:
        """Return what a `repr` shows: the fields that are not at their defaults."""
        shown = super().__repr_args__()
        return [(n, v) for n, v in shown if n and type(self).model_fields[n].default != v]


class Settings(_Model):
    """Everything static about a run of MDPO(h, D). The defaults are the preset `default`."""

    environment: str
    algorithm: Literal["off_policy", "on_policy"] = "off_policy"
    potential: str = "entropy"
    drift: str = "kl"
    steps: Steps = 1_000_000
    num_envs: Count = 16
    env_steps_per_update: Count = 256
    steps_counted: Literal["total", "per_env"] = "total"
    batch_size: Count = 512
    batches_per_update: Count = 1
    drift_from: Literal["batch", "update"] = "batch"
    buffer_size: Count = 100_000
    buffer_counted: Literal["total", "per_env"] = "total"
    actor_epochs: Count = 2
    critic_epochs: Count = 1
    hidden: tuple[Width, ...] = (64, 64)
    activation: Literal["tanh", "relu"] = "tanh"
    network: str = "auto"
    initialization: Literal["orthogonal", "uniform", "lecun_normal"] = "orthogonal"
    actor_gain: Positive = 0.01
    critic_gain: Positive = 0.01
    optimizer: str = "adam"
    adam_eps: Positive = 1e-5
    anneal_learning_rate: bool = False
    twin_critics: bool = True
    critic_target: Literal["sac", "paper", "printed"] = "sac"
    clipping: Literal["per_network", "joint"] = "per_network"
    max_grad_norm: Positive = 1.0
    bootstrap_truncation: bool = True
    actor_q: Literal["regularized", "unregularized"] = "regularized"
    tau: Unit = 0.95
    gae_lambda: Unit = 0.95
    normalize_advantages: bool = False
    #: the saved policy of the potential `to(policy, d)`: a folder of `train --out`
    reference: str = ""
    alpha_schedule: str = "constant"
    lam_schedule: str = "constant"
    target_reference: Literal["range", "bound"] = "range"
    temperature_units: Literal["reward", "return_range", "q_spread"] = "reward"
    eval_episodes: Count = 10
    eval_every: Annotated[int, Field(ge=0, le=_LARGEST)] = 0
    #: `module==version` of the plugins that the names above come from; derived, not chosen
    plugins: Annotated[tuple[str, ...], Field(validate_default=True)] = ()

    @field_validator(*_NAMES)
    @classmethod
    def _name(cls, value: str, info: ValidationInfo) -> str:
        return canonical(str(info.field_name), value)

    @field_validator("reference")
    @classmethod
    def _reference(cls, value: str) -> str:
        if not value:
            return value
        # Its module needs jax, as reading a policy does; this one must not import it.
        return str(importlib.import_module("mirrorax.mdpo.references").canonical(value))

    @field_validator("plugins")
    @classmethod
    def _plugins(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not all(name in info.data for name in _NAMES):
            return value  # another field is wrong, and raises its own error
        used = _plugins_of(info.data)
        if value and value != used:
            here = ", ".join(used) or "none"
            raise ValueError(f"plugins: {', '.join(value)} wanted, but these names are of: {here}")
        return used

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong with the settings together; a later check needs the earlier ones."""
        steps, rollout = self.env_steps_per_update, self.steps_per_update
        size, buffer = self.batch_size, self.buffer_size
        if self.steps_counted == "total" and steps % self.num_envs:
            multiple = f"multiple of num_envs = {self.num_envs}"
            yield f"env_steps_per_update: {steps} counted in all is not a {multiple}"
        for name in MEANINGLESS[self.algorithm]:
            value, default = getattr(self, name), Settings.model_fields[name].default
            if value != default:
                where = f"with algorithm = {self.algorithm!r}; leave it at {default!r}"
                yield f"{name}: {value!r} has no meaning {where}"
        if self.on_policy and rollout % size:
            yield f"batch_size: {size} does not divide the {rollout} steps of a rollout evenly"
        to_policy, h, mu = self.potential.startswith("to(policy,"), self.potential, self.reference
        if mu and not to_policy:
            yield f"reference: {mu!r} belongs to the potential to(policy, d), not to {h!r}"
        if to_policy and not mu:
            yield f"potential: {h!r} needs a saved policy: reference, a folder of train --out"
        sees = f"{self.drift!r} sees the advantages of the actions taken"
        if self.drift_sees_advantages and not self.on_policy:
            yield f"drift: {sees}, which only algorithm = 'on_policy' has"
        if self.drift_sees_advantages and self.learned_lam:
            yield f"lam_schedule: {self.lam_schedule!r} needs a drift of two policies; {sees}"
        held = self.replay_slots * self.num_envs
        if size > held:
            yield f"batch_size: {size} is larger than buffer_size = {buffer}, which holds {held}"
        if rollout > held:
            yield f"buffer_size: {buffer} holds less than the {rollout} transitions of one update"
        if held > _LARGEST:
            yield f"buffer_size: {buffer} is {held} transitions; at most {_LARGEST}"
        if self.updates < 1:
            yield f"steps: {self.steps} is less than one update of {rollout} steps"
        if (each := self.updates * self.rollout_length) > _LARGEST:
            yield f"steps: {self.steps} is {each} in each environment; at most {_LARGEST}"

    @property
    def drift_sees_advantages(self) -> bool:
        """Whether the drift is a functional of advantages; its lambda is then 1 by default."""
        return names.sees_advantages(names.parse(self.drift, "drift"))

    @property
    def on_policy(self) -> bool:
        """Whether a run learns from its last rollout alone."""
        return self.algorithm == "on_policy"

    @property
    def rollout_length(self) -> int:
        """Steps of each environment between two updates."""
        if self.steps_counted == "per_env":
            return self.env_steps_per_update
        return self.env_steps_per_update // self.num_envs

    @property
    def steps_per_update(self) -> int:
        """Steps of all environments together between two updates."""
        return self.rollout_length * self.num_envs

    @property
    def updates(self) -> int:
        """K, the number of updates of a run; a last incomplete rollout is not started."""
        return self.steps // self.steps_per_update

    @property
    def replay_slots(self) -> int:
        """Transitions that are kept of each environment: on-policy, those of the last rollout."""
        if self.on_policy:
            return self.rollout_length
        if self.buffer_counted == "per_env":
            return self.buffer_size
        return self.buffer_size // self.num_envs

    @property
    def learned_alpha(self) -> bool:
        """Whether alpha is learned during training (then `w` is given in its place)."""
        return self.alpha_schedule in LEARNED

    @property
    def learned_lam(self) -> bool:
        """Whether lambda is learned during training (then `v` is given in its place)."""
        return self.lam_schedule in LEARNED

    @property
    def axes(self) -> tuple[str, str]:
        """What a run is given: alpha and lam, or `w` and `v` where they are learned."""
        return "w" if self.learned_alpha else "alpha", "v" if self.learned_lam else "lam"


def _plugins_of(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the identities of the plugins that the names of settings come from, sorted."""
    used: set[str] = set()
    for field, kind in _NAMES.items():
        if kind == "potential" or kind == "drift":
            used |= names.plugins_of(names.parse(fields[field], kind))
        own = suite.plugin_of(fields[field]) if kind == "environment" else None
        used |= {str(owner) for owner in (own, registry.owner(kind, fields[field])) if owner}
    return tuple(sorted(used))


#: Numbers of a run that a grid may vary: the temperatures, and the others.
TEMPERATURES = ("alpha", "lam", "w", "v")
OTHER_NUMBERS = ("gamma", "reward_scale", "actor_lr", "critic_lr")
#: The values that span a grid, in the order of its runs.
GRID = (*TEMPERATURES, *OTHER_NUMBERS)
#: The weights of the targets of learned temperatures, where none is given.
LEARNED_WEIGHTS = {"w": 0.5, "v": 0.1}


class RunValues(_Model):
    """The traced values of one run: data, not program."""

    alpha: NonNegative | None = 0.01
    lam: NonNegative | None = 0.1
    w: Weight | None = None
    v: Weight | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    actor_lr: Positive = 0.0025
    critic_lr: Positive = 0.0025
    gamma: Discount = 0.99
    reward_scale: Positive = 1.0


#: what is static, and what is traced
STATIC = tuple(Settings.model_fields)
TRACED = tuple(RunValues.model_fields)
#: What `mirrorax train` does unless told otherwise; environment and rewards are said apart.
DEFAULTS = {
    name: info.default
    for name, info in {**Settings.model_fields, **RunValues.model_fields}.items()
    if name in (*STATIC, *OTHER_NUMBERS) and name not in ("environment", "reward_scale", "plugins")
}


def changed(values: Mapping[str, Any], base: Mapping[str, Any] = DEFAULTS) -> dict[str, Any]:
    """Return those of some values that are not as in `base`; names that it lacks are left out."""
    return {name: value for name, value in values.items() if base.get(name, value) != value}


def preset(name: str) -> dict[str, Any]:
    """Return the fields a preset sets, as a new dictionary."""
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return dict(PRESETS[name])


def with_preset(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields over those of a preset; the on-policy algorithm brings its own preset along."""
    chosen = {**preset(name), **fields}
    if chosen.get("algorithm") == "on_policy":
        chosen = {**PRESETS["on_policy"], **chosen}
    return chosen


def make_settings(preset_name: str = "default", **fields: Any) -> Settings:
    """Build settings from a preset and overriding fields; raise `UserError` on a mistake."""
    return Settings(**with_preset(preset_name, fields))


def check_values(settings: Settings, values: Mapping[str, Any]) -> RunValues:
    """Validate one run's traced values against its settings.

    Under a learned schedule the weight of its target is required (`w` for alpha, `v` for lambda),
    and the temperature must be absent or None; otherwise the other way round.
    """
    fields = {"lam": 1.0, **values} if settings.drift_sees_advantages else dict(values)
    _check_temperature(fields, "alpha", "w", settings.alpha_schedule)
    _check_temperature(fields, "lam", "v", settings.lam_schedule)
    return RunValues(**fields)


def _check_temperature(fields: dict[str, Any], name: str, weight: str, schedule: str) -> None:
    """Check that a run has a temperature or the weight of its target, as the schedule needs."""
    if schedule in LEARNED:
        if fields.get(name) is not None:
            raise UserError(
                f"{name}: {fields[name]!r} given, but {name}_schedule = {schedule!r} finds {name} "
                f"itself; give {weight} in [0, 1]"
            )
        if fields.get(weight) is None:
            raise UserError(f"{weight}: required by {name}_schedule = {schedule!r}")
        fields[name] = None
        return
    if fields.get(weight) is not None and schedule in ALPHA_SCHEDULES:
        raise UserError(
            f"{weight}: {fields[weight]!r} given, but {name}_schedule = {schedule!r} "
            f"has no target; {weight} belongs to {' and '.join(LEARNED)}"
        )
    if name in fields and fields[name] is None:
        raise UserError(f"{name}: required by {name}_schedule = {schedule!r}")
