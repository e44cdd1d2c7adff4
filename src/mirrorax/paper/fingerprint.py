"""How well a reading of the paper explains Table 1, from 26 (pair, cell) points.

Table 1 implies limits for single cells (`fingerprint.toml`): none, some or half of a few cells
reach a level. The likelihood of a reading is the product, over these implications, of the
probability that a study like the paper's sees the implication:

- A cell's true score x is normal about the mean of our runs, with variance v / n in each
  environment: v is the variance of seeds, n our number of seeds. With two or three seeds v is badly
  known, so each cell's own v is averaged with the mean v of all points of its environment, which
  counts as `PRIOR` degrees of freedom.
- The paper's score of that cell is normal about x with variance v / 5. Its probability to reach
  the level is a probit of the margin, and the cells are independent given x.
- Any row of Table 1 may have a slip in its code: with probability `SLIP` an implication says
  nothing and holds by the toss of a coin. This bounds what a single implication can say.

It is a score for ranking readings, not a test of any: the points were chosen from Table 1, the
implications are not independent (they share runs), and no reading need be the paper's. Intervals
are those of the seeds, given the points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from mirrorax.analysis.estimates import Interval
from mirrorax.analysis.scores import cell_scores, mean_variances, rbst
from mirrorax.formatting import markdown_table
from mirrorax.paper.axes import PAIRS, SEEDS
from mirrorax.paper.claim import GOOD, central, ends
from mirrorax.paper.implications import Implication, implications
from mirrorax.paper.panels import Panel
from mirrorax.paper.runs import PanelRuns, ReadingRuns
from mirrorax.paper.table_1 import printed_rbst

PRIOR = 2.0
SLIP = 0.02
DRAWS = 4000
_LEAST = 0.005  # the least error of an Rbst: where no cell is good, seeds show none

Mark = Literal["met", "not met", "open"]


@dataclass(frozen=True, eq=False)
class Point:
    """An implication on the runs of a reading.

    `score` is the cell score that decides it: the highest, or the lowest of the better half.
    """

    implication: Implication
    score: float
    interval: Interval
    draws: Float[np.ndarray, " draw"]  # the implication's probability given each true score

    @property
    def probability(self) -> float:
        """The probability that a study like the paper's sees the implication."""
        return float(self.draws.mean())

    @property
    def mark(self) -> Mark:
        """Met, or not, if more probable than not so in 95% of the draws."""
        share = float((self.draws > 0.5).mean())
        return "met" if share >= 0.95 else "not met" if share <= 0.05 else "open"


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """A reading's likelihood; `values` is that of Table 1's numbers, where the pairs were run."""

    points: tuple[Point, ...]
    runs: int
    values: float | None

    @property
    def log_likelihood(self) -> float:
        """The sum over implications of the logarithm of their probability."""
        return float(_bounded(np.array([point.probability for point in self.points])).sum())

    @property
    def draws(self) -> Float[np.ndarray, " draw"]:
        """The log-likelihood given each draw of the true scores."""
        return np.asarray(_bounded(np.stack([point.draws for point in self.points])).sum(axis=0))

    @property
    def interval(self) -> Interval:
        """The central 95% of its draws."""
        return central(self.draws)


def _bounded(probability: np.ndarray) -> np.ndarray:
    """Return the logarithm of a probability, allowing for a slip in the paper's code."""
    return np.log(SLIP / 2 + (1 - SLIP) * probability)


def fingerprint(runs: ReadingRuns, rng: np.random.Generator) -> Fingerprint | None:
    """Return the likelihood of a reading; None if a point of the fingerprint was not run."""
    cells = []
    for each in implications():
        part = _cells(runs, each)
        if part is None:
            return None
        cells.append(part)
    variances = _variances(cells)
    points = []
    for each, part, variance in zip(implications(), cells, variances, strict=True):
        count = np.isfinite(part).sum(axis=-1)  # [cell, environment]
        environments = part.shape[1]
        ours = np.sqrt((variance / count).sum(axis=-1)) / environments
        theirs = np.sqrt((variance / SEEDS).sum(axis=-1)) / environments
        score = cell_scores(part)
        true = score + ours * rng.standard_normal((DRAWS, len(score)))
        true = np.minimum(true, np.maximum(score, 1.0))  # scores end at 1, nearly
        at = -each.needed
        points.append(
            Point(
                each,
                float(np.sort(score)[at]),
                central(np.sort(true, axis=1)[:, at]),
                each.probability(ndtr((true - each.level) / np.maximum(theirs, 1e-9))),
            )
        )
    count = sum(int(np.isfinite(part).sum()) for part in cells)
    return Fingerprint(tuple(points), count, _values(runs))


