"""How far readings agree about the order of the pairs: with each other, and with the paper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float
from scipy import stats

from mirrorax.analysis.estimates import Estimate, Interval, robustness
from mirrorax.paper.axes import PAIRS
from mirrorax.paper.claim import DRAWS, GOOD
from mirrorax.paper.panels import Panel
from mirrorax.paper.rank_correlation import rank_correlation
from mirrorax.paper.runs import Found, Runs, alike
from mirrorax.paper.table_1 import printed_rbst

PAPER = "paper"


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of the robustness of the eleven pairs, with its interval."""

    value: float
    interval: Interval
    cells: int

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.interval.low:.2f}, {self.interval.high:.2f}]"


def agreement(
    collection: Mapping[str, Runs], rng: np.random.Generator, level: float = GOOD
) -> dict[tuple[str, str], Correlation]:
    """Return the correlations of readings with the paper and with each other, by Rbst at a level.

    Readings count that have two seeds or more of all eleven pairs, and pairs that reach the level.
    Two readings are compared on the cells and seeds that both have. The paper's order is that
    by Rbst_0.9 throughout.
    """
    found = {name: _pairs(runs) for name, runs in collection.items()}
    names = [name for name, pairs in found.items() if len(pairs) == len(PAIRS)]
    theirs = list(printed_rbst(GOOD).values())
    out: dict[tuple[str, str], Correlation] = {}
    for name in names:
        (ours,), cells = _estimates([found[name]], level)
        if ours:
            value, interval = rank_correlation(ours, theirs, rng=rng)
            assert interval is not None
            out[name, PAPER] = Correlation(value, interval, cells)
    for first, second in combinations([name for name, _ in out], 2):
        (a, b), cells = _estimates([found[first], found[second]], level)
        if a and b:
            out[first, second] = _correlation(a, b, cells, rng)
    return out


def _pairs(runs: Runs) -> list[Found]:
    found = (runs.on_grid(Panel(label, pair)) for label, pair in PAIRS.items())
    return [each for each in found if each is not None and each.positive.any()]


def _estimates(groups: list[list[Found]], level: float) -> tuple[list[list[Estimate]], int]:
    """Return each group's Rbst on the cells that all have, and how many these are.

    A group whose pairs all have the same value, or no error, has no order: it is left empty.
    """
    same = alike([each for group in groups for each in group])
    if not same or not same[0].positive.any():
        return [[] for _ in groups], 0
    estimates = [
        robustness(each.landscape.runs(), (level,), cells=each.positive)[0] for each in same
    ]
    size = len(PAIRS)
    parts = [estimates[i * size : (i + 1) * size] for i in range(len(groups))]
    ordered = [part if _ordered(part) else [] for part in parts]
    return ordered, int(same[0].positive.sum())


def _ordered(estimates: list[Estimate]) -> bool:
    values = {each.value for each in estimates}
    return len(values) > 1 and all(each.error is not None for each in estimates)


def _correlation(
    a: list[Estimate], b: list[Estimate], cells: int, rng: np.random.Generator
) -> Correlation:
    """Correlate two noisy orders; the interval is made as that of `rank_correlation`."""
    values = [np.array([each.value for each in part]) for part in (a, b)]
    value = float(_spearman(*(part[None] for part in values))[0])
    drawn = []
    for mean, part in zip(values, (a, b), strict=True):
        errors = np.array([each.error or 0.0 for each in part])
        noise = rng.standard_normal((DRAWS, len(mean)))
        drawn.append(np.clip(mean + errors * noise, 0, 1))
    ends = np.quantile(_spearman(*drawn), [0.025, 0.975])
    both = np.clip(np.concatenate([ends, 2 * value - ends]), -1, 1)
    return Correlation(value, Interval(float(both.min()), float(both.max())), cells)


def _spearman(
    a: Float[np.ndarray, "draw n"], b: Float[np.ndarray, "draw n"]
) -> Float[np.ndarray, " draw"]:
    """Correlate the ranks row by row; 0 where a row has no order."""
    ranks = [stats.rankdata(part, axis=1) for part in (a, b)]
    ranks = [part - part.mean(axis=1, keepdims=True) for part in ranks]
    scale = np.sqrt((ranks[0] ** 2).sum(axis=1) * (ranks[1] ** 2).sum(axis=1))
    total = (ranks[0] * ranks[1]).sum(axis=1)
    return np.divide(total, scale, out=np.zeros(len(total)), where=scale > 0)


def table(correlations: Mapping[tuple[str, str], Correlation]) -> str:
    """Return the correlations as a Markdown table, the paper's first."""
    names = list(dict.fromkeys(name for name, _ in correlations))
    if not names:
        return "No reading has runs of all eleven pairs that can be put in order.\n"
    lines = [
        "| reading | paper | " + " | ".join(names) + " |",
        "|---|" + "---|" * (len(names) + 1),
    ]
    for name in names:
        cells = [str(correlations.get((name, PAPER), ""))]
        for other in names:
            both = correlations.get((name, other)) or correlations.get((other, name))
            cells.append("" if both is None else str(both))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
