"""`suggest`: regularisers and temperatures for a task, from results, with the reasons."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from mirrorax.envs import suite
from mirrorax.errors import UserError, nearest
from mirrorax.formatting import Shown, as_flags, counted
from mirrorax.regularizers.names import parse_drift, parse_potential, sees_advantages
from mirrorax.runs.presets import PRESETS
from mirrorax.runs.settings import DEFAULTS, RunValues, Settings, changed
from mirrorax.tuning.evidence import Evidence, ScoreMap, describe, family, of_results
from mirrorax.tuning.prediction import Prediction, combine, grid_of, mean_of
from mirrorax.tuning.validation import (
    DEFAULT_CELL,
    DEFAULT_PAIR,
    THRESHOLD,
    best_pair,
    default_scores,
    left_out_score,
    pair_rbst,
    score_at,
    validate,
)

#: What a suggestion rests on, from the firmest to the weakest.
Basis = Literal["measured", "same family", "other environments"]


@dataclass(frozen=True, repr=False)
class Suggestion(Shown):
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

    def _summary(self) -> tuple[str, list[list[str]]]:
        pair = f"({self.potential}, {self.drift}) on {self.environment}"
        rows = [
            [name, f"{value:.3g}", f"{low:.3g} to {high:.3g}"]
            for name, value, (low, high) in (
                ("alpha", self.alpha, self.alpha_range),
                ("lam", self.lam, self.lam_range),
            )
        ]
        return f"{pair}. {self.sure}", [["", "suggested", "worth a search"], *rows]

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
    exports to learn from in place of the shipped runs.
    """
    name, remark = _name(env)
    factor = _factor(name, max_return, reward_scale)
    known = of_results(results) if evidence is None else evidence
    reasons = [remark] if remark else []
    reasons.append(f"The results: {describe(known)}.")
    maps, pair = _choose_pair(known, potential, drift, reasons)
    if factor != 1:
        reasons.append(
            f"Rewards times {factor:g}: alpha and lam times {factor:g}, because the mirror step is "
            "the same when Q, alpha and lam are multiplied by one number."
        )
    prediction, basis = _predict(name, maps, reasons)
    spans = prediction.ranges()
    cell, score = (prediction.alpha, prediction.lam), prediction.score
    free = potential is None and drift is None
    if basis == "other environments" and free:
        default = _default_instead(known, reasons)
        if default is not None:
            pair, cell, score = DEFAULT_PAIR, DEFAULT_CELL, default
            pairs = zip(spans, cell, strict=True)
            spans = [(min(low, value), max(high, value)) for (low, high), value in pairs]
    if cell == (prediction.alpha, prediction.lam) and prediction.at_edge:
        reasons.append(
            f"The cell is at the edge of what was measured in {' and '.join(prediction.at_edge)}: "
            "better ones may lie beyond."
        )

    def scaled(pair: tuple[float, float]) -> tuple[float, float]:
        first, second = (float(f"{value * factor:.2g}") for value in pair)
        return first, second

    alpha, lam = scaled(cell)
    if basis == "measured":
        sure = _sure_of_measured(name, maps, prediction)
    else:
        sure = _sure_of_others(basis, maps, known, pair, free)
    rewards = {} if reward_scale == 1 else {"reward_scale": float(reward_scale)}
    return Suggestion(
        environment=name,
        potential=pair[0],
        drift=pair[1],
        alpha=alpha,
        lam=lam,
        alpha_range=scaled(spans[0]),
        lam_range=scaled(spans[1]),
        basis=basis,
        score=score,
        settings=" ".join([flags(known), *as_flags(rewards)]).strip(),
        reasons=tuple(reasons),
        sure=sure,
    )


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
    number = isinstance(max_return, int | float | np.number) and not isinstance(max_return, bool)
    if not number or not math.isfinite(max_return):
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
    some = Evidence(tuple(each for each in evidence.maps if each.pair in fitting))
    pair = best_pair(some)
    maps, ranks = evidence.of(pair), pair_rbst(evidence)
    score = left_out_score(evidence, pair)
    said = []
    if math.isfinite(score):
        said.append(f"cells chosen without a look at an environment scored {score:.3f} there")
    if pair in ranks:
        place = 1 + sum(value > ranks[pair] for value in ranks.values())
        rank = f", number {place} of {len(ranks)}" if len(ranks) > 1 else ""
        said.append(f"its Rbst_{THRESHOLD:g} is {ranks[pair]:.3f}{rank}")
    head = f"Of {len(fitting)} pairs measured it carries over best"
    if h is not None and d is not None:
        head = "The pair was given"
    elif len(fitting) == 1:
        head = "The results have one pair to choose from"
    reasons.append(f"{head}{': ' if said else ''}{'; '.join(said)}.")
    return maps, pair


