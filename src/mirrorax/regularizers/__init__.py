"""The regularisers: convex potentials h and drifts D, by object or by name.

The attributes are loaded when they are first used: `mirrorax.regularizers.names` can be imported,
and a study checked, on a machine without jax.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "potentials": (
        "LpNorm",
        "Max",
        "NegativeEntropy",
        "NegativeTsallis",
        "Potential",
        "potential",
    ),
    "drifts": (
        "KL",
        "Bregman",
        "ChiSquare",
        "Drift",
        "ForwardKL",
        "SquaredTV",
        "drift",
    ),
    "functions": (
        "Check",
        "FunctionDrift",
        "FunctionPotential",
        "check_drift",
        "check_potential",
        "register_drift",
        "register_potential",
    ),
    "functionals": (
        "DPO",
        "DriftFunctional",
        "PPOClip",
        "any_drift",
        "check_functional",
        "register_functional",
    ),
    "reference": ("FrozenPolicy", "Table", "To", "to"),
}

__all__ = [name for names in _HOME.values() for name in names]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
