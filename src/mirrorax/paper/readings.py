"""Readings of the paper: named settings for what its text leaves open (`readings.toml`)."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from mirrorax.errors import unknown
from mirrorax.runs.settings import OTHER_NUMBERS, RunValues, Settings
from mirrorax.spec.study import Block

#: the reading of the first published results
FIRST = "each_each_bootstrap"

#: What tells one algorithm of the paper from another; all else is the reading's.
_VARIED = (
    "environment",
    "plugins",
    "potential",
    "drift",
    "alpha_schedule",
    "lam_schedule",
    "actor_q",
)


@dataclass(frozen=True)
class Reading:
    """One way to read the paper: what it changes of the preset `default`."""

    name: str
    title: str
    fields: Mapping[str, Any] = field(hash=False)

    def settings(self, environment: str) -> Settings:
        """Return the settings of the paper's baseline in this reading."""
        return Settings(environment=environment, **self.fields)

    def shared(self) -> Mapping[str, Any]:
        """Return what all of the paper's algorithms share in this reading."""
        settings = self.settings("Catch").model_dump()
        numbers = RunValues().model_dump()
        return MappingProxyType(
            {
                **{name: value for name, value in settings.items() if name not in _VARIED},
                **{name: numbers[name] for name in OTHER_NUMBERS},
            }
        )

    def apply(self, block: Block) -> Block:
        """Return a block of a study with the settings of this reading."""
        own = {name: value for name, value in block.fixed if name in _VARIED}
        return replace(block, fixed=tuple({**self.fields, **own}.items()))


@cache
def readings() -> Mapping[str, Reading]:
    """Return all readings by name, the cheap ones first."""
    text = (resources.files("mirrorax.paper") / "readings.toml").read_text("utf-8")
    return {name: _reading(name, dict(fields)) for name, fields in tomllib.loads(text).items()}


def _reading(name: str, fields: dict[str, Any]) -> Reading:
    title = fields.pop("title")
    return Reading(name, title, MappingProxyType({"bootstrap_truncation": False, **fields}))


#: What the paper does not print, and the values that a reader may give it. Wider networks and ReLU
#: are left out: alone, each made things worse.
_UNSAID: Mapping[str, tuple[Any, ...]] = {
    "env_steps_per_update": (256, 128, 64),
    "batches_per_update": (1, 2, 4, 8),
    "initialization": ("orthogonal", "uniform", "lecun_normal"),
    "actor_gain": (0.01, 1.0),
    "critic_gain": (0.01, 1.0),
    "critic_target": ("sac", "paper", "printed"),
    "adam_eps": (1e-5, 1e-8),
    "clipping": ("per_network", "joint"),
    "buffer_counted": ("total", "per_env"),
    "drift_from": ("batch", "update"),
}
_SAMPLES = 24
_SAMPLING_SEED = 1


@cache
def samples() -> Mapping[str, Reading]:
    """Return combinations of settings that the paper does not print, drawn once and for all.

    Steps between updates are counted in each environment, 10^6 in all: readings that are cheap.
    Every value of a setting is in as many combinations as the others, shuffled setting by setting.
    """
    source = random.Random(_SAMPLING_SEED)
    columns = {}
    for name, values in _UNSAID.items():
        column = [values[i % len(values)] for i in range(_SAMPLES)]
        source.shuffle(column)
        columns[name] = column
    out = {}
    for i in range(_SAMPLES):
        fields = {"title": "", "steps_counted": "per_env"}
        fields |= {name: column[i] for name, column in columns.items()}
        defaults = Settings.model_fields
        fields = {k: v for k, v in fields.items() if k == "title" or v != defaults[k].default}
        fields["title"] = "sampled: " + ", ".join(
            f"{k} {v}" for k, v in fields.items() if k not in ("title", "steps_counted")
        )
        out[f"sample_{i:02}"] = _reading(f"sample_{i:02}", fields)
    return out


def reading(name: str) -> Reading:
    """Return the reading of a name, sampled ones included."""
    known = {**readings(), **samples()}
    if name not in known:
        raise unknown("reading", name, known)
    return known[name]
