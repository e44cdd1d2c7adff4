"""A trace as a file of plain arrays."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from mirrorax.errors import UserError
from mirrorax.tabular.evaluation import Optimum
from mirrorax.tabular.pmd import Trace

_OPTIMUM = "optimum."


def save_trace(path: str | os.PathLike[str], trace: Trace) -> Path:
    """Write a trace to a file that ends in .npz."""
    target = Path(path)
    if target.suffix != ".npz":
        raise UserError(f"path: {str(target)!r} is not allowed: a name that ends in .npz")
    arrays = {f.name: getattr(trace, f.name) for f in fields(Trace) if f.name != "optimum"}
    arrays |= {_OPTIMUM + f.name: getattr(trace.optimum, f.name) for f in fields(Optimum)}
    try:
        members: dict[str, Any] = {k: v for k, v in arrays.items() if v is not None}
        np.savez(target, **members)
    except OSError as error:
        raise UserError(f"path: cannot write {str(target)!r}: {error.strerror}") from None
    return target


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Return the trace of a file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        optimum = {f.name: arrays.pop(_OPTIMUM + f.name) for f in fields(Optimum)}
        optimum["error"] = float(optimum["error"])
        return Trace(**{"promised_rate": None, **arrays, "optimum": Optimum(**optimum)})
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise UserError(f"path: {str(path)!r} is not a saved trace: {error}") from None
