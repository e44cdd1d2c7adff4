"""What a run is: its settings (static) and its values (traced). Imports no jax.

A *static* field shapes the compiled program: changing it compiles anew. A *traced* value is data:
temperatures, seed, learning rates, discount and reward scale may differ from lane to lane of one
compiled program. `FIELDS` says which is which.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
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
from mirrorax.errors import UserError, shown, unknown
from mirrorax.runs.numbers import (
    LARGEST,
    Count,
    Discount,
    NonNegative,
    Positive,
    Steps,
    Unit,
    Weight,
    Width,
)
from mirrorax.runs.presets import MEANINGLESS, PRESETS

_schedules = registry.built_in("schedule").items()
#: Schedules under which alpha is learned during training, from the weight `w` of a target.
LEARNED = tuple(name for name, schedule in _schedules if schedule.learned)
ALPHA_SCHEDULES = tuple(name for name, _ in _schedules)
LAM_SCHEDULES = tuple(name for name in ALPHA_SCHEDULES if name not in LEARNED)


def one_line(error: ValidationError) -> UserError:
    """Return the first mistake: the field, what is wrong and the value."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return UserError(f"{where}: no such field")
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error" and reason.startswith(where):
        return UserError(reason)
    return UserError(f"{where}: {reason} (got {shown(first['input'])})")


class Model(BaseModel):
    """A frozen model whose mistakes are one line of a `UserError`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise one_line(error) from None


class Settings(Model):
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
    eval_episodes: Count = 10
    eval_every: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    #: `module==version` of the plugins that the names above come from; derived, not chosen
    plugins: Annotated[tuple[str, ...], Field(validate_default=True)] = ()

    @field_validator("environment")
    @classmethod
    def _environment(cls, value: str) -> str:
        return suite.environment(value).name

    @field_validator("potential")
    @classmethod
    def _potential(cls, value: str) -> str:
        from mirrorax.regularizers.names import parse_potential

        return str(parse_potential(value))

    @field_validator("drift")
    @classmethod
    def _drift(cls, value: str) -> str:
        from mirrorax.regularizers.names import parse_drift

        return str(parse_drift(value))

    @field_validator("reference")
    @classmethod
    def _reference(cls, value: str) -> str:
        if not value:
            return value
        # Its module needs jax, as reading a policy does; this one must not import it.
        canonical: str = importlib.import_module("mirrorax.mdpo.references").canonical(value)
        return canonical

    @field_validator("alpha_schedule", "lam_schedule")
    @classmethod
    def _schedule(cls, value: str, info: ValidationInfo) -> str:
        allowed = ALPHA_SCHEDULES if info.field_name == "alpha_schedule" else LAM_SCHEDULES
        return check_schedule(str(info.field_name), value, allowed)

    @field_validator("network")
    @classmethod
    def _network(cls, value: str) -> str:
        return registry.check_name("network", value, "network")

    @field_validator("optimizer")
    @classmethod
    def _optimizer(cls, value: str) -> str:
        return registry.check_name("optimizer", value, "optimizer")

    @field_validator("plugins")
    @classmethod
    def _plugins(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not all(name in info.data for name in _NAMES):
            return value  # another field is wrong, and raises its own error
        used = _plugins_of(**{name: info.data[name] for name in _NAMES})
        if value and value != used:
            here = ", ".join(used) or "none"
            raise ValueError(f"plugins: {', '.join(value)} wanted, but these names are of: {here}")
        return used

    @model_validator(mode="after")
    def _consistent(self) -> Settings:
        if self.steps_counted == "total" and self.env_steps_per_update % self.num_envs:
            raise ValueError(
                f"env_steps_per_update: {self.env_steps_per_update} counted in all is not a "
                f"multiple of num_envs = {self.num_envs}"
            )
        self._check_algorithm()
        held = self.replay_slots * self.num_envs
        if self.batch_size > held:
            raise ValueError(
                f"batch_size: {self.batch_size} is larger than buffer_size = {self.buffer_size}, "
                f"which holds {held} transitions"
            )
        if self.steps_per_update > held:
            raise ValueError(
                f"buffer_size: {self.buffer_size} holds less than the {self.steps_per_update} "
                "transitions of one update"
            )
        if held > LARGEST:
            raise ValueError(
                f"buffer_size: {self.buffer_size} is {held} transitions; at most {LARGEST}"
            )
        if self.updates < 1:
            raise ValueError(
                f"steps: {self.steps} is less than one update of {self.steps_per_update} steps"
            )
        each = self.updates * self.rollout_length
        if each > LARGEST:
            raise ValueError(
                f"steps: {self.steps} is {each} in each environment; at most {LARGEST} can be done"
            )
        return self

    def _check_algorithm(self) -> None:
        """Refuse what the algorithm has no use for, and minibatches that are not all alike."""
        for name in MEANINGLESS[self.algorithm]:
            default = Settings.model_fields[name].default
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}: {getattr(self, name)!r} has no meaning with algorithm = "
                    f"{self.algorithm!r}; leave it at {default!r}"
                )
        if self.on_policy and self.steps_per_update % self.batch_size:
            raise ValueError(
                f"batch_size: {self.batch_size} does not divide the {self.steps_per_update} steps "
                "of a rollout into equal minibatches"
            )
        if bool(self.reference) != self.potential.startswith("to(policy,"):
            raise ValueError(
                f"reference: {self.reference!r} with potential = {self.potential!r}; the potential "
                "to(policy, d) needs a saved policy, and no other has one"
            )
        if not self.on_policy and self.drift_sees_advantages:
            raise ValueError(
                f"drift: {self.drift!r} sees the advantages of the actions taken, which only "
                "algorithm = 'on_policy' has"
            )

    @property
    def drift_sees_advantages(self) -> bool:
        """Whether the drift is a functional of advantages; its lambda is then 1 by default."""
        from mirrorax.regularizers.names import parse_drift, sees_advantages

        return sees_advantages(parse_drift(self.drift))

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


def check_schedule(field: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return the canonical name of a schedule; a `UserError` if it is not one."""
    return registry.check_name("schedule", value, field, allowed)


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


