"""The claims on handling temperatures: during training, and between reward scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

from mirrorax.analysis.estimates import Interval, no_interval
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.scores import cell_scores, top, top_count
from mirrorax.analysis.temperature import (
    STRIP,
    THRESHOLDS,
    Minimal,
    Temperature,
    minimal_temperatures,
)
from mirrorax.errors import UserError
from mirrorax.paper.axes import BASELINE, NAMES, SCHEDULES, TSALLIS
from mirrorax.paper.claim import (
    DRAWS,
    MARGIN,
    Findings,
    Verdict,
    central,
    claim,
    decide,
    ends,
    joined,
)
from mirrorax.paper.panels import CARTPOLES, Panel
from mirrorax.paper.resampling import score_resamples
from mirrorax.paper.runs import PanelRuns, ReadingRuns, alike, sizes

#: An exponent is known well enough to be called 1 if its interval lies within these.
_EXPONENTS = (0.5, 2.0)
_NAMES = {BASELINE: "(entropy, kl)", TSALLIS: "Tsallis 0.5"}

#: The runs of a pair, by its schedules of alpha and lambda.
_Schedules = dict[tuple[str, str], PanelRuns]
#: One number of a claim: its name, what is printed of it, and how to draw it.
_Number = tuple[str, str, Callable[[], np.ndarray]]


def _schedules(runs: ReadingRuns, pair: tuple[str, str]) -> _Schedules:
    matches = runs.find_all([Panel(str(schedules), pair, schedules) for schedules in SCHEDULES])
    if len(matches) == len(SCHEDULES):
        matches = alike(matches)
    return {each.panel.schedules: each for each in matches}


def _best(panel: PanelRuns, share: float) -> float:
    return top(cell_scores(panel.landscape.runs())[panel.positive], share).mean


def _best_draws(panel: PanelRuns, share: float, rng: np.random.Generator) -> np.ndarray:
    drawn = score_resamples(panel.landscape.runs()[panel.positive], DRAWS, rng)
    best = np.sort(drawn, axis=1)[:, -top_count(drawn.shape[1], share) :]
    return np.asarray(best.mean(axis=1))


def _both_pairs(
    runs: ReadingRuns,
    numbers: Callable[[str, _Schedules], Iterable[_Number]],
    speaks: Callable[[Interval], Verdict],
) -> Findings:
    """Judge by the numbers of both pairs: all speak for the claim, or one against it."""
    ours, intervals, said, used = [], [], [], []
    why = ""
    for pair, name in _NAMES.items():
        panels = _schedules(runs, pair)
        if len(panels) < len(SCHEDULES):
            have = f"{len(panels)} of {len(SCHEDULES)} schedules of {name}"
            return {"note": f"{have} have been run on cells that all of them have"}
        used += list(panels.values())
        single = (no_interval(each.landscape.runs()[each.positive]) for each in panels.values())
        why = why or next(filter(None, single), "")
        for label, text, draw in numbers(name, panels):
            ours.append(f"{label} {text}")
            if not why:
                interval = central(draw())
                intervals.append(f"{label} {ends(interval)}")
                said.append(speaks(interval))
    yes, no = said.count("reproduced"), said.count("not reproduced")
    verdict: Verdict = "not decided"
    if said and yes == len(said):
        verdict = "reproduced"
    elif no:
        verdict = "not reproduced"
    return {
        "ours": ", ".join(ours),
        "interval": ", ".join(intervals) or "none",
        "runs": sum(each.runs for each in used),
        "verdict": verdict,
        "note": joined(sizes(used), why),
        "short": f"{yes} of {len(said)} numbers speak for it, {no} against" if said else "",
        "key": f"{yes}/{len(said)}" if said else "",
    }


@claim(
    "5a",
    "constant\nlambda",
    "A constant lambda beats an annealed one at the best 1% and 10% of cells, for both pairs",
    "mean over the four ways to handle alpha of (constant - annealed): reproduced if all four "
    "95% intervals (two pairs, two shares) lie above 0, not reproduced if one lies below",
    "constant better in all",
)
def constant_lam(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """A constant lambda against an annealed one."""

    def gain(best: dict[tuple[str, str], Any]) -> Any:
        return sum(value if s[1] == "constant" else -value for s, value in best.items()) / 4

    def numbers(name: str, panels: _Schedules) -> Iterable[_Number]:
        for share in (0.01, 0.1):

            def draw(share: float = share) -> np.ndarray:
                return np.asarray(gain({s: _best_draws(p, share, rng) for s, p in panels.items()}))

            value = gain({s: _best(each, share) for s, each in panels.items()})
            yield f"{name} {100 * share:g}%", f"{value:+z.3f}", draw

    return _both_pairs(runs, numbers, lambda interval: decide(interval, low=0.0))


@claim(
    "5b",
    "alpha\nschedule",
    "How alpha is handled matters little",
    "best 10% of cells at constant lambda: reproduced if the 95% intervals of all differences "
    f"between two ways to handle alpha lie within +-{MARGIN:g} for both pairs, not reproduced "
    "if one lies outside",
    "little impact",
)
def alpha_handling(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """How alpha is handled matters little."""
    ways = [alpha for alpha, lam in SCHEDULES if lam == "constant"]

    def numbers(name: str, panels: _Schedules) -> Iterable[_Number]:
        best = {way: _best(panels[way, "constant"], 0.1) for way in ways}

        @cache  # each way is in several differences
        def drawn(way: str) -> np.ndarray:
            return _best_draws(panels[way, "constant"], 0.1, rng)

        for one, other in combinations(ways, 2):

            def draw(one: str = one, other: str = other) -> np.ndarray:
                return drawn(one) - drawn(other)

            label = f"{name} {one} - {other}".replace("_", " ")
            yield label, f"{best[one] - best[other]:+z.3f}", draw

    return _both_pairs(runs, numbers, lambda interval: decide(interval, -MARGIN, MARGIN))


_GROWTH = (
    "exponent of a power law through CartPole's eleven reward scales, fitted to the grid "
    f"values between which each temperature lies along the {STRIP} lowest values of the "
    "other (less those that do without it), at thresholds "
    f"{' and '.join(f'{each:g}' for each in THRESHOLDS)}: reproduced if "
    f"both 95% intervals contain 1 and lie within [{_EXPONENTS[0]:g}, {_EXPONENTS[1]:g}], "
    "not reproduced if one lies above or below 1"
)
_LINEAR = "The smallest {} that works grows linearly with the maximum return"


@claim("6a", "alpha\ngrowth", _LINEAR.format(NAMES["alpha"]), _GROWTH, "linear (Figure 4)")
def alpha_growth(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """The minimal alpha grows linearly."""
    del rng
    return _growth(runs, "alpha")


@claim("6b", "lambda\ngrowth", _LINEAR.format(NAMES["lam"]), _GROWTH, "linear (Figure 4)")
def lam_growth(runs: ReadingRuns, rng: np.random.Generator) -> Findings:
    """The minimal lambda grows linearly."""
    del rng
    return _growth(runs, "lam")


def _growth(runs: ReadingRuns, temperature: Temperature) -> Findings:
    panel = runs.strip(CARTPOLES, temperature)
    if panel is None:
        return {"note": "not all of the eleven CartPoles have been run along this strip"}
    single = panel.seeds[0] < 2
    ours, intervals, marks, notes = [], [], [], []
    for threshold in THRESHOLDS:
        points = minimal_temperatures(panel.landscape, temperature, threshold)
        try:
            fit = power_law(points)
        except UserError as error:
            notes.append(f"at {threshold:g}: {error}")
            continue
        ours.append(f"at {threshold:g}: {fit.exponent:.2f}")
        if not single:
            intervals.append(f"[{fit.low:.2f}, {fit.high:.2f}]")
            narrow = _EXPONENTS[0] <= fit.low and fit.high <= _EXPONENTS[1]
            marks.append((fit.low <= 1 <= fit.high, narrow))
        hidden = sum(p.censored for p in points)
        zeros = sum(p.value == 0 and p.known for p in points)
        notes.append(
            f"at {threshold:g}: {hidden} never reach it, {zeros} do at zero{_without_one(points)}"
        )
    verdict: Verdict = "not decided"
    if len(marks) == len(THRESHOLDS):
        if all(contains and narrow for contains, narrow in marks):
            verdict = "reproduced"
        elif any(not contains for contains, _ in marks):
            verdict = "not reproduced"
    return {
        "ours": ", ".join(ours) or "none",
        "interval": ", ".join(intervals) or "none",
        "runs": panel.runs,
        "verdict": verdict,
        "note": joined(panel.size, *notes, "no interval: a cell has one seed" * single),
        "short": ", ".join(f"{a} {b}" for a, b in zip(ours, intervals, strict=False)),
        "key": " ".join(text.rpartition(" ")[2] for text in ours),
    }


def exponents_without_one(points: Sequence[Minimal]) -> Float[np.ndarray, " known"]:
    """Return the exponent without each environment in turn: how much it hangs on single ones."""
    known = [p for p in points if p.known]
    rest = ([p for p in known if p is not one] for one in known)
    return np.array([power_law(some).exponent for some in rest])


def _without_one(points: Sequence[Minimal]) -> str:
    """Say how much an exponent hangs on single CartPoles."""
    try:
        exponents = exponents_without_one(points)
    except UserError:
        return ""  # with one less there are too few
    return f", without one of them the exponent is {exponents.min():.2f} to {exponents.max():.2f}"
