"""What Table 1 implies for single cells of the grid (`fingerprint.toml`)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Implication:
    """How many of a pair's cells reach a level, if Table 1 is right."""

    name: str
    why: str
    pair: tuple[str, str]
    alpha: tuple[float, ...]
    lam: tuple[float, ...]
    reached: Literal["none", "some", "half"]
    level: float

    @property
    def needed(self) -> int:
        """How many cells must reach the level; for "none", how many must not."""
        return -(-len(self.alpha) * len(self.lam) // 2) if self.reached == "half" else 1

    def probability(self, reach: Float[np.ndarray, "draw cell"]) -> Float[np.ndarray, " draw"]:
        """Return the probability of the implication if cells reach the level with these."""
        # count[:, k]: the probability that k of the cells so far reach it
        count = np.zeros((len(reach), self.needed + 1))
        count[:, 0] = 1.0
        for p in reach.T[..., None]:
            up = count * p
            count = count * (1 - p)
            count[:, 1:] += up[:, :-1]
            count[:, -1:] += up[:, -1:]
        enough = count[:, -1]
        return 1 - enough if self.reached == "none" else enough

    @property
    def bound(self) -> str:
        """What the cells have to do."""
        words = {"none": "all <", "some": "one >=", "half": "half >="}
        return f"{words[self.reached]} {self.level:g}"


@cache
def implications() -> tuple[Implication, ...]:
    """Return the implications of Table 1."""
    text = (resources.files("mirrorax.paper") / "fingerprint.toml").read_text("utf-8")
    return tuple(
        Implication(
            name=row["name"],
            why=row["why"],
            pair=(row["pair"][0], row["pair"][1]),
            alpha=tuple(row["alpha"]),
            lam=tuple(row["lam"]),
            reached=row["reached"],
            level=row["level"],
        )
        for row in tomllib.loads(text)["implications"]
    )
