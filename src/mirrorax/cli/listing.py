"""`mirrorax list`: the names that flags and studies take, one line each."""

from __future__ import annotations

import argparse
import json

from mirrorax import registry
from mirrorax.formatting import columns

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
    return [
        *rows,
        ("gymnasium:ID", "any of Gymnasium's with discrete actions, e.g. LunarLander-v3"),
    ]


def _studies() -> Rows:
    from mirrorax.paper import catalogue

    return [(entry.name, f"{entry.runs:,} runs: {entry.title}") for entry in catalogue.ENTRIES]


def _presets() -> Rows:
    from mirrorax.runs.presets import PRESETS

    changes = {
        name: ", ".join(f"{field} {value}" for field, value in fields.items())
        for name, fields in PRESETS.items()
    }
    usual = "the defaults of 'mirrorax train --help'"
    return [(name, text or usual) for name, text in changes.items()]


#: what is listed otherwise than by the registry
_OTHERS = {"environments": _environments, "presets": _presets, "studies": _studies}
_KINDS: dict[str, registry.Kind] = {
    "potentials": "potential",
    "drifts": "drift",
    "schedules": "schedule",
    "networks": "network",
    "optimizers": "optimizer",
}
KINDS = ("environments", *_KINDS, "presets", "studies")


FLAGS = f"""
KIND {"|".join(KINDS)}   what to list: {", ".join(KINDS)}
@plugin
@json
"""


def run(args: argparse.Namespace) -> int:
    """Print the names with one line each."""
    if args.kind in _OTHERS:
        rows = _OTHERS[args.kind]()
    else:
        kind = _KINDS[args.kind]
        own = [(name, "registered by a plugin") for name in registry.names(kind)]
        rows = [*registry.descriptions(kind).items(), *own]
    print(json.dumps(dict(rows)) if args.json else columns(rows, left=2))
    return 0
