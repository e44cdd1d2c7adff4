"""The command that trains the runs of a cell, as far as it is the same for all cells."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any

from mirrorax.runs.settings import OTHER_NUMBERS, RunValues, Settings

_DEFAULTS: dict[str, Any] = {
    **{name: info.default for name, info in Settings.model_fields.items()},
    **{name: RunValues.model_fields[name].default for name in OTHER_NUMBERS},
}
#: Said elsewhere in the command, or by the names of what comes from a plugin.
_ELSEWHERE = ("environment", "reward_scale", "plugins")


def train_command(settings: Iterable[tuple[str, Any]]) -> str:
    """Return `mirrorax train` with a flag for each setting that is not the default."""
    words = ["mirrorax", "train"]
    for name, value in settings:
        if name in _DEFAULTS and name not in _ELSEWHERE and value is not None:
            text = _text(value)
            if name in ("potential", "drift") or text != _text(_DEFAULTS[name]):
                words += [f"--{name.replace('_', '-')}", text]
    return shlex.join(words)


def environment_flags(name: str, reward_scale: float) -> str:
    """Return the flags that choose an environment."""
    words = ["--env", name]
    if reward_scale != 1:
        words += ["--reward-scale", f"{reward_scale!r}"]
    return shlex.join(words)


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).replace(" x ", ",")
