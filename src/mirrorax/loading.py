"""`mirrorax.load`: open a store, an export, or what `.save` wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def load(path: str | os.PathLike[str], columns: Any = "tidy") -> Any:
    """Return what a path holds.

    The folder of `TrainResult.save` or `train --out` is a `TrainResult`, the file of `Trace.save` a
    `Trace`. Everything else that holds runs is an Arrow table with one row per run, sorted by
    `run_id`; `columns` is "tidy" (few), "all", or a list of names.
    """
    place = Path(path)
    if (place / "policies.npz").is_file():
        from mirrorax.training import folder

        return folder.load(place)
    if place.suffix == ".npz" and place.is_file():
        from mirrorax.tabular.saving import load_trace

        return load_trace(place)
    from mirrorax import store

    return store.load(path, columns)