def _cells(
    runs: ReadingRuns, implication: Implication
) -> Float[np.ndarray, "cell env seed"] | None:
    """Return the scores of an implication's runs, if every cell has two seeds."""
    match = runs.find(Panel(implication.name, implication.pair), nested=False, every_seed=True)
    if match is None:
        return None
    item, scores = match.landscape, match.landscape.runs()
    out = []
    for alpha, lam in product(implication.alpha, implication.lam):
        i, j = np.flatnonzero(item.alphas == alpha), np.flatnonzero(item.lams == lam)
        if not i.size or not j.size:
            return None
        cell = scores[i[0], j[0]]
        if np.isfinite(cell).sum(axis=-1).min() < 2:
            return None
        out.append(cell)
    return np.stack(out)


def _variances(cells: Sequence[np.ndarray]) -> list[Float[np.ndarray, "cell env"]]:
    """Return the variance of a seed in each cell and environment, drawn to the environment's."""
    own = [mean_variances(part) * np.isfinite(part).sum(axis=-1) for part in cells]
    usual = np.concatenate(own).mean(axis=0)
    free = [np.isfinite(part).sum(axis=-1) - 1 for part in cells]
    return [(f * v + PRIOR * usual) / (f + PRIOR) for f, v in zip(free, own, strict=True)]


def _values(runs: ReadingRuns) -> float | None:
    """Return the log-likelihood of Table 1's Rbst_0.9 given ours; None without all pairs.

    Normal, with our standard error, the paper's (ours with its number of seeds), and the error of
    a coarse grid (a jackknife over the values of both temperatures); or, if the row has a slip,
    anything between 0 and 1. Rbst falls with the number of seeds, which is not corrected.
    """
    total = 0.0
    paper = printed_rbst(GOOD)
    for label, pair in PAIRS.items():
        match = runs.on_grid(Panel(label, pair))
        if match is None:
            return None
        estimate = match.rbst(GOOD)
        if estimate.error is None:
            return None
        own = estimate.error**2 * (1 + match.seeds[0] / SEEDS)
        variance = own + _grid_variance(match) + _LEAST**2
        distance = (paper[label] - estimate.value) ** 2
        density = np.exp(-0.5 * distance / variance) / np.sqrt(2 * np.pi * variance)
        total += np.log(SLIP + (1 - SLIP) * density)
    return float(total)


def _grid_variance(match: PanelRuns) -> float:
    """Return the variance of Rbst that comes from the choice of the grid's values."""
    scores, total = cell_scores(match.landscape.runs()), 0.0
    for axis in (0, 1):
        if left := [rbst(scores[cells], GOOD) for cells in match.without_each(axis)]:
            total += (len(left) - 1) * float(np.var(left))
    return total


def ranking(prints: Mapping[str, Fingerprint]) -> list[tuple[str, float]]:
    """Return the readings, the likeliest first, and how often each comes first in the draws."""
    names = sorted(prints, key=lambda name: -prints[name].log_likelihood)
    if not names:
        return []
    drawn = np.stack([prints[name].draws for name in names])
    first = np.bincount(drawn.argmax(axis=0), minlength=len(names)) / drawn.shape[1]
    return list(zip(names, first.tolist(), strict=True))


def table(prints: Mapping[str, Fingerprint]) -> str:
    """Return the ranking as a Markdown table."""
    heads = [f"{each.name}: {each.bound}" for each in implications()]
    rows = []
    for name, share in ranking(prints):
        each = prints[name]
        cells = [f"{p.mark}: {p.score:.2f} {ends(p.interval, 2)}" for p in each.points]
        values = "" if each.values is None else f"{each.values:.1f}"
        score = f"{each.log_likelihood:.1f} {ends(each.interval, 1)}"
        rows.append([name, *cells, score, f"{100 * share:.0f}%", values])
    head = ["reading", *heads, "log-likelihood", "first in", "Table 1's values"]
    return markdown_table(head, rows, "l" * (len(head) - 2) + "r")
