"""Policy Mirror Descent with any pair of regularisers: exact, learned, over grids of temperatures.

Importing this package imports nothing heavy; each name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mirrorax._version import __version__

if TYPE_CHECKING:
    from mirrorax.environment_check import check_environment
    from mirrorax.envs.suite import register_environment
    from mirrorax.loading import landscapes, load
    from mirrorax.plugins import load_plugin
    from mirrorax.registry import register_network, register_optimizer, register_schedule
    from mirrorax.regularizers.drifts import drift
    from mirrorax.regularizers.functions import (
        check_drift,
        check_potential,
        register_drift,
        register_potential,
    )
    from mirrorax.regularizers.potentials import potential
    from mirrorax.spec.study import Study
    from mirrorax.training import train
    from mirrorax.tuning.suggestion import suggest
    from mirrorax.tuning.tune import tune

#: public name -> the module it lives in
_HOME = {
    "Study": "mirrorax.spec.study",
    "check_drift": "mirrorax.regularizers.functions",
    "check_environment": "mirrorax.environment_check",
    "check_potential": "mirrorax.regularizers.functions",
    "drift": "mirrorax.regularizers.drifts",
    "landscapes": "mirrorax.loading",
    "load": "mirrorax.loading",
    "load_plugin": "mirrorax.plugins",
    "potential": "mirrorax.regularizers.potentials",
    "register_drift": "mirrorax.regularizers.functions",
    "register_environment": "mirrorax.envs.suite",
    "register_network": "mirrorax.registry",
    "register_optimizer": "mirrorax.registry",
    "register_potential": "mirrorax.regularizers.functions",
    "register_schedule": "mirrorax.registry",
    "suggest": "mirrorax.tuning.suggestion",
    "train": "mirrorax.training",
    "tune": "mirrorax.tuning.tune",
}

#: rooms that are public; `mirrorax.sweep` can be called
_ROOMS = ("regularizers", "sweep", "tabular")

__all__ = [
    "Study",
    "__version__",
    "check_drift",
    "check_environment",
    "check_potential",
    "drift",
    "landscapes",
    "load",
    "load_plugin",
    "potential",
    "register_drift",
    "register_environment",
    "register_network",
    "register_optimizer",
    "register_potential",
    "register_schedule",
    "suggest",
    "train",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"mirrorax.{name}")
    raise AttributeError(f"module 'mirrorax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
