"""`mirrorax list`: the names that flags and studies take, one line each."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from mirrorax.cli import flags
from mirrorax.cli.terminal import columns

EXAMPLES = """examples:
  mirrorax list environments
  mirrorax list potentials
  mirrorax list drifts --plugin mine       your own names, too
  mirrorax list studies                    the studies of 'mirrorax paper run'
"""

#: name of a built-in -> what it is
_POTENTIALS = {
    "entropy": "negative Shannon entropy, sum p log p",
    "tsallis(m)": "negative Tsallis entropy of order m > 0; m -> 1 is entropy",
    "lp(p)": "sum of the p-th powers of the probabilities, p >= 1",
    "max": "the largest probability",
    "to(mu,drift)": "distance from a reference: to(uniform, kl); to(policy, kl) with --reference",
    "zero": "no potential",
}
_DRIFTS = {
    "kl": "KL(p, pi_k), the Bregman divergence of entropy",
    "forward_kl": "KL(pi_k, p), with the arguments exchanged",
    "bregman(potential)": "the Bregman divergence of a potential, e.g. bregman(lp(2))",
    "chi_square": "chi-square divergence, sum (p - pi_k)^2 / pi_k",
    "squared_tv": "squared total variation distance",
    "zero": "no drift",
    "ppo_clip(eps)": "on-policy: what PPO's clipping takes away; PPO with lam 1",
    "dpo": "on-policy: Discovered Policy Optimisation; dpo(a, b) sets its two numbers",
}
_SCHEDULES = {
    "constant": "alpha, lam: stays as it is",
    "linear": "alpha, lam: falls linearly to 0",
    "learned": "alpha only: found during training so that h meets a target given by w",
    "learned_linear": "alpha only: as learned, while w falls linearly to 0",
}
_NETWORKS = {
    "auto": "mlp, with a convolution in front of it for images",
    "mlp": "hidden layers of the widths of --hidden",
    "conv": "a convolution, then mlp",
}
_OPTIMIZERS = {
    "adam": "Adam, with --adam-eps",
    "rmsprop": "RMSProp, with --adam-eps",
    "sgd": "plain gradient descent",
}

Rows = list[tuple[str, str]]


def _environments() -> Rows:
    from mirrorax import registry
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


def _own(kind: str, built_in: dict[str, str]) -> Callable[[], Rows]:
    def rows() -> Rows:
        from mirrorax import registry

        own = [(name, "registered by a plugin") for name in registry.names(kind)]  # type: ignore[arg-type]
        return [*built_in.items(), *own]

    return rows


def _studies() -> Rows:
    from mirrorax.paper import catalogue

    return [(entry.name, f"{entry.runs:,} runs: {entry.title}") for entry in catalogue.ENTRIES]


def _presets() -> Rows:
    from mirrorax.runs.presets import PRESETS

    rows = []
    for name, fields in PRESETS.items():
        changes = ", ".join(f"{field} {value}" for field, value in fields.items())
        rows.append((name, changes or "the defaults of 'mirrorax train --help'"))
    return rows


KINDS: dict[str, Callable[[], Rows]] = {
    "environments": _environments,
    "potentials": _own("potential", _POTENTIALS),
    "drifts": _own("drift", _DRIFTS),
    "schedules": _own("schedule", _SCHEDULES),
    "networks": _own("network", _NETWORKS),
    "optimizers": _own("optimizer", _OPTIMIZERS),
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
    flags.load_plugins(args)
    rows = KINDS[args.kind]()
    print(json.dumps(dict(rows)) if args.json else columns(rows, left=2))
    return 0
