"""The claims on the good region: the L, that regularisation is needed, APMD, larger boards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirrorax.analysis.estimates import no_interval
from mirrorax.analysis.few_seeds import mean_intervals, seeds_in_words
from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.region import Region, region
from mirrorax.analysis.scores import cell_scores
from mirrorax.paper.axes import SCALED_CATCH
from mirrorax.paper.claim import (
    DRAWS,
    GOOD,
    MARGIN,
    Claim,
    Verdict,
    central,
    ends,
    joined,
    sizes,
)
from mirrorax.paper.panels import Panel
from mirrorax.paper.resampling import score_resamples
from mirrorax.paper.runs import Found, Runs

_RESAMPLES = 500  # each is a region of its own

_RULE = (
    "a cell is good at 0.9; reproduced if in 95% of resamples some alphas are good along the "
    "quarter of lowest lambdas, some lambdas along the quarter of lowest alphas, and most cells "
    "where both are lowest are not; not reproduced if in at most 5%"
)


def baseline_is_l(runs: Runs, rng: np.random.Generator) -> Claim:
    """The L of the baseline."""
    claim = Claim(
        "2a",
        "The good region of the baseline is an L: either regulariser can stand in for the other",
        _RULE,
        "an L in Figure 1a",
    )
    return _arms(claim, runs.on_grid(Panel("baseline")), rng)


def boards_are_l(runs: Runs, rng: np.random.Generator) -> Claim:
    """The L on larger boards."""
    claim = Claim(
        "7",
        "Catch with two and three times its rows and columns keeps the pattern",
        _RULE,
        "an L in Figure 1b",
    )
    boards = tuple((name, 1.0) for name in SCALED_CATCH)
    return _arms(claim, runs.on_grid(Panel("boards", environments=boards)), rng)


def _arms(claim: Claim, found: Found | None, rng: np.random.Generator) -> Claim:
    if found is None:
        return claim.lacking("no grid of cells has runs in all of these environments")
    item = found.landscape
    if not found.positive.any():
        return claim.lacking("no cell with positive temperatures has runs")
    seen = region(_scores(found, item.runs()), item.alphas, item.lams, GOOD)
    why = no_interval(item.runs()[found.positive])
    verdict: Verdict = "not decided"
    text = key = "none"
    if not why:
        drawn = score_resamples(item.runs(), _RESAMPLES, rng)
        held = [np.where(found.given, scores, np.nan) for scores in drawn]
        shapes = [region(scores, item.alphas, item.lams, GOOD) for scores in held]
        share = float(np.mean([_is_l(s, item) for s in shapes]))
        like = central(np.nan_to_num(np.array([s.likeness for s in shapes])))
        key = f"{100 * share:.0f}%"
        text = f"an L in {key} of resamples; likeness {ends(like, 2)}"
        if share >= 0.95:
            verdict = "reproduced"
        elif share <= 0.05:
            verdict = "not reproduced"
    return replace(
        claim,
        ours=f"alpha {_band(seen.alpha_band)} at the lowest lambdas, lambda "
        f"{_band(seen.lam_band)} at the lowest alphas; likeness to an L "
        + ("none" if np.isnan(seen.likeness) else f"{seen.likeness:.2f}"),
        interval=text,
        runs=found.runs,
        verdict=verdict,
        note=joined(found.size, why),
        short="" if why else text,
        key=key,
    )


def _is_l(seen: Region, item: Landscape) -> bool:
    """Whether there are two arms and an empty corner between them: not none, and not a block."""
    lowest = [np.flatnonzero(values > 0) for values in (item.alphas, item.lams)]
    corner = seen.good[np.ix_(*(index[: max(1, -(-len(index) // 4))] for index in lowest))]
    return bool(seen.alpha_band.size and seen.lam_band.size and corner.mean() < 0.5)


def _scores(found: Found, runs: np.ndarray) -> np.ndarray:
    return np.where(found.given, cell_scores(runs), np.nan)


def _band(values: np.ndarray) -> str:
    if values.size == 0:
        return "nowhere"
    return f"{values[0]:g}" if values.size == 1 else f"{values[0]:g} to {values[-1]:g}"


def necessary(runs: Runs, rng: np.random.Generator) -> Claim:
    """Regularisation is needed at all."""
    del rng
    claim = Claim(
        "2b",
        "Some regularisation is necessary: alpha = lambda = 0 is poor",
        "reproduced if the 95% interval of that cell's mean over environments lies below 0.9, not "
        "reproduced if above; two seeds have no interval",
        "poor in Figure 1a",
    )
    found = runs.find(Panel("baseline"), nested=False, every_seed=True)
    if found is None or found.landscape.alphas[0] > 0 or found.landscape.lams[0] > 0:
        return claim.lacking("the cell without regularisation has not been run")
    if not found.given[0, 0]:
        return claim.lacking("the cell without regularisation has not been run")
    cell = found.landscape.runs()[0, 0]  # [environment, seed]
    score = float(cell_scores(cell[None])[0])
    count = np.isfinite(cell).sum(axis=-1)
    low, high = mean_intervals(cell, agree=0.0)  # that seeds agree is what the claim says
    words = seeds_in_words(cell, agree=0.0)
    verdict: Verdict = "not decided"
    if high < GOOD:  # not so for NaN
        verdict = "reproduced"
    elif low > GOOD:
        verdict = "not reproduced"
    return replace(
        claim,
        ours=f"{score:.3f}",
        interval=words,
        runs=int(count.sum()),
        verdict=verdict,
        short=f"{score:.3f}, {words}",
        key=f"{score:.2f}",
    )


def apmd(runs: Runs, rng: np.random.Generator) -> Claim:
    """The unregularised Q in the policy update changes nothing."""
    claim = Claim(
        "3",
        "Improving the policy on the unregularised Q (APMD) makes no noticeable difference",
        f"mean over cells of the change in score: reproduced if its 95% interval lies within "
        f"+-{MARGIN:g}, not reproduced if it lies outside",
        "no noticeable effect (Figure 1c)",
    )
    plain = runs.on_grid(Panel("baseline"))
    other = runs.on_grid(Panel("apmd", actor_q="unregularized"))
    if plain is None or other is None:
        return claim.lacking("APMD or the baseline has not been run in all four environments")
    first, second = _common(plain.landscape, other.landscape)
    if len(first) == 0:
        return claim.lacking("APMD and the baseline have no cell in common")
    change = cell_scores(second) - cell_scores(first)
    why = no_interval(first) or no_interval(second)
    verdict: Verdict = "not decided"
    text = "none"
    if not why:
        draws = [score_resamples(part, DRAWS, rng).mean(axis=1) for part in (second, first)]
        interval = central(draws[0] - draws[1])
        text = ends(interval)
        if interval.low > -MARGIN and interval.high < MARGIN:
            verdict = "reproduced"
        elif interval.low > MARGIN or interval.high < -MARGIN:
            verdict = "not reproduced"
    largest = f"largest change of a cell {np.abs(change).max():.2f}"
    return replace(
        claim,
        ours=f"{change.mean():+.3f}",
        key=f"{change.mean():+.2f}",
        interval=text,
        runs=int(np.isfinite(first).sum() + np.isfinite(second).sum()),
        verdict=verdict,
        note=joined(sizes((plain, other)), largest, why),
    )


def _common(a: Landscape, b: Landscape) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs of the positive cells that both grids have, cell for cell."""
    alphas = np.intersect1d(a.alphas[a.alphas > 0], b.alphas[b.alphas > 0])
    lams = np.intersect1d(a.lams[a.lams > 0], b.lams[b.lams > 0])
    parts = []
    for item in (a, b):
        part = item.runs()[np.ix_(np.isin(item.alphas, alphas), np.isin(item.lams, lams))]
        parts.append(part.reshape(-1, *part.shape[2:]))
    both = np.isfinite(cell_scores(parts[0])) & np.isfinite(cell_scores(parts[1]))
    return parts[0][both], parts[1][both]
