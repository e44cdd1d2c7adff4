"""The claims on handling temperatures: during training, and between reward scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from mirrorax.analysis.estimates import Interval, no_interval
from mirrorax.analysis.power_law import exponents_without_one, power_law
from mirrorax.analysis.scores import cell_scores, top
from mirrorax.analysis.temperature import (
    NAMES,
    STRIP,
    THRESHOLDS,
    Minimal,
    Temperature,
    minimal_temperatures,
)
from mirrorax.errors import UserError
from mirrorax.paper.axes import BASELINE, SCHEDULES, TSALLIS
from mirrorax.paper.claim import (
    DRAWS,
    MARGIN,
    Claim,
    Verdict,
    central,
    ends,
    joined,
    sizes,
)
from mirrorax.paper.panels import CARTPOLES, Panel
from mirrorax.paper.resampling import score_resamples
from mirrorax.paper.runs import Found, Runs, alike

_SHARES = (0.01, 0.1)
#: An exponent is known well enough to be called 1 if its interval lies within these.
_EXPONENTS = (0.5, 2.0)
_NAMES = {BASELINE: "(entropy, kl)", TSALLIS: "Tsallis 0.5"}


def _schedules(runs: Runs, pair: tuple[str, str]) -> dict[tuple[str, str], Found]:
    panels = [Panel(str(schedules), pair, schedules) for schedules in SCHEDULES]
    found = runs.find_all(panels)
    if len(found) == len(SCHEDULES):
        found = alike(found)
    return {each.panel.schedules: each for each in found}


def _best(found: Found, share: float) -> float:
    return top(cell_scores(found.landscape.runs())[found.positive], share).mean


def _best_draws(found: Found, share: float, rng: np.random.Generator) -> np.ndarray:
    drawn = score_resamples(found.landscape.runs()[found.positive], DRAWS, rng)
    return np.array([top(scores, share).mean for scores in drawn])


#: One number of a claim: its name, what is printed of it, and how to draw it.
_Number = tuple[str, str, Callable[[], np.ndarray]]


def _both_pairs(
    claim: Claim,
    runs: Runs,
    numbers: Callable[[str, dict[tuple[str, str], Found]], Iterable[_Number]],
    speaks: Callable[[Interval], int],
) -> Claim:
    """Judge by the numbers of both pairs: all speak for the claim, or one against it."""
    ours, intervals, said, used = [], [], [], []
    why = ""
    for pair in (BASELINE, TSALLIS):
        found = _schedules(runs, pair)
        if len(found) < len(SCHEDULES):
            return claim.lacking(
                f"{len(found)} of {len(SCHEDULES)} schedules of {_NAMES[pair]} have been run on "
                "cells that all of them have"
            )
        used += list(found.values())
        single = (no_interval(f.landscape.runs()[f.positive]) for f in found.values())
        why = why or next(filter(None, single), "")
        for name, text, draw in numbers(_NAMES[pair], found):
            ours.append(f"{name} {text}")
            if not why:
                interval = central(draw())
                intervals.append(f"{name} {ends(interval)}")
                said.append(speaks(interval))
    verdict: Verdict = "not decided"
    if said and all(each == 1 for each in said):
        verdict = "reproduced"
    elif -1 in said:
        verdict = "not reproduced"
    short = f"{said.count(1)} of {len(said)} numbers speak for it, {said.count(-1)} against"
    return replace(
        claim,
        ours=", ".join(ours),
        interval=", ".join(intervals) or "none",
        runs=sum(found.runs for found in used),
        verdict=verdict,
        note=joined(sizes(used), why),
        short=short if said else "",
        key=f"{said.count(1)}/{len(said)}" if said else "",
    )


def constant_lam(runs: Runs, rng: np.random.Generator) -> Claim:
    """A constant lambda against an annealed one."""
    claim = Claim(
        "5a",
        "A constant lambda beats an annealed one at the best 1% and 10% of cells, for both pairs",
        "mean over the four ways to handle alpha of (constant - annealed): reproduced if all four "
        "95% intervals (two pairs, two shares) lie above 0, not reproduced if one lies below",
        "constant better in all",
    )

    def gain(best: dict[tuple[str, str], Any]) -> Any:
        return sum(value if s[1] == "constant" else -value for s, value in best.items()) / 4

    def numbers(name: str, found: dict[tuple[str, str], Found]) -> Iterable[_Number]:
        for share in _SHARES:

            def draw(share: float = share) -> np.ndarray:
                return np.asarray(gain({s: _best_draws(f, share, rng) for s, f in found.items()}))

            value = gain({s: _best(f, share) for s, f in found.items()})
            yield f"{name} {100 * share:g}%", f"{value:+.3f}", draw

    return _both_pairs(claim, runs, numbers, _above)


def alpha_handling(runs: Runs, rng: np.random.Generator) -> Claim:
    """How alpha is handled matters little."""
    claim = Claim(
        "5b",
        "How alpha is handled matters little",
        "best 10% of cells at constant lambda: reproduced if the 95% intervals of all differences "
        f"between two ways to handle alpha lie within +-{MARGIN:g} for both pairs, not reproduced "
        "if one lies outside",
        "little impact",
    )
    ways = [alpha for alpha, lam in SCHEDULES if lam == "constant"]

    def numbers(name: str, found: dict[tuple[str, str], Found]) -> Iterable[_Number]:
        best = {way: _best(found[way, "constant"], 0.1) for way in ways}

        @cache  # each way is in several differences
        def drawn(way: str) -> np.ndarray:
            return _best_draws(found[way, "constant"], 0.1, rng)

        for one, other in combinations(ways, 2):

            def draw(one: str = one, other: str = other) -> np.ndarray:
                return drawn(one) - drawn(other)

            label = f"{name} {one} - {other}".replace("_", " ")
            yield label, f"{best[one] - best[other]:+.3f}", draw

    return _both_pairs(claim, runs, numbers, _within)


def _above(interval: Interval) -> int:
    """1 for an interval above 0, -1 for one below, 0 for neither."""
    return 1 if interval.low > 0 else -1 if interval.high < 0 else 0


def _within(interval: Interval) -> int:
    """1 for an interval within the margin, -1 for one outside, 0 for neither."""
    if interval.low > -MARGIN and interval.high < MARGIN:
        return 1
    return -1 if interval.low > MARGIN or interval.high < -MARGIN else 0


def growth(temperature: Temperature) -> Callable[[Runs, np.random.Generator], Claim]:
    """Return the judge of how one minimal temperature grows with the maximum return."""

    def judge(runs: Runs, rng: np.random.Generator) -> Claim:
        del rng
        claim = Claim(
            "6a" if temperature == "alpha" else "6b",
            f"The smallest {NAMES[temperature]} that works grows linearly with the maximum return",
            "exponent of a power law through CartPole's eleven reward scales, fitted to the grid "
            f"values between which each temperature lies along the {STRIP} lowest values of the "
            "other (less those that do without it), at thresholds "
            f"{' and '.join(f'{each:g}' for each in THRESHOLDS)}: reproduced if "
            f"both 95% intervals contain 1 and lie within [{_EXPONENTS[0]:g}, {_EXPONENTS[1]:g}], "
            "not reproduced if one lies above or below 1",
            "linear (Figure 4)",
        )
        found = runs.strip(CARTPOLES, temperature)
        if found is None:
            return claim.lacking("not all of the eleven CartPoles have been run along this strip")
        single = found.seeds[0] < 2
        ours, intervals, marks, notes = [], [], [], []
        for threshold in THRESHOLDS:
            points = minimal_temperatures(found.landscape, temperature, threshold, strip=STRIP)
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
                f"at {threshold:g}: {hidden} never reach it, {zeros} do at zero"
                f"{_without_one(points)}"
            )
        verdict: Verdict = "not decided"
        if len(marks) == len(THRESHOLDS):
            if all(contains and narrow for contains, narrow in marks):
                verdict = "reproduced"
            elif any(not contains for contains, _ in marks):
                verdict = "not reproduced"
        return replace(
            claim,
            ours=", ".join(ours) or "none",
            interval=", ".join(intervals) or "none",
            runs=found.runs,
            verdict=verdict,
            note=joined(found.size, *notes, "no interval: a cell has one seed" if single else ""),
            short=", ".join(f"{a} {b}" for a, b in zip(ours, intervals, strict=False)),
            key=" ".join(text.rpartition(" ")[2] for text in ours),
        )

    return judge


def _without_one(points: Sequence[Minimal]) -> str:
    """Say how much an exponent hangs on single CartPoles."""
    try:
        found = exponents_without_one(points)
    except UserError:
        return ""  # with one less there are too few
    return f", without one of them the exponent is {found.min():.2f} to {found.max():.2f}"
