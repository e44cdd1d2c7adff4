"""Measure how often the intervals of `mirrorax.analysis` hold the truth; write it to the docs.

    python benchmarks/analysis_coverage.py [REPETITIONS]

Fills the place between `<!-- coverage -->` and `<!-- end of coverage -->` in docs/coverage.md. All
numbers come from fixed seeds. 200 repetitions take 5 to 15 minutes on one core.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from analysis_landscapes import LANDSCAPES, Truth, by_chance, by_noise
from analysis_synthetic import ALPHAS, LAMS
from scipy import stats

from mirrorax.analysis.estimates import Interval, difference, frequency_band, robustness
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import cell_scores, frequency, mean_intervals, rbst
from mirrorax.analysis.temperature import THRESHOLDS, Minimal, smallest
from mirrorax.errors import UserError
from mirrorax.paper.axes import MAX_RETURNS
from mirrorax.paper.rank_correlation import correlations, rank_correlation

DOCS = Path(__file__).parent.parent / "docs" / "coverage.md"
SEEDS = (2, 3, 5, 20)
SIDES = (7, 14, 28)
LEVELS = (0.9, 0.95)
#: Landscapes of a kind, and studies that are averaged for what a study reports on average.
DIFFERENT, STUDIES = 4, 200


class Held:
    """How often some intervals held the truth, and how wide they were."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def add(self, interval: Interval | None, truth: float) -> None:
        if interval is None:
            self.rows.append((np.nan, np.nan))
        else:
            inside = interval.low - 1e-9 <= truth <= interval.high + 1e-9
            self.rows.append((float(inside), interval.high - interval.low))

    @property
    def share(self) -> float:
        shown = [held for held, _ in self.rows if not np.isnan(held)]
        return float(np.mean(shown)) if shown else np.nan

    @property
    def width(self) -> float:
        shown = [width for _, width in self.rows if not np.isnan(width)]
        return float(np.mean(shown)) if shown else np.nan


def percent(held: Held) -> str:
    return "none" if np.isnan(held.share) else f"{100 * held.share:.0f}"


def line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 2) -> str:
    rule = "|" + "---|" * texts + "---:|" * (len(head) - texts)
    return "\n".join([line(*head), rule, *(line(*row) for row in rows)])


def reported(truth: Truth, seeds: int, rng: np.random.Generator) -> np.ndarray:
    """What studies with so many seeds report on average: [Rbst, freq] for each level."""
    total = np.zeros((2, len(LEVELS)))
    for _ in range(STUDIES):
        scores = cell_scores(truth.draw(seeds, rng))
        total += [[rbst(scores, level) for level in LEVELS], frequency(scores, np.array(LEVELS))]
    return total / STUDIES


