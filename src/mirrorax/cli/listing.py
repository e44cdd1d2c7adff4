"""`mirrorax list`: the names that flags and studies take, one line each."""

from __future__ import annotations

import argparse
import importlib
import json
from collections.abc import Callable

from mirrorax import registry
from mirrorax.cli import PAPERS
from mirrorax.formatting import columns, flag_text

EXAMPLES = """examples:
  mirrorax list environments
  mirrorax list potentials
  mirrorax list drifts --plugin mine       your own names, too
  mirrorax list studies                    the studies of 'mirrorax paper run'
"""

Rows = list[tuple[str, str]]


def _environments() -> Rows:
    from mirrorax.envs import suite

    own = registry.names("environment")
    sizes = {"Catch": "; Catch(ROWSxCOLUMNS)", "DeepSea": "; DeepSea(SIZE)"}
    rows: Rows = []
    for name in suite.names():
        if name in own:
            rows.append((name, "registered by a plugin"))
            continue
        bounds = suite.environment(name).bounds
        shown = "with estimated bounds" if bounds is None else f"{bounds[0]:g} to {bounds[1]:g}"
        rows.append((name, f"returns {shown}{sizes.get(name, '')}"))
    rows.append(("gymnasium:ID", "any of Gymnasium's with discrete actions, e.g. LunarLander-v3"))
    return rows


def _studies() -> Rows:
    papers = map(importlib.import_module, PAPERS.values())
    return [row for paper in papers for row in paper.studies()]


def _presets() -> Rows:
    from mirrorax.runs.presets import PRESETS

    rows: Rows = []
    for name, fields in PRESETS.items():
        changes = ", ".join(f"{field} {flag_text(value)}" for field, value in fields.items())
        rows.append((name, changes or "the defaults of 'mirrorax train --help'"))
    return rows


def _registered(kind: registry.Kind) -> Rows:
    own = [(name, "registered by a plugin") for name in registry.names(kind)]
    return [*registry.descriptions(kind).items(), *own]


KINDS: dict[str, Callable[[], Rows]] = {
    "environments": _environments,
    "potentials": lambda: _registered("potential"),
    "drifts": lambda: _registered("drift"),
    "schedules": lambda: _registered("schedule"),
    "networks": lambda: _registered("network"),
    "optimizers": lambda: _registered("optimizer"),
    "presets": _presets,
    "studies": _studies,
}


FLAGS = f"""
KIND {"|".join(KINDS)}   what to list: {", ".join(KINDS)}
@plugin
@json
"""


def run(args: argparse.Namespace) -> int:
    """Print the names with one line each."""
    rows = KINDS[args.kind]()
    print(json.dumps(dict(rows)) if args.json else columns(rows, left=2))
    return 0
