"""In which settings an algorithm differs from those that are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def differing(settings: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in which of the wanted settings an algorithm is another one.

    What it does not tell of itself is taken to be as wanted.
    """
    return [
        name
        for name, value in wanted.items()
        if name in settings and _plain(settings[name]) != _plain(value)
    ]


def compared(settings: Mapping[str, Any], wanted: Mapping[str, Any], name: str) -> str:
    """Say how an algorithm differs in one of the wanted settings."""
    ours, theirs = (_shown(values[name]) for values in (settings, wanted))
    return f"{name} {ours}, not {theirs}"


def _shown(value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if whole else str(_plain(value))


def _plain(value: Any) -> Any:
    """A list as the analysis writes it down: 64 x 64."""
    return " x ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
