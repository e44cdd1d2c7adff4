"""How far readings agree about the order of the pairs: with each other, and with the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from mirrorax.analysis.estimates import Estimate, Interval
from mirrorax.formatting import markdown_table
from mirrorax.paper.axes import PAIRS
from mirrorax.paper.claim import GOOD, ends
from mirrorax.paper.panels import Panel
from mirrorax.paper.rank_correlation import rank_correlation
from mirrorax.paper.runs import PanelRuns, ReadingRuns, alike
from mirrorax.paper.table_1 import printed_rbst

PAPER = "paper"


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of the robustness of the eleven pairs, with its interval."""

    value: float
    interval: Interval
    cells: int

    def __str__(self) -> str:
        return f"{self.value:.2f} {ends(self.interval, 2)}"


Correlations = Mapping[tuple[str, str], Correlation]


def agreement(
    collection: Mapping[str, ReadingRuns], rng: np.random.Generator, level: float = GOOD
) -> dict[tuple[str, str], Correlation]:
    """Return the correlations of readings with the paper and with each other, by Rbst at a level.

    Readings count that have two seeds or more of all eleven pairs, and pairs that reach the level.
    Two readings are compared on the cells and seeds that both have. The paper's order is that
    by Rbst_0.9 throughout.
    """
    panels = {name: _pairs(runs) for name, runs in collection.items()}
    names = [name for name, pairs in panels.items() if len(pairs) == len(PAIRS)]
    theirs = list(printed_rbst(GOOD).values())
    out: dict[tuple[str, str], Correlation] = {}

    def add(names: tuple[str, str], orders: list[list[Estimate]], cells: int) -> None:
        if all(orders):
            first, second = orders if len(orders) > 1 else (orders[0], theirs)
            value, interval = rank_correlation(first, second, rng=rng)
            assert interval is not None
            out[names] = Correlation(value, interval, cells)

    for name in names:
        add((name, PAPER), *_estimates([panels[name]], level))
    for first, second in combinations([name for name, _ in out], 2):
        add((first, second), *_estimates([panels[first], panels[second]], level))
    return out


def _pairs(runs: ReadingRuns) -> list[PanelRuns]:
    matches = (runs.on_grid(Panel(label, pair)) for label, pair in PAIRS.items())
    return [each for each in matches if each is not None and each.positive.any()]


def _estimates(groups: list[list[PanelRuns]], level: float) -> tuple[list[list[Estimate]], int]:
    """Return each group's Rbst on the cells that all have, and how many these are.

    A group whose pairs all have the same value, or no error, has no order: it is left empty.
    """
    same = alike([each for group in groups for each in group])
    if not same or not same[0].positive.any():
        return [[] for _ in groups], 0
    estimates = [each.rbst(level) for each in same]
    size = len(PAIRS)
    parts = [estimates[i * size : (i + 1) * size] for i in range(len(groups))]
    ordered = [part if _ordered(part) else [] for part in parts]
    return ordered, int(same[0].positive.sum())


def _ordered(estimates: list[Estimate]) -> bool:
    values = {each.value for each in estimates}
    return len(values) > 1 and all(each.error is not None for each in estimates)


def between(correlations: Correlations, a: str, b: str) -> Correlation | None:
    """Return the correlation of two readings, in either order."""
    return correlations.get((a, b)) or correlations.get((b, a))


def table(correlations: Correlations) -> str:
    """Return the correlations as a Markdown table, the paper's first."""
    names = list(dict.fromkeys(name for name, _ in correlations))
    if not names:
        return "No reading has runs of all eleven pairs that can be put in order.\n"
    rows = [
        [name, *(str(between(correlations, name, other) or "") for other in (PAPER, *names))]
        for name in names
    ]
    return markdown_table(["reading", PAPER, *names], rows)
