"""Policy Mirror Descent with any pair of regularisers: exact, learned, over grids of temperatures.

Importing this package imports nothing heavy; each name below is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mirrorax._version import __version__

if TYPE_CHECKING:
    from mirrorax.envs.suite import register_environment as register_environment
    from mirrorax.loading import landscapes as landscapes
    from mirrorax.loading import load as load
    from mirrorax.mdpo.contract import check_environment as check_environment
    from mirrorax.plugins import load_plugin as load_plugin
    from mirrorax.registry import register_network as register_network
    from mirrorax.registry import register_optimizer as register_optimizer
    from mirrorax.registry import register_schedule as register_schedule
    from mirrorax.regularizers.drifts import drift as drift
    from mirrorax.regularizers.functions import check_drift as check_drift
    from mirrorax.regularizers.functions import check_potential as check_potential
    from mirrorax.regularizers.functions import register_drift as register_drift
    from mirrorax.regularizers.functions import register_potential as register_potential
    from mirrorax.regularizers.potentials import potential as potential
    from mirrorax.spec.study import Study as Study
    from mirrorax.training import train as train
    from mirrorax.tuning.suggestion import suggest as suggest
    from mirrorax.tuning.tune import tune as tune

#: module -> the public names in it
_MODULES = {
    "envs.suite": "register_environment",
    "loading": "landscapes load",
    "mdpo.contract": "check_environment",
    "plugins": "load_plugin",
    "registry": "register_network register_optimizer register_schedule",
    "regularizers.drifts": "drift",
    "regularizers.functions": "check_drift check_potential register_drift register_potential",
    "regularizers.potentials": "potential",
    "spec.study": "Study",
    "training": "train",
    "tuning.suggestion": "suggest",
    "tuning.tune": "tune",
}
_HOME = {name: f"{__name__}.{module}" for module in _MODULES for name in _MODULES[module].split()}

#: public modules; `mirrorax.sweep` can be called
_ROOMS = ("regularizers", "sweep", "tabular")

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"mirrorax.{name}")
    raise AttributeError(f"module 'mirrorax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
