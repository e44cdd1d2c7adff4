"""What the page knows, as plain data: run scores packed as 32-bit floats, the rest as JSON."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax.analysis.findings import headline, telling_threshold
from mirrorax.analysis.groups import comparable_groups
from mirrorax.analysis.landscape import Landscape, map_grid, setting_text, shared_environments
from mirrorax.analysis.reference import Reference
from mirrorax.analysis.summary import RobustnessRow, RobustnessTable, summarise
from mirrorax.errors import UserError
from mirrorax.figures.curves import curve_numbers, curve_scores
from mirrorax.figures.robustness_table import page_table
from mirrorax.formatting import as_flags, counted
from mirrorax.runs.results import Results, as_results
from mirrorax.runs.scoring import ABSENT, DONE, ScoredEnvironment
from mirrorax.runs.settings import changed

#: Numbers of learning curves that a page may hold: 2 MB of text.
CURVES = 400_000
#: Runs up to which seeds that differ from cell to cell are named.
SEEDS = 100_000


def pack(values: np.ndarray, kind: str) -> str:
    """Return an array as base64 text of little-endian numbers of this kind."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


def payload(
    runs: Results | pa.Table,
    about: dict[str, Any],
    reference: Reference | None = None,
) -> dict[str, Any]:
    """Return everything the page shows.

    Algorithms that cannot be compared are several groups (`mirrorax.analysis.groups`). The page
    shows one at a time, first the one with the most to compare.
    """
    results = as_results(runs)
    groups, curves = comparable_groups(results), curve_numbers(results) <= CURVES
    if len(groups) == 1:
        return _page(groups[0].items, about, reference, curves)
    pages = []
    for name, items in groups:
        page = _page(items, about, reference, curves)
        rest = counted(len(groups) - 1, "more group")
        page["headline"].append(f"This shows {name}. 'Settings' below offers {rest}.")
        pages.append({"name": name, **page})
    return {"groups": pages}


def _page(
    items: tuple[Landscape, ...], about: dict[str, Any], reference: Reference | None, curves: bool
) -> dict[str, Any]:
    """Return what is shown of one group; algorithms in the order of the robustness table.

    `curves` says whether learning curves are part of it.
    """
    known = {e.label: e for item in items for e in item.environments}
    environments = sorted(known.values(), key=lambda e: e.order)
    labels = [e.label for e in environments]
    try:
        shared = list(shared_environments(items))
        start = telling_threshold([item.select(shared) for item in items])
        ranked = summarise(items, thresholds=[start], reference=reference)
        sentences = headline(ranked)
    except UserError as error:  # nothing to average over: the page shows each environment
        shared, start, sentences = [], 0.9, [f"Nothing can be ranked. {error}."]
        ranked = RobustnessTable((), (start,), (), "positive", "mean", "stochastic", "lowest", ())
    rows = {row.label: row for row in ranked.rows}
    places = {label: k for k, label in enumerate(rows)}
    items = tuple(sorted(items, key=lambda item: places.get(item.label, len(places))))
    return {
        "facts": about,
        "headline": sentences,
        "threshold": start,
        "table": page_table(ranked),
        "environments": [
            {
                "label": e.label,
                "flags": _environment_flags(e),
                "low": _plain(e.return_min),
                "high": _plain(e.return_max),
                "bounds": e.bounds_source,
            }
            for e in environments
        ],
        "shared": [labels.index(name) for name in shared],
        "algorithms": [
            _algorithm(item, labels, rows.get(item.label), _curve(item) if curves else None)
            for item in items
        ],
        "reference": reference.name if reference else None,
        "curves_left_out": not curves,
    }


def _environment_flags(environment: ScoredEnvironment) -> str:
    """Return the flags of `mirrorax train` that choose an environment."""
    scale = environment.reward_scale
    scaled = {} if scale == 1 else {"reward_scale": scale}
    return " ".join(as_flags({"env": environment.name, **scaled}))


def _train_command(item: Landscape) -> str:
    """Return `mirrorax train` with what is the same for all cells and not the default."""
    pair = {name: item.settings[name] for name in ("potential", "drift")}
    plugins = (f"--plugin {shlex.quote(module)}" for module in _plugins(item))
    return " ".join(["mirrorax train", *plugins, *as_flags({**pair, **changed(item.settings)})])


def _grids(
    item: Landscape, labels: Sequence[str], row: RobustnessRow | None
) -> dict[str, list[list[int]]]:
    """Return the rows and columns of each map: those of the table, or what an environment has."""
    out = {}
    for k, environment in enumerate(item.environments):
        rows, columns = map_grid((item.state[:, :, k] != ABSENT).any(axis=-1))
        out[str(labels.index(environment.label))] = [rows, columns]
    if row is not None:
        part = row.landscape
        rows, columns = map_grid((part.state != ABSENT).any(axis=-1).all(axis=-1))
        grid = [np.isin(item.alphas, part.alphas[rows]), np.isin(item.lams, part.lams[columns])]
        out |= {str(labels.index(e.label)): grid for e in part.environments}
        out["shared"] = grid
    return {name: [np.flatnonzero(axis).tolist() for axis in grid] for name, grid in out.items()}


def _plain(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _plugins(item: Landscape) -> list[str]:
    """Return the modules that the runs of a landscape need."""
    needed = (plugin for c in item.configurations for plugin in c.settings.plugins)
    return sorted({plugin.partition("==")[0] for plugin in needed})


def _algorithm(
    item: Landscape,
    labels: Sequence[str],
    row: RobustnessRow | None,
    curve: dict[str, Any] | None,
) -> dict[str, Any]:
    out: dict[str, Any] = {
        "label": item.label,
        "axis": item.axis,
        "lam_axis": item.lam_axis,
        "alphas": item.alphas.tolist(),
        "lams": item.lams.tolist(),
        "envs": [labels.index(e.label) for e in item.environments],
        "seeds": item.expected,
        "stochastic": pack(item.runs("stochastic"), "<f4"),
        "greedy": pack(item.runs("greedy"), "<f4"),
        "grids": _grids(item, labels, row),
        "command": _train_command(item),
        "settings": [[name, setting_text(value)] for name, value in item.settings.items()],
        "reference": None,
        "state": None,
        "seed_names": None,
        "curve": curve,
    }
    if row and row.reference:
        out["reference"] = {**asdict(row.reference), "rbst": list(row.reference.rbst.items())}
    if (item.state != DONE).any():
        out["state"] = pack(item.state, "u1")
    slots = np.broadcast_to(np.arange(item.expected), item.seeds.shape)
    usual = (item.seeds == slots) | (item.seeds < 0)
    if not usual.all() and item.seeds.size <= SEEDS:
        if item.seeds.max() < 2**31:
            out["seed_names"] = pack(item.seeds, "<i4")
        else:
            out["seed_names"] = [str(seed) for seed in item.seeds.ravel()]
    return out


def _curve(item: Landscape) -> dict[str, Any] | None:
    """Return an algorithm's learning curves; None where there are none of two points or more."""
    curves = curve_scores(item)
    if curves is None or len(curves[0]) < 2:
        return None
    updates, scores = curves
    return {"x": updates.tolist(), "points": len(updates), "y": pack(scores, "<f4")}


def as_json(data: dict[str, Any]) -> str:
    """Return JSON that can stand inside a script element: nothing in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
