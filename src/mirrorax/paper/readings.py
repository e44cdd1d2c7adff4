"""Readings of the paper: named settings for what its text leaves open (`readings.toml`)."""

from __future__ import annotations

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


def reading(name: str) -> Reading:
    """Return the reading of a name."""
    if name not in readings():
        raise unknown("reading", name, readings())
    return readings()[name]
