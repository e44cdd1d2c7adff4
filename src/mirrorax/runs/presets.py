"""Presets: named sets of settings. Imports no jax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirrorax.errors import unknown

#: What each preset changes. `default` is what a practitioner wants; `paper` counts the paper's
#: steps in each of the 16 environments: 256 between two updates, 10^6 in all, so 3,906 updates.
#: `on_policy` is the on-policy algorithm, with the usual settings of PPO.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"steps": 16_000_000, "steps_counted": "per_env"},
    "on_policy": {
        "algorithm": "on_policy",
        "env_steps_per_update": 2048,
        "batch_size": 256,
        "actor_epochs": 4,
        "critic_epochs": 4,
        "critic_gain": 1.0,
        "anneal_learning_rate": True,
        "max_grad_norm": 0.5,
        "actor_q": "unregularized",
        "normalize_advantages": True,
    },
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
