"""What the head of a table of runs says, checked: settings, and where results come from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from mirrorax.errors import UserError, shown
from mirrorax.runs.parquet import Damaged
from mirrorax.runs.settings import Settings, stored_settings

_LONGEST_TEXT = 2_000
_LONGEST_FAILURE = 100_000
_MOST_ENTRIES = 100  # of a chunk's provenance


class Configuration(NamedTuple):
    """What all runs of a chunk share: the settings, and the version of the algorithm."""

    settings: Settings
    algorithm_version: int


class Origin(NamedTuple):
    """Where a chunk's results come from, and what its returns count as."""

    provenance: Mapping[str, Any]
    bounds: tuple[float, float | None] | None
    failure: str | None


def read_configuration(head: Mapping[str, Any]) -> Configuration:
    """Return settings and version, checked; raise `Damaged` if they are ill-formed."""
    version = head.get("algorithm_version")
    if type(version) is not int or not 0 < version < 1_000_000:
        raise Damaged("its head has no version of the algorithm")
    try:
        text = json.dumps(head.get("settings"), sort_keys=True)
    except RecursionError:
        raise Damaged("its settings are nested too deeply") from None
    return Configuration(_settings(text), version)


@lru_cache(maxsize=4096)
def _settings(text: str) -> Settings:
    """Return settings from their JSON text: each text is checked once."""
    try:
        return stored_settings(json.loads(text))
    except UserError as error:
        raise Damaged(f"its settings: {error}") from None


def read_origin(head: Mapping[str, Any]) -> Origin:
    """Return where results come from, checked; raise `Damaged` if it is ill-formed."""
    failure, provenance = head.get("failure"), head.get("provenance")
    if failure is not None and not (isinstance(failure, str) and len(failure) < _LONGEST_FAILURE):
        raise Damaged("failure: expected a text")
    if not isinstance(provenance, dict) or len(provenance) > _MOST_ENTRIES:
        raise Damaged("provenance: expected a table")
    for name, value in provenance.items():
        if not (_is_line(name) and (value is None or _is_number(value) or _is_line(value))):
            raise Damaged(f"{name}: expected a number or a line of text")
    bounds = _bounds(head.get("bounds"))
    if bounds is None and failure is None:
        raise Damaged("bounds: a finished run has some")
    return Origin(provenance, bounds, failure)


def _bounds(value: Any) -> tuple[float, float | None] | None:
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and _is_number(value[0]):
        low, high = value
        if high is None:
            return float(low), None
        if _is_number(high) and low < high:
            return float(low), float(high)
    raise Damaged(f"bounds: {shown(value)}: expected two finite numbers in ascending order")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e308 and math.isfinite(value)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST_TEXT
