"""A claim of the paper: what it says, what was found, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.estimates import Interval
from mirrorax.paper.runs import Found

Verdict = Literal["reproduced", "not reproduced", "not decided"]
DRAWS = 2000
GOOD = 0.9  # the level of a good cell
#: Two algorithms whose scores differ by less than this make no noticeable difference.
MARGIN = 0.05


@dataclass(frozen=True)
class Claim:
    """One claim: the rule it is judged by, the paper's figure, ours, and the runs behind it."""

    number: str
    text: str
    rule: str
    paper: str
    ours: str = "none"
    interval: str = "none"
    runs: int = 0
    verdict: Verdict = "not decided"
    note: str = ""
    short: str = ""  # ours with its interval, where there is room for a line only
    key: str = ""  # ours, where there is room for a number only

    def lacking(self, why: str) -> Claim:
        """Return the claim as it is without the runs it needs."""
        return replace(self, note=why)

    @property
    def brief(self) -> str:
        """What was found, with its interval, in one line."""
        with_ends = f"{self.ours} {self.interval}" if self.interval.startswith("[") else self.ours
        return self.short or with_ends


def ends(interval: Interval | None, digits: int = 3) -> str:
    """Write an interval."""
    if interval is None:
        return "none"
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def central(draws: Float[np.ndarray, " draws"]) -> Interval:
    """Return the central 95% of some draws."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(low), float(high))


def sizes(found: Sequence[Found]) -> str:
    """Say what was run, each size once, with all the cells that were left out of it."""
    alike: dict[str, list[Found]] = {}
    for each in found:
        alike.setdefault(replace(each, beyond=0, spare=0).size, []).append(each)
    return "; ".join(
        replace(
            group[0],
            beyond=sum(each.beyond for each in group),
            spare=sum(each.spare for each in group),
        ).size
        for group in alike.values()
    )


def joined(*parts: str) -> str:
    """Join what there is to say."""
    return "; ".join(part for part in parts if part)
