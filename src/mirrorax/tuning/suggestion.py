"""`suggest`: regularisers and temperatures for a task, from results, with the reasons."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool

from mirrorax.envs import suite
from mirrorax.errors import UserError, nearest
from mirrorax.formatting import counted
from mirrorax.regularizers.names import parse_drift, parse_potential, sees_advantages
from mirrorax.runs.presets import PRESETS
from mirrorax.runs.settings import OTHER_NUMBERS, RunValues, Settings
from mirrorax.tuning.evidence import Evidence, ScoreMap, family, of_results
from mirrorax.tuning.prediction import Prediction, combine, good, grid_of, resample
from mirrorax.tuning.validation import THRESHOLD, Validation, validate

#: What a suggestion rests on, from the firmest to the weakest.
Basis = Literal["measured", "same family", "other environments", "nothing"]


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
    settings: str  # the flags of the settings the results were made with, and of reward_scale
    reasons: tuple[str, ...]
    sure: str

    @property
    def command(self) -> str:
        """The command that trains with it."""
        return f"mirrorax train {self._flags(f'--alpha {self.alpha:g} --lam {self.lam:g}')}"

    @property
    def search(self) -> str:
        """The command that searches around it, with the same settings."""
        return f"mirrorax tune {self._flags()}"

    def _flags(self, temperatures: str = "") -> str:
        names = {"env": self.environment, "potential": self.potential, "drift": self.drift}
        return " ".join(part for part in (*as_flags(names), temperatures, self.settings) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, ready for JSON."""
        return {**asdict(self), "command": self.command}


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

    `max_return` is the return that counts as 1, if rewards were rescaled; `reward_scale` says the
    same by the factor on the rewards. `potential` and `drift` fix the pair. `results` is a store or
    exports to learn from in place of the shipped table.
    """
    name, remark = _name(env)
    factor = _factor(name, max_return, reward_scale)
    known = of_results(results) if evidence is None else evidence
    reasons = [remark] if remark else []
    reasons.append(_source(known))
    maps, pair = _choose_pair(known, potential, drift, reasons)
    if factor != 1:
        reasons.append(
            f"Rewards times {factor:g}: alpha and lam times {factor:g}, because the mirror step is "
            "the same when Q, alpha and lam are multiplied by one number."
        )
    prediction, basis = _predict(name, maps, reasons)
    alpha_range, lam_range = prediction.ranges()

    def scaled(value: float) -> float:
        return float(f"{value * factor:.2g}")

    rewards = {} if reward_scale == 1 else {"reward_scale": float(reward_scale)}
    return Suggestion(
        environment=name,
        potential=pair[0],
        drift=pair[1],
        alpha=scaled(prediction.alpha),
        lam=scaled(prediction.lam),
        alpha_range=(scaled(alpha_range[0]), scaled(alpha_range[1])),
        lam_range=(scaled(lam_range[0]), scaled(lam_range[1])),
        basis=basis,
        score=prediction.score,
        settings=" ".join([flags(known), *as_flags(rewards)]).strip(),
        reasons=tuple(reasons),
        sure=_sure(basis, prediction, _checked(known, pair), maps, name),
    )


def without_evidence(env: str, potential: str | None, drift: str | None) -> Suggestion:
    """Return where a search of on-policy temperatures begins: nothing is known, ranges are wide."""
    name, remark = _name(env)
    h, d = parse_potential(potential or "entropy"), parse_drift(drift or "ppo_clip(0.2)")
    lam = 1.0 if sees_advantages(d) else 0.1
    reasons = (
        *([remark] if remark else []),
        "The results are of off-policy training: there is no evidence for on-policy training. The "
        "temperatures are the defaults, and the ranges are wide.",
    )
    return Suggestion(
        environment=name,
        potential=str(h),
        drift=str(d),
        alpha=0.01,
        lam=lam,
        alpha_range=(1e-4, 1.0),
        lam_range=(1e-2 * lam, 1e2 * lam),
        basis="nothing",
        score=math.nan,
        settings="--algorithm on_policy",
        reasons=reasons,
        sure="Nothing was measured.",
    )


def _source(evidence: Evidence) -> str:
    names = counted(len({each.environment for each in evidence.maps}), "environment")
    length = evidence.settings.get("steps")
    steps = f", {length:,} steps each" if isinstance(length, int) else ""
    pairs = counted(len(evidence.pairs), "pair")
    return f"The results: {counted(evidence.runs, 'run')} of {pairs} in {names}{steps}."


def _name(env: str) -> tuple[str, str]:
    """Return the usual spelling; an unknown name is returned as it is, with a remark."""
    if not isinstance(env, str) or not env.strip():
        raise UserError(f"env: expected a name, got {env!r}")
    try:
        return suite.environment(env).name, ""
    except suite.UnknownEnvironment:
        guess = nearest(env, (*suite.names(), *suite.ALIASES), 0.7)
        hint = f" (did you mean {guess}?)" if guess else ""
        return env.strip(), f"No environment called {env.strip()} is known here{hint}."


def _factor(name: str, max_return: float | None, reward_scale: float) -> float:
    """Return the factor on the usual rewards of the environment."""
    factor = float(RunValues(reward_scale=reward_scale).reward_scale)
    if max_return is None:
        return factor
    if isinstance(max_return, bool) or not isinstance(max_return, int | float | np.number):
        raise UserError(f"max_return: {max_return!r} is not a finite number")
    if not math.isfinite(max_return):
        raise UserError(f"max_return: {max_return!r} is not a finite number")
    if factor != 1:
        raise UserError("max_return: it says what reward_scale says; give one of them")
    try:
        bounds = suite.environment(name).bounds
    except suite.UnknownEnvironment:
        bounds = None
    if bounds is None:
        if max_return <= 0:
            raise UserError(
                f"max_return: {max_return:g} is not allowed: the usual returns of {name!r} are "
                "not known, so it must be positive"
            )
        return 1.0
    factor = max_return / bounds[1] if bounds[1] else math.nan
    if not factor > 0 or not math.isfinite(factor):
        raise UserError(
            f"max_return: {max_return:g} is not allowed: {name} has {bounds[1]:g}, and rewards are "
            "rescaled by a positive factor"
        )
    return float(factor)


def _choose_pair(
    evidence: Evidence, potential: str | None, drift: str | None, reasons: list[str]
) -> tuple[Sequence[ScoreMap], tuple[str, str]]:
    h = None if potential is None else str(parse_potential(potential))
    d = None if drift is None else str(parse_drift(drift))
    fitting = [p for p in evidence.pairs if (h is None or p[0] == h) and (d is None or p[1] == d)]
    if not fitting and d is not None and sees_advantages(parse_drift(d)):
        raise UserError(
            f"drift: {d!r} is for on-policy training, of which the results have no runs; search "
            f"with: mirrorax tune --algorithm on_policy --drift {shlex.quote(d)}"
        )
    if not fitting:
        pair = (h or "entropy", d or "kl")
        reasons.append(
            f"There are no results for ({pair[0]}, {pair[1]}): temperatures are those that were "
            f"good on average over {counted(len(evidence.pairs), 'other pair')}."
        )
        return _pooled([each for p in evidence.pairs for each in evidence.of(p)]), pair
    # The pair that forgives most: the chance that a cell drawn at random is good.
    maps = {pair: evidence.of(pair) for pair in fitting}
    widest = max(map(len, maps.values()))
    complete = [pair for pair in fitting if len(maps[pair]) == widest]
    shares = _shares({pair: maps[pair] for pair in complete})
    pair = max(complete, key=lambda p: shares[p])
    share = f"{shares[pair]:.1%} of its cells reach {THRESHOLD:g} in an environment, on average."
    if h is not None and d is not None:
        reasons.append(f"The pair was given; {share}")
    elif len(complete) == 1:
        reasons.append(f"The results have one pair to choose from; {share}")
    else:
        reasons.append(f"Of {len(complete)} pairs measured it forgives most: {share}")
    return maps[pair], pair


def _shares(maps: Mapping[tuple[str, str], Sequence[ScoreMap]]) -> dict[tuple[str, str], float]:
    """Return each pair's share of good cells, on average over its environments.

    Only cells that every pair has in an environment count; if there are none, all cells do.
    """
    common: dict[str, set[tuple[float, float]]] = {}
    for each in (each for maps_of_pair in maps.values() for each in maps_of_pair):
        cells = _cells(each, np.isfinite(each.scores))
        common[each.environment] = common.get(each.environment, cells) & cells

    def share(scores: ScoreMap) -> float:
        places = common[scores.environment] or _cells(scores, np.isfinite(scores.scores))
        return len(_cells(scores, good(scores, THRESHOLD)) & places) / max(len(places), 1)

    return {pair: float(np.mean([share(each) for each in some])) for pair, some in maps.items()}


def _cells(scores: ScoreMap, chosen: Bool[np.ndarray, "alpha lam"]) -> set[tuple[float, float]]:
    return {(float(scores.alphas[i]), float(scores.lams[j])) for i, j in np.argwhere(chosen)}


def _pooled(maps: Sequence[ScoreMap]) -> list[ScoreMap]:
    """Average the maps of all pairs, environment by environment, on the grid of the first."""
    by_environment: dict[str, list[ScoreMap]] = {}
    for each in maps:
        by_environment.setdefault(each.environment, []).append(each)
    out = []
    for same in by_environment.values():
        on = same[0]
        stack = [resample(each, on.alphas, on.lams) for each in same]
        out.append(replace(on, scores=np.mean(stack, axis=0)))
    return out


def _predict(name: str, maps: Sequence[ScoreMap], reasons: list[str]) -> tuple[Prediction, Basis]:
    """Predict from the environment itself, else from its other sizes, else from all others."""
    own = [each for each in maps if each.environment == name]
    kin = [each for each in maps if each.family == family(name)]
    used = own or kin or maps
    basis: Basis = "measured" if own else "same family" if kin else "other environments"
    prediction = combine(used, *grid_of(used))
    names = ", ".join(dict.fromkeys(each.environment for each in used))
    if prediction is None:
        raise UserError(f"results: no cell was measured in all of these together: {names}")
    runs = counted(sum(int(each.runs.sum()) for each in used), "run")
    if basis == "other environments":
        reasons.append(
            f"{name} was not measured: the cells are those that were good on {names}. The size of "
            "its returns is not used."
        )
    else:
        reasons.append(f"{runs} on {names}{' itself' if own else ''}.")
    return prediction, basis


def _checked(evidence: Evidence, pair: tuple[str, str]) -> Validation | None:
    try:
        return validate(evidence).of(pair)
    except UserError:
        return None


def _sure(
    basis: Basis,
    prediction: Prediction,
    checked: Validation | None,
    maps: Sequence[ScoreMap],
    name: str,
) -> str:
    if basis == "measured":
        own = [each for each in maps if each.environment == name]
        cells = sum(int(np.isfinite(each.scores).sum()) for each in own)
        return (
            f"Measured: {prediction.score:.3f} at this cell. It was chosen among {cells} cells, so "
            "that is a little optimistic."
        )
    if checked is None:
        families = len({each.family for each in maps})
        tail = "" if families > 1 else " There is no second environment to test predictions on."
        return f"Weak: nothing shows how well results carry over.{tail}"
    hits = sum(row.success for row in checked.rows)
    head = "Fair: another size of it was measured." if basis == "same family" else "Weak."
    return (
        f"{head} Left out in turn, {hits} of {len(checked.rows)} environments were hit: the "
        f"suggested cell reached {checked.threshold:g} there. A random cell does so with "
        f"{checked.random:.0%}, the best single cell for all in {checked.fixed:.0%}. "
        f"{len(checked.rows)} environments are few: take it as a start for a search."
    )


def flags(evidence: Evidence) -> str:
    """Return the flags that give `mirrorax train` the settings the results were made with."""
    fields = {
        name: _plain(value)
        for name, value in evidence.settings.items()
        if name in Settings.model_fields and name not in ("eval_every", "plugins")
    }
    preset, changes = next(
        (name, changes)
        for name, changes in sorted(PRESETS.items(), key=lambda item: -len(item[1]))
        if all(fields.get(field) == value for field, value in changes.items())
    )
    base = {name: _plain(info.default) for name, info in Settings.model_fields.items()} | changes
    changed = {n: v for n, v in fields.items() if v is not None and v != base[n]}
    numbers = {
        name: value
        for name, value in evidence.settings.items()
        if name in OTHER_NUMBERS
        and name != "reward_scale"
        and value != RunValues.model_fields[name].default
    }
    parts = as_flags({**changed, **numbers})
    return " ".join([f"--preset {preset}", *parts] if changes else parts)


def _plain(value: Any) -> Any:
    """Return widths of layers as the command line writes them, whatever form they have."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return value.replace(" x ", ",") if isinstance(value, str) else value


def as_flags(fields: Mapping[str, Any]) -> list[str]:
    """Return fields as the command line takes them, quoted for a shell."""
    out = []
    for name, value in fields.items():
        text = str(value).lower() if isinstance(value, bool) else str(_plain(value))
        out.append(f"--{name.replace('_', '-')} {shlex.quote(text)}")
    return out
