"""The claims on handling temperatures: during training, and between reward scales."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from mirrorax.analysis.estimates import no_interval
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.resampling import score_resamples
from mirrorax.analysis.robustness import top
from mirrorax.analysis.scores import cell_scores
from mirrorax.analysis.temperature import minimal_temperatures
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
    return top(cell_scores(found.landscape.runs())[found.positive], share).mean


def _best_draws(found: Found, share: float, rng: np.random.Generator) -> np.ndarray:
    drawn = score_resamples(found.landscape.runs()[found.positive], DRAWS, rng, scaled=True)
    return np.array([top(scores, share).mean for scores in drawn])


#: One number of a claim: its name, what is printed of it, and how to draw it.
_Number = tuple[str, str, Callable[[], np.ndarray]]


def _both_pairs(
    claim: Claim,
    runs: Runs,
    numbers: Callable[[str, dict[tuple[str, str], Found]], Iterable[_Number]],
    sign: Literal[1, -1],
) -> Claim:
    """Judge by the numbers of both pairs: all of one sign, or one of the other."""
    ours, intervals, signs, used = [], [], [], []
    why = ""
    for pair in (BASELINE, TSALLIS):
        found = _schedules(runs, pair)
        if len(found) < len(SCHEDULES):
            return claim.lacking(
                f"{len(found)} of {len(SCHEDULES)} schedules of {_NAMES[pair]} have been run"
            )
        used += list(found.values())
        single = (no_interval(f.landscape.runs()[f.positive]) for f in found.values())
        why = why or next(filter(None, single), "")
        for name, text, draw in numbers(_NAMES[pair], found):
            ours.append(f"{name} {text}")
            if not why:
                interval = central(draw())
                intervals.append(f"{name} {ends(interval)}")
                signs.append(1 if interval.low > 0 else -1 if interval.high < 0 else 0)
    verdict: Verdict = "not decided"
    if signs and all(each == sign for each in signs):
        verdict = "reproduced"
    elif -sign in signs:
        verdict = "not reproduced"
    return replace(
        claim,
        ours=", ".join(ours),
        interval=", ".join(intervals) or "none",
        runs=sum(found.runs for found in used),
        verdict=verdict,
        note=joined(sizes(used), why),
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

    return _both_pairs(claim, runs, numbers, sign=1)


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
    kept = [schedules for schedules in SCHEDULES if schedules[1] == "constant"]

    def gaps(best: dict[tuple[str, str], Any]) -> tuple[Any, Any]:
        widest = np.ptp(np.stack([best[schedules] for schedules in kept]), axis=0)
        return widest, best["constant", "constant"] - best["constant", "linear"]

    def numbers(name: str, found: dict[tuple[str, str], Found]) -> Iterable[_Number]:
        alpha, lam = gaps({s: _best(f, 0.1) for s, f in found.items()})

        def draw() -> np.ndarray:
            widest, annealing = gaps({s: _best_draws(f, 0.1, rng) for s, f in found.items()})
            return np.asarray(widest - annealing)

        yield name, f"{alpha:.3f} against {lam:.3f}", draw

    return _both_pairs(claim, runs, numbers, sign=-1)


def growth(temperature: Literal["alpha", "lam"]) -> Callable[[Runs, np.random.Generator], Claim]:
    """Return the judge of how one minimal temperature grows with the maximum return."""

    def judge(runs: Runs, rng: np.random.Generator) -> Claim:
        del rng
        word = "alpha" if temperature == "alpha" else "lambda"
        claim = Claim(
            "6a" if temperature == "alpha" else "6b",
            f"The smallest {word} that works grows linearly with the maximum return",
            "exponent of a power law through CartPole's eleven reward scales, fitted to the grid "
            "values between which each temperature lies, at thresholds 0.75 and 0.85: reproduced "
            "if both 95% intervals contain 1 and not 0, not reproduced if one lies above or below "
            "1",
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
                fit = power_law(points)
            except UserError as error:
                notes.append(f"at {threshold:g}: {error}")
                continue
            ours.append(f"at {threshold:g}: {fit.exponent:.2f}")
            intervals.append(f"[{fit.low:.2f}, {fit.high:.2f}]")
            marks.append((fit.low <= 1 <= fit.high, fit.low > 0))
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
