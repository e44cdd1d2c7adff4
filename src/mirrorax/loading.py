"""`mirrorax.load`: open a store, an export, or what `.save` wrote; `mirrorax.landscapes`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mirrorax.analysis.landscape import Landscape


def load(path: str | os.PathLike[str], columns: Any = "tidy") -> Any:
    """Return what a path holds.

    - the folder of `TrainResult.save` or `train --out`: the `TrainResult`
    - the file of `Trace.save`: the `Trace`
    - the file of `Landscape.save`: the `Landscape`
    - everything else that holds runs: an Arrow table, one row per run, sorted by `run_id`

    `columns` of the table are "tidy" (few), "all", or a list of names.
    """
    place = Path(path)
    if (place / "policies.npz").is_file():
        from mirrorax.training import folder

        return folder.load(place)
    if place.suffix == ".npz" and place.is_file():
        from mirrorax.tabular import Trace

        return Trace.load(place)
    from mirrorax import store
    from mirrorax.analysis import views

    saved = views.load_landscape(place) if place.is_file() and columns == "tidy" else None
    return store.load(path, columns) if saved is None else saved


def landscapes(path: str | os.PathLike[str]) -> tuple[Landscape, ...]:
    """Return the scores over both temperatures, one `Landscape` per algorithm, of any results."""
    from mirrorax import store
    from mirrorax.analysis.landscape import landscapes

    return landscapes(store.read_results(path))
