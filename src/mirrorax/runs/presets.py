"""Data about settings: what is younger than results, presets, what an algorithm has no use for."""

from __future__ import annotations

from typing import Any

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
    "temperature_units": "reward",
}
#: The same of traced values.
LATER_VALUES: dict[str, Any] = {"v": None}

#: What each preset changes. `default` is what a practitioner wants; `paper` counts the paper's
#: steps in each of the 16 environments: 256 between two updates, 10^6 in all, so 3,906 updates.
#: `on_policy` is the on-policy algorithm, with the usual settings of PPO.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "paper": {"steps": 16_000_000, "steps_counted": "per_env"},
    "on_policy": {
        "algorithm": "on_policy",
        "env_steps_per_update": 1024,
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

#: algorithm -> the settings that mean nothing to it
MEANINGLESS: dict[str, tuple[str, ...]] = {
    "off_policy": ("gae_lambda", "normalize_advantages"),
    "on_policy": (
        "batches_per_update",
        "drift_from",
        "buffer_size",
        "buffer_counted",
        "twin_critics",
        "critic_target",
        "clipping",
        "tau",
    ),
}

#: what others call a field -> what it is called here
OTHER_NAMES = {
    "lr": "actor_lr and critic_lr",
    "learning_rate": "actor_lr and critic_lr",
    "lambda": "lam",
    "lambda_": "lam",
    "temperature": "alpha or lam",
    "timesteps": "steps",
    "total_timesteps": "steps",
}
