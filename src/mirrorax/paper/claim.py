"""A claim of the paper: what it says, what was found, and the verdict.

A judge is a function of the runs of a reading and a stream of random numbers that returns what it
found, as fields of a `Claim`. `claim` gives it the text of the claim and the rule it judges by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.estimates import Interval
from mirrorax.paper.runs import ReadingRuns

Verdict = Literal["reproduced", "not reproduced", "not decided"]
DRAWS = 2000
GOOD = 0.9  # the level of a good cell
#: Two algorithms whose scores differ by less than this make no noticeable difference.
MARGIN = 0.05


@dataclass(frozen=True)
class Claim:
    """One claim: the rule it is judged by, the paper's figure, ours, and the runs behind it."""

    number: str
    topic: str  # what it is about, for the head of a narrow column
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

    @property
    def title(self) -> str:
        """Its number and text."""
        return f"({self.number}) {self.text}"

    @property
    def brief(self) -> str:
        """What was found, with its interval, in one line."""
        with_ends = f"{self.ours} {self.interval}" if self.interval.startswith("[") else self.ours
        return self.short or with_ends


#: What a judge found, as fields of a `Claim`; without runs, a note that says so.
Findings = dict[str, Any]
Finder = Callable[[ReadingRuns, np.random.Generator], Findings]
Judge = Callable[[ReadingRuns, np.random.Generator], Claim]


def claim(number: str, topic: str, text: str, rule: str, paper: str) -> Callable[[Finder], Judge]:
    """Make a judge of a function: it returns the whole claim."""

    def judge(finder: Finder) -> Judge:
        return lambda runs, rng: Claim(number, topic, text, rule, paper, **finder(runs, rng))

    return judge


def decide(interval: Interval | None, low: float = -math.inf, high: float = math.inf) -> Verdict:
    """Judge by whether an interval lies within two limits, outside of them, or neither."""
    if interval is None:
        return "not decided"
    if low < interval.low and interval.high < high:
        return "reproduced"
    return "not reproduced" if interval.low > high or interval.high < low else "not decided"


def ends(interval: Interval | None, digits: int = 3) -> str:
    """Write an interval."""
    if interval is None:
        return "none"
    return f"[{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def central(draws: Float[np.ndarray, " draws"]) -> Interval:
    """Return the central 95% of some draws."""
    low, high = np.quantile(draws, [0.025, 0.975])
    return Interval(float(low), float(high))


def joined(*parts: str) -> str:
    """Join what there is to say."""
    return "; ".join(part for part in parts if part)
