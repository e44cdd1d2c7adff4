"""`suggest`: regularisers and temperatures for a task, from results, with the reasons."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool

from mirrorax.envs import suite
from mirrorax.errors import UserError, nearest
from mirrorax.formatting import counted
from mirrorax.regularizers.names import parse_drift, parse_potential
from mirrorax.runs.settings import OTHER_NUMBERS, PRESETS, RunValues, Settings
from mirrorax.tuning.evidence import Evidence, Map, family, of_results
from mirrorax.tuning.prediction import (
    Prediction,
    choose_exponent,
    combine,
    good,
    grids,
    resample,
)
from mirrorax.tuning.validation import THRESHOLD, Validation, validate

#: What a suggestion rests on, from the firmest to the weakest.
Basis = Literal["measured", "same family", "other environments"]


@dataclass(frozen=True)
class Suggestion:
    """A pair (h, D), its temperatures, ranges to search, and why."""

    environment: str
    potential: str
    drift: str
    alpha: float
    lam: float
    alpha_range: tuple[float, float]
    lam_range: tuple[float, float]
    basis: Basis
    #: the score the results have, or predict, at these temperatures
    score: float
    #: what the returns were taken to be worth: the distance between those that count as 0 and 1
    return_scale: float | None
    settings: str  # the flags of the settings the results were made with, and of reward_scale
    reasons: tuple[str, ...]
    sure: str

    @property
    def command(self) -> str:
        """The command that trains with it."""
        parts = [f"mirrorax train --env {_quoted(self.environment)}"]
        parts.append(f"--potential {_quoted(self.potential)} --drift {_quoted(self.drift)}")
        parts.append(f"--alpha {self.alpha:g} --lam {self.lam:g}")
        return " ".join(part for part in (*parts, self.settings) if part)

    @property
    def search(self) -> str:
        """The command that searches around it, with the same settings."""
        parts = [f"mirrorax tune --env {_quoted(self.environment)}"]
        parts.append(f"--potential {_quoted(self.potential)} --drift {_quoted(self.drift)}")
        return " ".join(part for part in (*parts, self.settings) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "command": self.command}


def _quoted(text: str) -> str:
    return text if text.replace("-", "").replace("_", "").isalnum() else f'"{text}"'


def suggest(
    env: str,
    max_return: float | None = None,
    *,
    reward_scale: float = 1.0,
    potential: str | None = None,
    drift: str | None = None,
    results: str | os.PathLike[str] | None = None,
    evidence: Evidence | None = None,
) -> Suggestion:
    """Recommend (h, D), alpha and lambda with ranges to search, from results.

    `max_return` is the return that counts as 1, where it is not the environment's usual one (its
    rewards were rescaled) or not known by name; `reward_scale` says the same by the factor that
    training will have. `potential` and `drift` fix the pair. `results` is a store or exports to
    learn from in place of the shipped table.
    """
    name, unknown = _name(env)
    if max_return is not None and (
        isinstance(max_return, bool)
        or not isinstance(max_return, int | float | np.number)
        or not math.isfinite(max_return)
    ):
        raise UserError(f"max_return: {max_return!r} is not a finite number")
    scaled = float(RunValues(reward_scale=reward_scale).reward_scale)
    if max_return is not None and scaled != 1:
        raise UserError("max_return: it says what reward_scale says; give one of them")
    known = of_results(results) if evidence is None else evidence
    reasons = [unknown] if unknown else []
    reasons.append(_source(known))
    maps, pair = _choose_pair(known, potential, drift, reasons)
    scale, factor, note = _scale(name, max_return, scaled)
    if note:
        reasons.append(note)
    prediction, basis = _predict(name, maps, scale, factor, reasons)
    checked = _checked(known, pair)
    alpha_range, lam_range = prediction.ranges()
    return Suggestion(
        environment=name,
        potential=pair[0],
        drift=pair[1],
        alpha=_digits(prediction.alpha),
        lam=_digits(prediction.lam),
        alpha_range=(_digits(alpha_range[0]), _digits(alpha_range[1])),
        lam_range=(_digits(lam_range[0]), _digits(lam_range[1])),
        basis=basis,
        score=prediction.score,
        return_scale=scale,
        settings=" ".join(
            [flags(known), *as_flags({"reward_scale": scaled} if scaled != 1 else {})]
        ).strip(),
        reasons=tuple(reasons),
        sure=_sure(basis, prediction, checked, maps, name),
    )


def _source(evidence: Evidence) -> str:
    names = len({one.environment for one in evidence.maps})
    pairs = len(evidence.pairs)
    length = evidence.settings.get("steps")
    long = f", {length:,} steps each" if isinstance(length, int) else ""
    runs, places = counted(evidence.runs, "run"), counted(names, "environment")
    return f"The results: {runs} of {counted(pairs, 'pair')} in {places}{long}."


def _digits(value: float) -> float:
    return float(f"{value:.2g}")


def _name(env: str) -> tuple[str, str]:
    """Return the usual spelling; a name that mirrorax does not know as it is, and a remark."""
    if not isinstance(env, str) or not env.strip():
        raise UserError(f"env: expected a name, got {env!r}")
    try:
        return suite.environment(env).name, ""
    except suite.UnknownEnvironment:
        guess = nearest(env, (*suite.names(), *suite.ALIASES), 0.7)
        hint = f" (did you mean {guess}?)" if guess else ""
        return env.strip(), f"No environment called {env.strip()} is known here{hint}."


def _bounds(name: str, load: bool) -> tuple[float, float] | None:
    """Return the returns that count as 0 and 1; a user's own environment is asked if `load`."""
    try:
        spec = suite.environment(name)
    except suite.UnknownEnvironment:
        return None
    if spec.family != "own":
        return spec.bounds
    if not load:
        return None
    return spec.known_bounds()


