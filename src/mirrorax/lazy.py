"""Modules that are imported when they are first used.

A built-in network, optimiser or schedule is declared and implemented in one module, and `settings`
reads the names there without importing jax, which takes seconds:

    if TYPE_CHECKING:
        import jax.numpy as jnp
    else:
        jnp = lazy.module("jax.numpy")
"""

from __future__ import annotations

import importlib
from typing import Any

from mirrorax.errors import UserError


class _Lazy:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


def optional(name: str) -> Any:
    """Import a package that mirrorax does not need; a `UserError` says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise UserError(f"{name}: it is not installed; pip install {name}") from None


def module(name: str) -> Any:
    """Return what stands for a module; the first attribute that is read imports it."""
    return _Lazy(name)
