"""The paper's printed numbers, for a table of ours beside theirs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Published:
    """One row of the paper's Table 1: its letter and Rbst by threshold.

    `otherwise` says which settings of the algorithm that it stands beside are not the paper's.
    """

    label: str
    rbst: Mapping[float, float]
    cells: int
    otherwise: str


@cache
def numbers() -> Mapping[str, Any]:
    """Return the published numbers and the paper's grids as they are in the file."""
    file = resources.files("mirrorax.paper") / "published.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def published(settings: Mapping[str, Any], environments: Sequence[str]) -> Published | None:
    """Return the paper's row for an algorithm, if its table has one for these environments."""
    # heavier than the numbers
    from mirrorax.paper.differences import compared, differing
    from mirrorax.paper.readings import FIRST, reading

    table = numbers()["table1"]
    if set(environments) != set(table["environments"]):
        return None
    if settings.get("alpha_schedule", "constant") != "constant":
        return None
    if settings.get("lam_schedule", "constant") != "constant":
        return None
    if settings.get("actor_q", "regularized") != "regularized":
        return None
    pair = (settings.get("potential"), settings.get("drift"))
    for row in table["rows"]:
        if (row["potential"], row["drift"]) == pair:
            by_threshold = dict(zip(table["thresholds"], row["rbst"], strict=True))
            wanted = reading(FIRST).shared()
            names = differing(settings, wanted)
            how = "; ".join(compared(settings, wanted, name) for name in names)
            return Published(row["label"], by_threshold, table["cells"], how)
    return None