def _scale(name: str, max_return: float | None, factor: float) -> tuple[float | None, float, str]:
    """Return the scale of the returns, the factor on the usual rewards, and a remark."""
    # Who says how large the returns are need not have the environment at hand.
    bounds = _bounds(name, load=max_return is None)
    if max_return is None:
        scale = None if bounds is None else (bounds[1] - bounds[0]) * factor
        return scale, factor, "" if factor == 1 else _rescaled(factor)
    if bounds is None:
        if max_return <= 0:
            raise UserError(
                f"max_return: {max_return:g} is not allowed: the lowest return of {name!r} is not "
                "known and taken as 0, so it must be positive"
            )
        return float(max_return), 1.0, ""
    low, high = bounds
    factor = max_return / high if high else math.nan
    if not factor > 0 or not math.isfinite(factor):
        raise UserError(
            f"max_return: {max_return:g} is not allowed: {name} has {high:g}, and rewards are "
            "rescaled by a positive factor"
        )
    if factor == 1:
        return high - low, 1.0, ""
    return (high - low) * factor, factor, _rescaled(factor)


def _rescaled(factor: float) -> str:
    return (
        f"Rewards times {factor:g}: alpha and lam times {factor:g}, because the mirror step is the "
        "same when Q, alpha and lam are multiplied by one number."
    )


