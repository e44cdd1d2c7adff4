"""The claims on the pairs of regularisers: Table 1, and that every pair can be made to work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import stats

from mirrorax.analysis.estimates import Estimate, robustness
from mirrorax.analysis.published import numbers
from mirrorax.analysis.tuning import tuned_against_fixed
from mirrorax.reproduction.claim import DRAWS, GOOD, Claim, Verdict, central, ends, sizes
from mirrorax.reproduction.data import Found, Runs
from mirrorax.studies.panels import PAIRS, Panel


def _found(runs: Runs) -> dict[str, Found]:
    """Return the pairs of Table 1 that have a cell to count."""
    found = {label: runs.find(Panel(label, pair)) for label, pair in PAIRS.items()}
    return {label: each for label, each in found.items() if each and each.positive.any()}


def table_1(runs: Runs, rng: np.random.Generator) -> tuple[dict[str, Found], dict[str, Estimate]]:
    """Return what there is of Table 1, by its labels: the runs, and their Rbst_0.9.

    A pair's interval does not depend on which other pairs there are.
    """
    found = _found(runs)
    streams = dict(zip(PAIRS, rng.spawn(len(PAIRS)), strict=True))
    estimates = {
        label: robustness(
            each.landscape.runs(), (GOOD,), rng=streams[label], cells=each.positive, resamples=DRAWS
        )[0]
        for label, each in found.items()
    }
    return found, estimates


def published_rbst() -> dict[str, float]:
    """Return the paper's Rbst_0.9, by the labels of Table 1."""
    return {row["label"]: row["rbst"][0] for row in numbers()["table1"]["rows"]}


def values(runs: Runs, rng: np.random.Generator) -> Claim:
    """Table 1's numbers."""
    paper = published_rbst()
    found, estimates = table_1(runs, rng)
    claim = Claim(
        "1a",
        "Table 1: the values of Rbst_0.9",
        "reproduced if the paper's value lies in our 95% interval for all eleven pairs but at most "
        "one; decided on the whole grid only",
        f"{min(paper.values()):.4f} to {max(paper.values()):.4f}",
        runs=sum(each.runs for each in found.values()),
    )
    if not estimates:
        return claim.lacking("no pair has runs in all four environments")
    inside: list[str] = []
    outside: list[str] = []
    for label, estimate in estimates.items():
        interval = estimate.interval()
        if interval is not None:
            (inside if paper[label] in interval else outside).append(label)
    verdict: Verdict = "not decided"
    if len(inside) + len(outside) == len(PAIRS) and all(each.whole for each in found.values()):
        verdict = "reproduced" if len(outside) <= 1 else "not reproduced"
    return replace(
        claim,
        ours=", ".join(f"{label} {e.value:.3f}" for label, e in estimates.items()),
        interval=", ".join(f"{label} {ends(e.interval())}" for label, e in estimates.items()),
        verdict=verdict,
        note=f"{sizes(list(found.values()))}; the paper's value is inside for "
        f"{' '.join(inside) or 'none'}, outside for {' '.join(outside) or 'none'}",
    )


def order(runs: Runs, rng: np.random.Generator) -> Claim:
    """Table 1's order."""
    paper = published_rbst()
    found, estimates = table_1(runs, rng)
    claim = Claim(
        "1b",
        "Table 1: the order of the pairs by Rbst_0.9",
        "Spearman's rank correlation with the paper over the pairs: reproduced if its 95% interval "
        "lies above 0, not reproduced if it reaches 0 and stays below 0.7",
        "1 by definition",
        runs=sum(each.runs for each in found.values()),
    )
    labels = [label for label, estimate in estimates.items() if estimate.draws is not None]
    if len(labels) < len(PAIRS):
        return claim.lacking(f"{len(labels)} of {len(PAIRS)} pairs have two seeds or more")
    theirs = stats.rankdata([paper[label] for label in labels])
    ours = np.array([estimates[label].value for label in labels])
    drawn = [d for label in labels if (d := estimates[label].draws) is not None]
    correlations = [spearman(theirs, np.clip(row, 0, 1)) for row in np.stack(drawn, axis=1)]
    interval = central(np.array(correlations))
    verdict: Verdict = "not decided"
    if interval.low > 0:
        verdict = "reproduced"
    elif interval.high < 0.7:
        verdict = "not reproduced"
    sequence = " ".join(labels[i] for i in np.argsort(-ours, kind="stable"))
    return replace(
        claim,
        ours=f"{spearman(theirs, ours):.2f}",
        interval=ends(interval, 2),
        verdict=verdict,
        note=f"{sizes(list(found.values()))}; order found: {sequence} (paper: {' '.join(PAIRS)})",
    )


def spearman(ranks: np.ndarray, values: np.ndarray) -> float:
    """Return the rank correlation of values with given ranks; 0 where they are all alike."""
    other = stats.rankdata(values)
    if np.ptp(other) == 0:
        return 0.0  # no order, so none in common
    return float(np.corrcoef(ranks, other)[0, 1])


def solved(runs: Runs, rng: np.random.Generator) -> Claim:
    """Every pair can be made to work."""
    del rng
    claim = Claim(
        "4",
        "Every pair has temperatures with an average of at least 0.95",
        "reproduced if each pair's best cell, chosen without one seed and scored on that seed, "
        "reaches 0.95; not reproduced if a pair has no cell at 0.95 on the whole grid",
        "all eleven",
    )
    found = _found(runs)
    best: dict[str, float] = {}
    held: dict[str, float] = {}
    for label, each in found.items():
        tuning = tuned_against_fixed(each.landscape.runs(), each.positive)
        best[label] = tuning.fixed
        if tuning.fixed_held_out is not None:
            held[label] = tuning.fixed_held_out
    if not best:
        return claim.lacking("no pair has runs in all four environments")
    failed = [label for label in best if best[label] < 0.95 and found[label].whole]
    verdict: Verdict = "not decided"
    if sum(value >= 0.95 for value in held.values()) == len(PAIRS):
        verdict = "reproduced"
    elif failed:
        verdict = "not reproduced"
    listed = ", ".join(f"{label} {value:.3f}" for label, value in best.items())
    return replace(
        claim,
        ours=f"{sum(v >= 0.95 for v in best.values())} of {len(best)} pairs run: {listed}",
        interval="held out: " + ", ".join(f"{label} {v:.3f}" for label, v in held.items())
        if held
        else "none",
        runs=sum(each.runs for each in found.values()),
        verdict=verdict,
        note=sizes(list(found.values())),
    )
