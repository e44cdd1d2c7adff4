"""The regularisers: convex potentials h and drifts D, by object or by name.

Each name is loaded when it is first used, so `mirrorax.regularizers.names` can be imported, and a
study checked, without jax.
"""

from __future__ import annotations

import importlib
from typing import Any

#: module -> the public names in it
_MODULES = {
    "potentials": "LpNorm Max NegativeEntropy NegativeTsallis Potential potential",
    "drifts": "KL Bregman ChiSquare Drift ForwardKL SquaredTV drift",
    "functions": "Check FunctionDrift FunctionPotential "
    "check_drift check_potential register_drift register_potential",
    "functionals": "DPO DriftFunctional PPOClip any_drift check_functional register_functional",
    "reference": "FrozenPolicy Table To to",
}
_HOME = {name: f"{__name__}.{module}" for module in _MODULES for name in _MODULES[module].split()}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