def _plugins_of(**names: str) -> tuple[str, ...]:
    """Return the identities of the plugins that these names come from, sorted."""
    from mirrorax.regularizers.names import parse_drift, parse_potential, plugins_of

    used = plugins_of(parse_potential(names["potential"])) | plugins_of(parse_drift(names["drift"]))
    owners = [suite.plugin_of(names["environment"])]
    owners += [registry.owner(_NAMES[field], name) for field, name in names.items()]
    return tuple(sorted(used | {str(owner) for owner in owners if owner is not None}))


#: Numbers of a run that a grid may vary: the temperatures, and the others.
TEMPERATURES = ("alpha", "lam", "w")
OTHER_NUMBERS = ("gamma", "reward_scale", "actor_lr", "critic_lr")


class RunValues(Model):
    """The traced values of one run: data, not program."""

    alpha: NonNegative | None = 0.01
    lam: NonNegative = 0.1
    w: Weight | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    actor_lr: Positive = 0.0025
    critic_lr: Positive = 0.0025
    gamma: Discount = 0.99
    reward_scale: Positive = 1.0


#: field -> "static" or "traced"
FIELDS: dict[str, Literal["static", "traced"]] = {
    **dict.fromkeys(Settings.model_fields, "static"),
    **dict.fromkeys(RunValues.model_fields, "traced"),
}
STATIC = tuple(name for name, kind in FIELDS.items() if kind == "static")
TRACED = tuple(name for name, kind in FIELDS.items() if kind == "traced")

#: Settings younger than the first results, and the value at which each is left out.
LATER: dict[str, Any] = {
    "network": "auto",
    "plugins": (),
    "batches_per_update": 1,
    "drift_from": "batch",
    "buffer_counted": "total",
    "actor_gain": 0.01,
    "critic_gain": 0.01,
    "optimizer": "adam",
    "algorithm": "off_policy",
    "gae_lambda": 0.95,
    "normalize_advantages": False,
    "reference": "",
}


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

    Under a learned schedule `w` is required and alpha must be absent or None; otherwise alpha is
    required and `w` must be absent or None.
    """
    fields = dict(values)
    if settings.drift_sees_advantages:
        fields.setdefault("lam", 1.0)
    if settings.learned_alpha:
        if fields.get("alpha") is not None:
            raise UserError(
                f"alpha: {fields['alpha']!r} given, but alpha_schedule = "
                f"{settings.alpha_schedule!r} finds alpha itself; give w in [0, 1]"
            )
        if fields.get("w") is None:
            raise UserError(f"w: required by alpha_schedule = {settings.alpha_schedule!r}")
        return RunValues(**{**fields, "alpha": None})
    if fields.get("w") is not None and settings.alpha_schedule in ALPHA_SCHEDULES:
        raise UserError(
            f"w: {fields['w']!r} given, but alpha_schedule = {settings.alpha_schedule!r} "
            f"has no target; w belongs to {' and '.join(LEARNED)}"
        )
    if "alpha" in fields and fields["alpha"] is None:
        raise UserError(f"alpha: required by alpha_schedule = {settings.alpha_schedule!r}")
    return RunValues(**fields)
