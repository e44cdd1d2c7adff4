"""The claims on handling temperatures: during training, and between reward scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from mirrorax.analysis.estimates import no_interval
from mirrorax.analysis.resampling import score_resamples
from mirrorax.analysis.robustness import top
from mirrorax.analysis.scores import cell_scores
from mirrorax.analysis.temperature import minimal_temperatures, regression
from mirrorax.errors import UserError
from mirrorax.reproduction.claim import DRAWS, Claim, Verdict, central, ends, joined, sizes
from mirrorax.reproduction.data import Found, Runs
from mirrorax.studies.catalogue import STRIP
from mirrorax.studies.panels import BASELINE, MAX_RETURNS, SCHEDULES, TSALLIS, Panel

_SHARES = (0.01, 0.1)
_NAMES = {BASELINE: "(entropy, kl)", TSALLIS: "Tsallis 0.5"}


def _schedules(runs: Runs, pair: tuple[str, str]) -> dict[tuple[str, str], Found]:
    return {
        schedules: found
        for schedules in SCHEDULES
        if (found := runs.find(Panel(str(schedules), pair, schedules))) is not None
    }


def _best(found: Found, share: float) -> float:
    cells = found.landscape.cells("positive") & found.given
    return top(cell_scores(found.landscape.runs())[cells], share).mean


def _best_draws(found: Found, share: float, rng: np.random.Generator) -> np.ndarray:
    cells = found.landscape.cells("positive") & found.given
    drawn = score_resamples(found.landscape.runs()[cells], DRAWS, rng, scaled=True)
    return np.array([top(scores, share).mean for scores in drawn])


def constant_lam(runs: Runs, rng: np.random.Generator) -> Claim:
    """A constant lambda against an annealed one."""
    claim = Claim(
        "5a",
        "A constant lambda beats an annealed one at the best 1% and 10% of cells, for both pairs",
        "mean over the four ways to handle alpha of (constant - annealed): reproduced if all four "
        "95% intervals (two pairs, two shares) lie above 0, not reproduced if one lies below",
        "constant better in all",
    )
    ours, intervals, signs, used = [], [], [], []
    why = ""
    for pair in (BASELINE, TSALLIS):
        found = _schedules(runs, pair)
        if len(found) < len(SCHEDULES):
            return claim.lacking(
                f"{len(found)} of {len(SCHEDULES)} schedules of {_NAMES[pair]} have been run"
            )
        used += list(found.values())
        why = why or next((w for f in found.values() if (w := _single(f))), "")
        for share in _SHARES:
            sign = {schedules: 1 if schedules[1] == "constant" else -1 for schedules in found}
            value = sum(sign[s] * _best(f, share) for s, f in found.items()) / 4
            name = f"{_NAMES[pair]} {100 * share:g}%"
            ours.append(f"{name} {value:+.3f}")
            if not why:
                draws = sum(sign[s] * _best_draws(f, share, rng) for s, f in found.items()) / 4
                interval = central(np.asarray(draws))
                intervals.append(f"{name} {ends(interval)}")
                signs.append(1 if interval.low > 0 else -1 if interval.high < 0 else 0)
    verdict: Verdict = "not decided"
    if signs and all(sign == 1 for sign in signs):
        verdict = "reproduced"
    elif -1 in signs:
        verdict = "not reproduced"
    return replace(
        claim,
        ours=", ".join(ours),
        interval=", ".join(intervals) or "none",
        runs=sum(found.runs for found in used),
        verdict=verdict,
        note=joined(sizes(used), why),
    )


def _single(found: Found) -> str:
    return no_interval(found.landscape.runs()[found.landscape.cells("positive") & found.given])


def alpha_handling(runs: Runs, rng: np.random.Generator) -> Claim:
    """How alpha is handled matters less than how lambda is."""
    claim = Claim(
        "5b",
        "How alpha is handled matters little",
        "best 10% of cells at constant lambda: the widest gap between two ways to handle alpha, "
        "less the gap between constant and annealed lambda at constant alpha; reproduced if the "
        "95% interval lies below 0 for both pairs, not reproduced if above 0 for one",
        "little impact",
    )
    ours, intervals, signs, used = [], [], [], []
    why = ""
    for pair in (BASELINE, TSALLIS):
        found = _schedules(runs, pair)
        if len(found) < len(SCHEDULES):
            return claim.lacking(
                f"{len(found)} of {len(SCHEDULES)} schedules of {_NAMES[pair]} have been run"
            )
        used += list(found.values())
        kept = [s for s in SCHEDULES if s[1] == "constant"]
        plain, annealed = ("constant", "constant"), ("constant", "linear")
        best = {s: _best(f, 0.1) for s, f in found.items()}
        gap = max(best[s] for s in kept) - min(best[s] for s in kept)
        ours.append(f"{_NAMES[pair]} {gap:.3f} against {best[plain] - best[annealed]:.3f}")
        why = why or next((w for f in found.values() if (w := _single(f))), "")
        if not why:
            draws = {s: _best_draws(f, 0.1, rng) for s, f in found.items()}
            stacked = np.stack([draws[s] for s in kept])
            less = np.ptp(stacked, axis=0) - (draws[plain] - draws[annealed])
            interval = central(less)
            intervals.append(f"{_NAMES[pair]} {ends(interval)}")
            signs.append(-1 if interval.high < 0 else 1 if interval.low > 0 else 0)
    verdict: Verdict = "not decided"
    if signs and all(sign == -1 for sign in signs):
        verdict = "reproduced"
    elif 1 in signs:
        verdict = "not reproduced"
    return replace(
        claim,
        ours=", ".join(ours),
        interval=", ".join(intervals) or "none",
        runs=sum(found.runs for found in used),
        verdict=verdict,
        note=joined(sizes(used), why),
    )


def growth(temperature: Literal["alpha", "lam"]) -> Callable[[Runs, np.random.Generator], Claim]:
    """Return the judge of how one minimal temperature grows with the maximum return."""

    def judge(runs: Runs, rng: np.random.Generator) -> Claim:
        del rng
        word = "alpha" if temperature == "alpha" else "lambda"
        claim = Claim(
            "6a" if temperature == "alpha" else "6b",
            f"The smallest {word} that works grows linearly with the maximum return",
            "exponent of a power law through CartPole's eleven reward scales, at thresholds 0.75 "
            "and 0.85: reproduced if both 95% intervals contain 1 and not 0, not reproduced if "
            "one lies above or below 1",
            "linear (Figure 4)",
        )
        scales = tuple(("CartPole", scale) for scale in MAX_RETURNS.values())
        found = runs.find(Panel("CartPole", environments=scales), nested=False)
        if found is None:
            return claim.lacking("not all of the eleven CartPoles have been run")
        ours, intervals, marks, notes = [], [], [], []
        for threshold in (0.75, 0.85):
            try:
                points = minimal_temperatures(found.landscape, temperature, threshold, strip=STRIP)
                fit = regression(points, log=True)
            except UserError as error:
                notes.append(f"at {threshold:g}: {error}")
                continue
            ours.append(f"at {threshold:g}: {fit.slope:.2f}")
            intervals.append(f"[{fit.slope_low:.2f}, {fit.slope_high:.2f}]")
            marks.append((fit.slope_low <= 1 <= fit.slope_high, fit.slope_low > 0))
            hidden = sum(p.censored for p in points)
            zeros = sum(p.value == 0 and not p.censored for p in points)
            notes.append(f"at {threshold:g}: {hidden} never reach it, {zeros} do at zero")
        verdict: Verdict = "not decided"
        single = found.seeds[0] < 2
        if len(marks) == 2 and not single:
            if all(contains and positive for contains, positive in marks):
                verdict = "reproduced"
            elif any(not contains for contains, _ in marks):
                verdict = "not reproduced"
        return replace(
            claim,
            ours=", ".join(ours) or "none",
            interval=", ".join(intervals) or "none",
            runs=found.runs,
            verdict=verdict,
            note=joined(found.size, *notes, "one seed per cell" if single else ""),
        )

    return judge
