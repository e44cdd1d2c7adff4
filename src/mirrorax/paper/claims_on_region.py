"""The claims on the good region: the L, that regularisation is needed, APMD, larger boards."""

from __future__ import annotations

import numpy as np

from mirrorax.analysis.estimates import Interval, no_interval
from mirrorax.analysis.landscape import Landscape
from mirrorax.analysis.region import Region, region
from mirrorax.analysis.scores import cell_scores, mean_intervals, seeds_in_words
from mirrorax.analysis.summary import common_cells
from mirrorax.paper.axes import SCALED_CATCH
from mirrorax.paper.claim import (
    DRAWS,
    GOOD,
    MARGIN,
    Findings,
    Verdict,
    central,
    claim,
    decide,
    ends,
    joined,
)
from mirrorax.paper.panels import Panel
from mirrorax.paper.resampling import score_resamples
from mirrorax.paper.runs import PanelRuns, ReadingRuns, sizes

_RESAMPLES = 500  # each is a region of its own

_RULE = (
    "a cell is good at 0.9; reproduced if in 95% of resamples some alphas are good along the "
    "quarter of lowest lambdas, some lambdas along the quarter of lowest alphas, and most cells "
    "where both are lowest are not; not reproduced if in at most 5%"
)


@claim(
    "2a",
    "L\nshape",
    "The good region of the baseline is an L: either regulariser can stand in for the other",
    _RULE,
    "an L in Figure 1a",
)
def baseline_is_l(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """The L of the baseline."""
    return _arms(runs.on_grid(Panel("baseline")), rng)


@claim(
    "7",
    "larger\nCatch",
    "Catch with two and three times its rows and columns keeps the pattern",
    _RULE,
    "an L in Figure 1b",
)
def boards_are_l(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """The L on larger boards."""
    boards = tuple((name, 1.0) for name in SCALED_CATCH)
    return _arms(runs.on_grid(Panel("boards", environments=boards)), rng)


def _arms(panel: PanelRuns | None, rng: np.random.Generator) -> Findings:
    if panel is None:
        return {"note": "no grid of cells has runs in all of these environments"}
    item = panel.landscape
    seen = region(panel.scores, item.alphas, item.lams, GOOD)
    why = no_interval(item.runs()[panel.positive])
    verdict: Verdict = "not decided"
    text = key = "none"
    if not why:
        drawn = score_resamples(item.runs(), _RESAMPLES, rng)
        held = [np.where(panel.given, scores, np.nan) for scores in drawn]
        shapes = [region(scores, item.alphas, item.lams, GOOD) for scores in held]
        share = float(np.mean([_is_l(s, item) for s in shapes]))
        like = central(np.nan_to_num(np.array([s.likeness for s in shapes])))
        key = f"{100 * share:.0f}%"
        text = f"an L in {key} of resamples; likeness {ends(like, 2)}"
        if share >= 0.95:
            verdict = "reproduced"
        elif share <= 0.05:
            verdict = "not reproduced"
    return {
        "ours": f"alpha {_band(seen.alpha_band)} at the lowest lambdas, lambda "
        f"{_band(seen.lam_band)} at the lowest alphas; likeness to an L "
        + ("none" if np.isnan(seen.likeness) else f"{seen.likeness:.2f}"),
        "interval": text,
        "runs": panel.runs,
        "verdict": verdict,
        "note": joined(panel.size, why),
        "short": "" if why else text,
        "key": key,
    }


def _is_l(seen: Region, item: Landscape) -> bool:
    """Whether there are two arms and an empty corner between them: not none, and not a block."""
    lowest = [np.flatnonzero(values > 0) for values in (item.alphas, item.lams)]
    corner = seen.good[np.ix_(*(index[: max(1, -(-len(index) // 4))] for index in lowest))]
    return bool(seen.alpha_band.size and seen.lam_band.size and corner.mean() < 0.5)


def _band(values: np.ndarray) -> str:
    if values.size == 0:
        return "nowhere"
    return f"{values[0]:g}" if values.size == 1 else f"{values[0]:g} to {values[-1]:g}"


@claim(
    "2b",
    "needs\nh or D",
    "Some regularisation is necessary: alpha = lambda = 0 is poor",
    "reproduced if the 95% interval of that cell's mean over environments lies below 0.9, not "
    "reproduced if above; two seeds have no interval",
    "poor in Figure 1a",
)
def necessary(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """Regularisation is needed at all."""
    del rng
    panel = runs.find(Panel("baseline"), nested=False, every_seed=True)
    item = panel.landscape if panel else None
    if not panel or not item or item.alphas[0] + item.lams[0] > 0 or not panel.given[0, 0]:
        return {"note": "the cell without regularisation has not been run"}
    cell = item.runs()[0, 0]  # [environment, seed]
    score = float(cell_scores(cell[None])[0])
    low, high = map(float, mean_intervals(cell, agree=0.0))  # that they agree is what it says
    words = seeds_in_words(cell, agree=0.0)
    return {
        "ours": f"{score:.3f}",
        "interval": words,
        "runs": int(np.isfinite(cell).sum()),
        "verdict": decide(None if np.isnan(low) else Interval(low, high), high=GOOD),
        "short": f"{score:.3f}, {words}",
        "key": f"{score:.2f}",
    }


@claim(
    "3",
    "APMD",
    "Improving the policy on the unregularised Q (APMD) makes no noticeable difference",
    f"mean over cells of the change in score: reproduced if its 95% interval lies within "
    f"+-{MARGIN:g}, not reproduced if it lies outside",
    "no noticeable effect (Figure 1c)",
)
def apmd(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """The unregularised Q in the policy update changes nothing."""
    plain = runs.on_grid(Panel("baseline"))
    other = runs.on_grid(Panel("apmd", actor_q="unregularized"))
    if plain is None or other is None:
        return {"note": "APMD or the baseline has not been run in all four environments"}
    first, second = _common(plain.landscape, other.landscape)
    if len(first) == 0:
        return {"note": "APMD and the baseline have no cell in common"}
    change = cell_scores(second) - cell_scores(first)
    why = no_interval(first) or no_interval(second)
    interval = None
    if not why:
        draws = [score_resamples(part, DRAWS, rng).mean(axis=1) for part in (second, first)]
        interval = central(draws[0] - draws[1])
    largest = f"largest change of a cell {np.abs(change).max():.2f}"
    return {
        "ours": f"{change.mean():+z.3f}",
        "interval": ends(interval),
        "runs": int(np.isfinite(first).sum() + np.isfinite(second).sum()),
        "verdict": decide(interval, -MARGIN, MARGIN),
        "note": joined(sizes((plain, other)), largest, why),
        "key": f"{change.mean():+z.2f}",
    }


def _common(a: Landscape, b: Landscape) -> tuple[np.ndarray, np.ndarray]:
    """Return the runs of the positive cells that both grids have, cell for cell."""
    masks = [item.cells() & np.isfinite(cell_scores(item.runs())) for item in (a, b)]
    first, second = common_cells((a, b), masks)
    return a.runs()[first], b.runs()[second]