def _default_instead(evidence: Evidence, reasons: list[str]) -> float | None:
    """Return what the default scores, if no less than pair and cell chosen without a look."""
    scores, chosen = list(default_scores(evidence).values()), left_out_score(evidence)
    default = float(np.mean(scores)) if scores else math.nan
    if not default >= chosen:
        return None
    reasons.append(
        f"The defaults scored {default:.3f} on average where they were measured; pair and cell "
        f"chosen without a look at the environment {chosen:.3f}: so the defaults are suggested."
    )
    return default


def _pooled(maps: Sequence[ScoreMap]) -> list[ScoreMap]:
    """Average the maps of all pairs, environment by environment."""
    out = []
    for name in dict.fromkeys(each.environment for each in maps):
        same = [each for each in maps if each.environment == name]
        alphas, lams = grid_of(same)
        scores, runs = mean_of(same, alphas, lams)
        out.append(replace(same[0], alphas=alphas, lams=lams, scores=scores, runs=runs))
    return out


def _predict(name: str, maps: Sequence[ScoreMap], reasons: list[str]) -> tuple[Prediction, Basis]:
    """Predict from the environment itself, or its other sizes, and from all others."""
    own = [each for each in maps if each.environment == name]
    kin = [each for each in maps if each.family == family(name)]
    basis: Basis = "measured" if own else "same family" if kin else "other environments"
    # Cells of the environment itself, where there are any; all environments have a say.
    prediction = combine(maps, *grid_of(own or kin or maps), own=own or kin)
    names = ", ".join(dict.fromkeys(each.environment for each in own or kin or maps))
    if prediction is None:
        raise UserError(f"results: no cell was measured in all of these together: {names}")
    runs = counted(sum(int(each.runs.sum()) for each in own or kin or maps), "run")
    if basis == "other environments":
        reasons.append(
            f"{name} was not measured: the cell is the best single one for {names}. The size of "
            "its returns is not used."
        )
    else:
        rest = ""
        if prediction.own < 1:
            rest = (
                f", which count with {prediction.own:.0%} at the cell, and all environments with "
                "the rest: the fewer and noisier its runs, the less they count"
            )
        reasons.append(f"{runs} on {names}{' itself' if own else ''}{rest}.")
    return prediction, basis


def alike(settings: Settings, evidence: Evidence) -> bool:
    """Whether evidence was measured under conditions like those of some settings.

    Steps and gradient steps must be within a factor of two, and temperatures in the same unit.
    """
    theirs = Settings.model_construct(**evidence.settings)  # of any environment
    same = ("algorithm", "temperature_units", "alpha_schedule", "lam_schedule")
    if any(getattr(theirs, name) != getattr(settings, name) for name in same):
        return False
    batches, other = (each.updates * each.batches_per_update for each in (settings, theirs))
    return all(0.5 <= ratio <= 2 for ratio in (settings.steps / theirs.steps, batches / other))


def _sure_of_measured(name: str, maps: Sequence[ScoreMap], prediction: Prediction) -> str:
    (own,) = (each for each in maps if each.environment == name)
    measured = score_at(own, prediction.alpha, prediction.lam)
    cells = int(np.isfinite(own.scores).sum())
    return (
        f"Measured: {measured:.3f} at this cell. It was chosen among {cells} cells, so that is "
        "a little optimistic."
    )


def _sure_of_others(
    basis: Basis, maps: Sequence[ScoreMap], evidence: Evidence, pair: tuple[str, str], free: bool
) -> str:
    """Say how well the pair carries over, or the choice of a pair where that is free."""
    try:
        whole = validate(evidence)
        checked = whole.of(None if free and whole.joint else pair)
    except UserError:
        checked = None
    if checked is None:
        families = len({each.family for each in maps})
        tail = "" if families > 1 else " There is no second environment to test predictions on."
        return f"Weak: nothing shows how well results carry over.{tail}"
    hits = sum(row.success for row in checked.rows)
    default = "" if math.isnan(checked.default) else f", the plain default in {checked.default:.0%}"
    head = "Fair: another size of it was measured." if basis == "same family" else "Weak."
    return (
        f"{head} Left out in turn, {hits} of {len(checked.rows)} environments were hit: the "
        f"suggested cell reached {checked.threshold:g} there. A random cell does so with "
        f"{checked.random:.0%}, the best single cell for all in {checked.fixed:.0%}{default}. "
        f"{len(checked.rows)} environments are few: take it as a start for a search."
    )


def flags(evidence: Evidence) -> str:
    """Return the flags that give `mirrorax train` the settings the results were made with."""
    preset, fields = next(
        (name, fields)
        for name, fields in sorted(PRESETS.items(), key=lambda item: -len(item[1]))
        if all(evidence.settings.get(field) == value for field, value in fields.items())
    )
    more = changed(evidence.settings, {**DEFAULTS, **fields})
    more.pop("eval_every", None)  # curves change nothing
    return " ".join(as_flags({"preset": preset, **more} if fields else more))