def _choose_pair(
    evidence: Evidence, potential: str | None, drift: str | None, reasons: list[str]
) -> tuple[Sequence[Map], tuple[str, str]]:
    h = None if potential is None else str(parse_potential(potential))
    d = None if drift is None else str(parse_drift(drift))
    fitting = [p for p in evidence.pairs if (h is None or p[0] == h) and (d is None or p[1] == d)]
    if not fitting:
        pooled = [one for each in evidence.pairs for one in evidence.of(each)]
        pair = (h or "entropy", d or "kl")
        reasons.append(
            f"There are no results for ({pair[0]}, {pair[1]}): temperatures are those that were "
            f"good on average over {counted(len(evidence.pairs), 'other pair')}."
        )
        return _pooled(pooled), pair
    # The pair that forgives most: the chance that a cell drawn at random is good.
    maps = {pair: evidence.of(pair) for pair in fitting}
    widest = max(map(len, maps.values()))
    complete = [pair for pair in fitting if len(maps[pair]) == widest]
    shares = _shares({pair: maps[pair] for pair in complete})
    pair = max(complete, key=lambda p: shares[p])
    if h is not None and d is not None:
        why = f"The pair was given; {shares[pair]:.1%} of its cells reach {THRESHOLD:g}"
    elif len(complete) == 1:
        why = f"The results have one pair to choose from; {shares[pair]:.1%} of its cells reach 0.9"
    else:
        why = (
            f"Of {len(complete)} pairs measured it forgives most: {shares[pair]:.1%} of its cells "
            f"reach {THRESHOLD:g}"
        )
    reasons.append(f"{why} in an environment, on average.")
    return maps[pair], pair


def _shares(maps: Mapping[tuple[str, str], Sequence[Map]]) -> dict[tuple[str, str], float]:
    """Return each pair's share of good cells, on average over its environments.

    Of the cells that every pair has in an environment, so that one with more runs in a poor corner
    is not the worse for it; of all its own where they have none in common.
    """
    common: dict[str, set[tuple[float, float]]] = {}
    for one in (one for each in maps.values() for one in each):
        cells = _cells(one, np.isfinite(one.scores))
        common[one.environment] = common.get(one.environment, cells) & cells

    def share(one: Map) -> float:
        places = common[one.environment] or _cells(one, np.isfinite(one.scores))
        return len(_cells(one, good(one, THRESHOLD)) & places) / max(len(places), 1)

    return {pair: float(np.mean([share(one) for one in each])) for pair, each in maps.items()}


def _cells(one: Map, chosen: Bool[np.ndarray, "alpha lam"]) -> set[tuple[float, float]]:
    return {(float(one.alphas[i]), float(one.lams[j])) for i, j in np.argwhere(chosen)}


def _pooled(maps: Sequence[Map]) -> list[Map]:
    """Average the maps of all pairs, environment by environment, on the grid of the first."""
    by_environment: dict[str, list[Map]] = {}
    for one in maps:
        by_environment.setdefault(one.environment, []).append(one)
    out = []
    for same in by_environment.values():
        on = same[0]
        stack = [resample(one, 1.0, on.alphas, on.lams) for one in same]
        out.append(replace(on, scores=np.mean(stack, axis=0)))
    return out


def _predict(
    name: str,
    maps: Sequence[Map],
    scale: float | None,
    factor: float,
    reasons: list[str],
) -> tuple[Prediction, Basis]:
    own = [one for one in maps if one.environment == name]
    kin = [one for one in maps if one.family == family(name)]
    if own or kin:
        used = own or kin
        basis: Basis = "measured" if own else "same family"
        # Sizes of one family count alike; rewards are rescaled as the caller says.
        alphas, lams = grids(used, 1.0, 0.0)
        prediction = combine(used, 1.0, 0.0, alphas, lams)
        names = ", ".join(one.environment for one in used)
        if prediction is None:
            raise UserError(f"results: no cell was measured in all of these together: {names}")
        runs = sum(int(one.runs.sum()) for one in used)
        reasons.append(f"{runs:,} runs on {names} itself." if own else f"{runs:,} runs on {names}.")
        return _times(prediction, factor), basis
    # At the usual rewards first; rescaled ones then rescale whatever was found.
    wanted = scale / factor if scale is not None else 1.0
    exponent = choose_exponent(maps) if scale is not None else 0.0
    alphas, lams = grids(maps, wanted, exponent)
    prediction = combine(maps, wanted, exponent, alphas, lams)
    if prediction is None and exponent:
        exponent = 0.0
        alphas, lams = grids(maps, wanted, exponent)
        prediction = combine(maps, wanted, exponent, alphas, lams)
    if prediction is None:
        raise UserError("results: no cell was measured in every environment")
    names = ", ".join(dict.fromkeys(one.environment for one in maps))
    reasons.append(f"{name} was not measured: the cells are those that were good on {names}.")
    reasons.append(_about_returns(exponent, scale, maps))
    return _times(prediction, factor), "other environments"