def kinds_of_rbst(
    repetitions: int, seeds: int
) -> Iterator[tuple[str, int, dict[tuple[str, float], Held]]]:
    """Yield, for each landscape and size, what became of the intervals of Rbst and freq."""
    for number, (name, make) in enumerate(LANDSCAPES.items()):
        for side in SIDES:
            rng = np.random.default_rng([1, number, side, seeds])
            held = {(k, level): Held() for k in ("many", "limit", "freq") for level in LEVELS}
            for _ in range(DIFFERENT):
                truth = make(side, rng)
                average = reported(truth, seeds, rng)
                limit = [rbst(truth.means.mean(axis=-1), level) for level in LEVELS]
                for _ in range(repetitions // DIFFERENT):
                    runs = truth.draw(seeds, rng)
                    bands = frequency_band(runs, LEVELS)
                    for k, estimate in enumerate(robustness(runs, LEVELS)):
                        level = LEVELS[k]
                        held["many", level].add(estimate.interval(), average[0, k])
                        held["limit", level].add(estimate.limit, limit[k])
                        held["freq", level].add(bands[k].interval(), average[1, k])
            yield name, side, held


def rbst_tables(repetitions: int) -> tuple[list[str], list[float]]:
    """The tables of Rbst and freq, and every share in those of Rbst."""
    cells: dict[tuple[str, str, int], list[str]] = {}
    shares: list[float] = []
    for seeds in SEEDS:
        for name, side, held in kinds_of_rbst(repetitions, seeds):
            for kind in ("many", "limit", "freq"):
                both = [held[kind, level] for level in LEVELS]
                text = f"{percent(both[0])} / {percent(both[1])} ({both[0].width:.3f})"
                cells.setdefault((kind, name, side), []).append(text.replace(" (nan)", ""))
                shares += [h.share for h in both if kind != "freq" and not np.isnan(h.share)]
        print(f"Rbst, {seeds} seeds: lowest share so far {min(shares):.2f}", flush=True)
    titles = {
        "many": "**Rbst as a study with as many seeds reports it on average.**",
        "limit": "**Rbst with infinitely many seeds.**",
        "freq": "**freq as a study with as many seeds reports it on average.**",
    }
    head = ["landscape", "cells", *(f"{n} seeds" for n in SEEDS)]
    out = []
    for kind, title in titles.items():
        rows = [
            [name, f"{side} x {side}", *texts]
            for (of, name, side), texts in cells.items()
            if of == kind
        ]
        note = "`0.9 / 0.95` in per cent, in brackets the mean width at 0.9"
        out.append(f"{title} {note}.\n\n{table(head, rows)}")
    return out, shares


def comparison_table(repetitions: int) -> str:
    """Differences between two algorithms, and the rank correlation of eleven with known values."""
    names = ("smooth L", "rough", "all solved but CartPole, which fails at times")
    rows = []
    for name in names:
        for kind in ("difference of two Rbst_0.9", "rank correlation of eleven pairs"):
            cells = []
            for seeds in SEEDS:
                rng = np.random.default_rng([2, seeds, len(name), len(kind)])
                count = 2 if kind.startswith("difference") else 11
                held = Held()
                for _ in range(DIFFERENT):
                    truths = [_graded(name, k / (count - 1), rng) for k in range(count)]
                    average = np.array([_average(t, seeds, rng) for t in truths])
                    # Known values that agree with the truth, but not wholly.
                    known = average + rng.normal(0, np.ptp(average) / 2 + 1e-9, count)
                    for _ in range(repetitions // DIFFERENT):
                        runs = [t.draw(seeds, rng) for t in truths]
                        found = [robustness(r, LEVELS[:1])[0] for r in runs]
                        if count == 2:
                            held.add(difference(*found).interval(), average[0] - average[1])
                            continue
                        truth = correlations(known[None], average[None])[0]
                        held.add(rank_correlation(found, known, rng=rng, draws=500)[1], truth)
                cells.append(f"{percent(held)} ({held.width:.3f})")
            rows.append([kind, f"{name}, 7 x 7", *cells])
    return table(["what", "landscapes", *(f"{n} seeds" for n in SEEDS)], rows)


def _graded(name: str, better: float, rng: np.random.Generator) -> Truth:
    """A landscape of a kind whose runs fail the less often the better it is."""
    truth = LANDSCAPES[name](7, rng)
    chance = (truth.means + 0.005 - 0.02) / 0.97
    return by_chance(np.clip(chance, 0, 1) ** (1.5 - better))


def _average(truth: Truth, seeds: int, rng: np.random.Generator) -> float:
    return float(np.mean([rbst(cell_scores(truth.draw(seeds, rng)), 0.9) for _ in range(STUDIES)]))


def mean_table(repetitions: int) -> str:
    """The mean of few seeds, of one environment and of four."""
    counts = (2, 3, 4, 5, 10, 20)
    rows = []
    for name, environments in (("scattered", 1), ("succeed or fail", 1), ("succeed or fail", 4)):
        cells = []
        for seeds in counts:
            rng = np.random.default_rng([3, seeds, environments, len(name)])
            shape = (50 * repetitions, 1, environments)
            level = rng.uniform(0.3, 0.95, shape)
            truth = by_noise(level, 0.1) if name == "scattered" else by_chance(level)
            low, high = mean_intervals(truth.draw(seeds, rng))
            shown = np.isfinite(low)
            mean = truth.means.mean(axis=-1)
            inside = (low <= mean) & (mean <= high)
            if not shown.any():
                cells.append("none")
                continue
            share, width = 100 * inside[shown].mean(), (high - low)[shown].mean()
            cells.append(f"{share:.0f} of {100 * shown.mean():.0f} ({width:.2f})")
        rows.append([name, str(environments), *cells])
    return table(["scores", "environments", *(f"{n} seeds" for n in counts)], rows)


RETURNS = np.array(sorted(MAX_RETURNS), dtype=float)
#: Over how many decades of a temperature the chance that a run succeeds rises.
WIDTHS = (0.05, 0.15, 0.3, 0.45)
#: Runs of a value of the paper's strips: three of the other temperature, so many seeds.
STRIP = 3


def exponent_table(repetitions: int) -> str:
    """Temperatures that grow linearly with the return, seen through runs that fail or succeed."""
    rows = []
    for name, grid, low, high in (("alpha", ALPHAS, 0.02, 0.3), ("lambda", LAMS, 1.0, 100.0)):
        for seeds in (2, 5):
            rng = np.random.default_rng([4, seeds, len(name)])
            kinds = [f"brackets, {level:g}" for level in THRESHOLDS]
            shown: dict[str, list[str]] = {
                k: [] for k in (*kinds, "brackets, both", "values, 0.75")
            }
            for width in WIDTHS:
                held = {kind: Held() for kind in shown}
                for _ in range(repetitions):
                    truth = np.exp(rng.uniform(np.log(low), np.log(high))) / 500 * RETURNS
                    scores = _strip(grid, truth, width, STRIP * seeds, rng)
                    fits = [_fit(grid, scores, level) for level in THRESHOLDS]
                    for kind, fit in zip(kinds, fits, strict=True):
                        held[kind].add(fit and fit[0], 1.0)
                    if fits[0] is not None:
                        held["values, 0.75"].add(fits[0][1], 1.0)
                    ends = [(fit[0].low, fit[0].high) for fit in fits if fit]
                    if len(ends) == len(THRESHOLDS):
                        inside = Interval(*np.max(ends, axis=0)[:1], *np.min(ends, axis=0)[1:])
                        held["brackets, both"].add(inside, 1.0)
                for kind, each in held.items():
                    middle = np.nanmedian([width for _, width in each.rows])
                    text = f"{percent(each)} ({middle:.2f})"
                    shown[kind].append(percent(each) if kind.endswith("both") else text)
            rows += [[name, kind, f"{seeds}", *texts] for kind, texts in shown.items()]
    head = ["temperature", "fitted to", "seeds", *(f"rises over {w:g} decades" for w in WIDTHS)]
    return table(head, rows, texts=3)


def _fit(grid: np.ndarray, scores: np.ndarray, level: float) -> tuple[Interval, Interval] | None:
    """The exponent's interval from brackets, and from the grid's values taken as exact."""
    points = [
        Minimal("", x, *smallest(means, grid, level))
        for x, means in zip(RETURNS, scores, strict=True)
    ]
    try:
        law = power_law(points)
    except UserError:
        return None  # too few values work for a law
    kept = [(p.max_return, p.value) for p in points if p.known and p.value > 0]
    x, y = np.log10(np.array(kept)).T
    line = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(x) - 2) * line.stderr
    return Interval(law.low, law.high), Interval(line.slope - half, line.slope + half)


def _strip(
    grid: np.ndarray, truth: np.ndarray, width: float, runs: int, rng: np.random.Generator
) -> np.ndarray:
    """What runs score whose chances to succeed rise around a known temperature."""
    with np.errstate(divide="ignore"):
        chance = 1 / (1 + np.exp(-np.log10(grid / truth[:, None]) / width))
    return 0.02 + 0.98 * rng.binomial(runs, chance) / runs


def write(block: str) -> None:
    """Put the block into the documentation."""
    text = DOCS.read_text(encoding="utf-8")
    pattern = r"(<!-- coverage -->\n).*?(\n<!-- end of coverage -->)"
    new, count = re.subn(pattern, lambda m: m[1] + block + m[2], text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{DOCS} has {count} places for the coverage; one is needed")
    DOCS.write_text(new, encoding="utf-8")


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = time.perf_counter()
    tables, shares = rbst_tables(repetitions)
    print(f"{time.perf_counter() - start:.0f} s", flush=True)
    low = min(shares)
    below = sum(share < 0.9 for share in shares)
    error = 100 * np.sqrt(0.9 * 0.1 / repetitions)
    intro = (
        f"*Written by `python benchmarks/analysis_coverage.py {repetitions}`: {repetitions} "
        f"repetitions, so a share of 90% is known to about ±{error:.0f} points (one standard "
        f"error). 95% was asked for. Of the {len(shares)} shares of Rbst the lowest is "
        f"{100 * low:.0f}%, and {below} are below 90%.*"
    )
    parts = [
        intro,
        *tables,
        f"**Comparisons.** In brackets the mean width.\n\n{comparison_table(repetitions)}",
        "**The mean of few seeds.** `95 of 80 (0.4)`: 80% of cells show an interval, 95% of these "
        "hold the truth, and their mean width is 0.4.\n\n" + mean_table(repetitions),
        "**The exponent of minimal temperatures** that grow linearly with the return, seen through "
        f"runs that fail or succeed, {STRIP} cells of a strip for each value; in brackets the "
        "median width. *Brackets* is what `power_law` does, at a threshold or both at once; "
        "*values* is least squares through the grid's values as if these were exact.\n\n"
        + exponent_table(repetitions),
    ]
    write("\n\n".join(parts))
    print(f"{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
