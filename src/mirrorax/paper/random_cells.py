"""Values of Table 1 from random cells of the grid: their study, and bounds for the whole grid.

Rbst is a mean over the 784 cells with positive temperatures of what each contributes, a number in
[0, 1]. From cells drawn at random, each with the paper's five seeds, we get an interval for that
mean, whatever the other cells contribute. It follows from Hoeffding's inequality (1963), which also
holds for drawing without replacement. A run's random numbers follow from its temperatures, so cells
are independent, and the same interval holds for the mean over all seeds there could be.

A cell is trained in one environment after the other, in the suite's order. Once its other runs
cannot bring it to 0.9, it contributes 0 whatever they would be, and they are not made. A missing
run counts as 1 there. Only Acrobot's can score more (by 0.005 in all published runs); DeepSea's,
which are missing whenever Acrobot's are, score at most 0.99.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq
from scipy.special import rel_entr

from mirrorax.analysis.estimates import WIDTH, Interval
from mirrorax.analysis.reference import differing
from mirrorax.paper import catalogue
from mirrorax.paper.axes import ALPHAS, LAMS, PAIRS, SEEDS, SUITE
from mirrorax.paper.claim import GOOD
from mirrorax.paper.panels import Panel
from mirrorax.paper.readings import Reading
from mirrorax.paper.runs import ReadingRuns
from mirrorax.spec.study import Study, parse

#: The pairs with the largest values in Table 1: a value of ours that is far smaller is easiest to
#: see for these.
LARGEST = ("A", "B", "C", "D")
COUNT = 100
_SEED = 1
_POSITIVE = tuple((a, l) for a, l in product(ALPHAS, LAMS) if a > 0 and l > 0)
#: Each end of an interval is wrong with at most this probability.
_TAIL = 0.025


@cache
def cells() -> tuple[tuple[float, float], ...]:
    """Return the cells as (alpha, lambda): drawn once, the same for all pairs and readings."""
    return tuple(sorted(random.Random(_SEED).sample(_POSITIVE, COUNT)))


@dataclass(frozen=True, eq=False)
class RandomCells:
    """The scores of a pair in the cells that were drawn; NaN where there is no run."""

    scores: Float[np.ndarray, "cell env seed"]
    #: where the runs stand in the table of their reading
    rows: Int[np.ndarray, " runs"]

    @cached_property
    def contributions(self) -> Float[np.ndarray, " cell"]:
        """What each cell contributes to Rbst_0.9; NaN where missing runs could change it."""
        known = np.isfinite(self.scores)
        most = np.where(known, self.scores, 1.0).mean(axis=(1, 2))
        decided = known.all(axis=(1, 2)) | (most <= GOOD)
        return np.where(decided, np.clip((most - GOOD) / (1 - GOOD), 0.0, 1.0), np.nan)

    @property
    def complete(self) -> bool:
        """Whether every cell is decided."""
        return not np.isnan(self.contributions).any()

    @property
    def value(self) -> float:
        """The mean of what these cells contribute: the estimate of Rbst_0.9."""
        return float(self.contributions.mean())

    @property
    def interval(self) -> Interval:
        """Where Rbst_0.9 of the whole grid is."""
        return mean_within(self.contributions)

    @property
    def upcoming(self) -> list[str | None]:
        """For each cell the environment to train in next; None where it is decided."""
        first_missing = np.isnan(self.scores).any(axis=2).argmax(axis=1)
        is_open = np.isnan(self.contributions)
        return [SUITE[e] if o else None for e, o in zip(first_missing, is_open, strict=True)]

    def agrees(self, printed: float) -> bool:
        """Whether a printed value is in the interval, widened by 1.96 of its standard errors.

        A cell contributes a number in [0, 1], so the variance of the printed mean over cells is at
        most p (1 - p) / 784.
        """
        own = WIDTH * math.sqrt(printed * (1 - printed) / len(_POSITIVE))
        return self.interval.low - own <= printed <= self.interval.high + own


def random_cells(runs: ReadingRuns) -> dict[str, RandomCells]:
    """Return the pairs whose drawn cells are all decided."""
    every = {label: scores_of(runs, PAIRS[label]) for label in LARGEST}
    return {label: each for label, each in every.items() if each.complete}


def scores_of(runs: ReadingRuns | None, pair: tuple[str, str]) -> RandomCells:
    """Return what is known of a pair in the cells that were drawn."""
    scores = np.full((COUNT, len(SUITE), SEEDS), np.nan)
    rows: list[int] = []
    wanted = {} if runs is None else {**runs.expected, **Panel("", pair).settings}
    for item in () if runs is None else runs.items:
        if differing(item.settings, wanted):
            continue
        every, labels = item.runs(), [each.label for each in item.environments]
        for k, (alpha, lam) in enumerate(cells()):
            at = np.ix_(item.alphas == alpha, item.lams == lam)
            if not every[at].size:
                continue
            for e, name in enumerate(SUITE):
                if name in labels:
                    seeds = item.seeds[at][0, 0, labels.index(name)]
                    values = every[at][0, 0, labels.index(name)]
                    used = np.isfinite(values) & (seeds >= 0) & (seeds < SEEDS)
                    scores[k, e, seeds[used]] = values[used]
                    rows += item.rows[at][0, 0, labels.index(name)][used].tolist()
    return RandomCells(scores, np.array(rows, int))


def mean_within(values: Float[np.ndarray, " cell"]) -> Interval:
    """Return where the mean of numbers in [0, 1] is with 95% confidence, given some of them.

    With the true mean m, P(sample mean <= x) <= exp(-n kl(x, m)) for x < m, and the same above,
    where kl is the divergence of Bernoulli distributions. An end is where that is 2.5%.
    """
    x = float(values.mean())
    most = -math.log(_TAIL) / len(values)

    def beyond(m: float) -> float:
        return float(rel_entr(x, m) + rel_entr(1 - x, 1 - m)) - most

    low = brentq(beyond, 1e-12, x) if x > 0 and beyond(1e-12) > 0 else 0.0
    high = brentq(beyond, x, 1 - 1e-12) if x < 1 and beyond(1 - 1e-12) > 0 else 1.0
    return Interval(float(low), float(high))


def next_runs(runs: ReadingRuns | None, reading: Reading) -> Study | None:
    """Return the runs to make next, in one environment for each open cell; None at the end."""
    pairs: dict[tuple[str, float, tuple[float, ...]], list[tuple[str, str]]] = {}
    for label in LARGEST:
        lams: dict[tuple[str, float], list[float]] = {}
        upcoming = scores_of(runs, PAIRS[label]).upcoming
        for (alpha, lam), name in zip(cells(), upcoming, strict=True):
            if name is not None:
                lams.setdefault((name, alpha), []).append(lam)
        for (name, alpha), row in lams.items():
            pairs.setdefault((name, alpha, tuple(row)), []).append(PAIRS[label])
    if not pairs:
        return None
    baseline = catalogue.entry("baseline").block
    blocks = [
        replace(
            reading.apply(baseline),
            environments=((name, (1.0,)),),
            pairs=tuple(same),
            alpha=(alpha,),
            lam=row,
        )
        for (name, alpha, row), same in pairs.items()
    ]
    name = f"{COUNT} random cells of the pairs {' '.join(LARGEST)}, reading {reading.name}"
    return parse(catalogue.to_toml(name, blocks), name=name, where=name)


def described(cells: Mapping[str, RandomCells]) -> str:
    """Say of which pairs random cells were run."""
    return f"{COUNT} random cells with {SEEDS} seeds of {' '.join(cells)}" if cells else ""