def _about_returns(exponent: float, scale: float | None, maps: Sequence[Map]) -> str:
    if scale is None:
        return "How large its returns are is not known; --max-return says."
    if exponent:
        return (
            f"Temperatures move with the scale of the returns to the power {exponent:g}, which "
            "predicted left-out environments best."
        )
    if len({one.family for one in maps}) < 3:
        return "The scale of its returns is not used: too few environments to learn its effect."
    return (
        "The scale of its returns is not used: between environments it did not help to predict "
        "the one left out (within one environment temperatures are proportional to it)."
    )


def _times(prediction: Prediction, factor: float) -> Prediction:
    return Prediction(
        prediction.alphas * factor,
        prediction.lams * factor,
        prediction.scores,
        prediction.smoothed,
        prediction.cell,
    )


def _checked(evidence: Evidence, pair: tuple[str, str]) -> Validation | None:
    try:
        return validate(evidence).of(pair)
    except UserError:
        return None


def _sure(
    basis: Basis,
    prediction: Prediction,
    checked: Validation | None,
    maps: Sequence[Map],
    name: str,
) -> str:
    if basis == "measured":
        own = [one for one in maps if one.environment == name]
        cells = sum(int(np.isfinite(one.scores).sum()) for one in own)
        return (
            f"Measured: {prediction.score:.3f} at this cell. It was chosen among {cells} cells, so "
            "that is a little optimistic."
        )
    if checked is None:
        families = len({one.family for one in maps})
        tail = "" if families > 1 else " There is no second environment to test predictions on."
        return f"Weak: nothing tells how well results carry over.{tail}"
    hits = sum(row.success for row in checked.rows)
    text = (
        f"Left out in turn, {hits} of {len(checked.rows)} environments were hit: the suggested "
        f"cell reached {checked.threshold:g} there. A random cell does so with {checked.random:.0%}"
        f", the best single cell for all in {checked.fixed:.0%}. {len(checked.rows)} environments "
        "are few: take it as a start for a search."
    )
    return (
        "Fair: another size of it was measured. " if basis == "same family" else "Weak. "
    ) + text


def flags(evidence: Evidence) -> str:
    """Return the flags that give `mirrorax train` the settings the results were made with."""
    fields = {n: v for n, v in evidence.settings.items() if n in Settings.model_fields}
    for name in ("eval_every", "plugins"):
        fields.pop(name, None)
    numbers = {
        name: value
        for name, value in evidence.settings.items()
        if name in OTHER_NUMBERS
        and name != "reward_scale"
        and value != RunValues.model_fields[name].default
    }

    def same(name: str, value: Any) -> bool:
        default = Settings.model_fields[name].default
        return value is None or (tuple(value) if isinstance(value, list) else value) == default

    for preset, sets in sorted(PRESETS.items(), key=lambda item: -len(item[1])):
        if sets and all(fields.get(name) == value for name, value in sets.items()):
            rest = {n: v for n, v in fields.items() if n not in sets and not same(n, v)}
            return " ".join([f"--preset {preset}", *as_flags({**rest, **numbers})])
    return " ".join(as_flags({**{n: v for n, v in fields.items() if not same(n, v)}, **numbers}))


def as_flags(fields: Mapping[str, Any]) -> list[str]:
    """Return fields as the command line takes them."""
    out = []
    for name, value in fields.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple | list) else f"{value}"
        out.append(f"--{name.replace('_', '-')} {text.lower() if value in (True, False) else text}")
    return out
