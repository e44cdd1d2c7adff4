"""The settings that all of the paper's algorithms share, and in which others differ from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.mdpo.config import OTHER_NUMBERS, RunValues, Settings
from mirrorax.studies import catalogue

#: What tells one algorithm of the paper from another; all else is the preset's.
_VARIED = ("potential", "drift", "alpha_schedule", "lam_schedule", "actor_q")


@cache
def shared() -> Mapping[str, Any]:
    """Return the settings that all of the paper's algorithms share."""
    block = catalogue.entry("baseline").study().blocks[0]
    fixed = {name: value for name, value in block.fixed if name in Settings.model_fields}
    settings = Settings(environment="Catch", **fixed).model_dump()
    numbers = RunValues().model_dump()
    return MappingProxyType(
        {
            **{n: v for n, v in settings.items() if n not in (*_VARIED, "environment", "plugins")},
            **{name: numbers[name] for name in OTHER_NUMBERS},
            "algorithm_version": ALGORITHM_VERSION,
        }
    )


def differing(settings: Mapping[str, Any], wanted: Mapping[str, Any] | None = None) -> list[str]:
    """Return in which of the wanted settings (the shared ones) an algorithm is another one.

    What it does not tell of itself is taken to be as wanted.
    """
    return [
        name
        for name, value in (shared() if wanted is None else wanted).items()
        if name in settings and _plain(settings[name]) != _plain(value)
    ]


def compared(settings: Mapping[str, Any], name: str) -> str:
    """Say how an algorithm differs in one of the shared settings."""
    ours, theirs = (_shown(values[name]) for values in (settings, shared()))
    return f"{name} {ours}, not {theirs}"


def _shown(value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if whole else str(_plain(value))


def _plain(value: Any) -> Any:
    """A list as the analysis writes it down: 64 x 64."""
    return " x ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
