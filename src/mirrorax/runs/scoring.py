"""What the returns of runs count as: bounds, normalised returns, scores.

A return is normalised between two bounds: the lowest return counts as 0, the highest as 1. They are
known beforehand, or estimated: a random policy's mean return, and the best mean return of a run
among those that are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from mirrorax.envs.suite import SUITE, estimated_bounds, normalize
from mirrorax.errors import UserError, unknown
from mirrorax.runs.arrow import Lists, read_lists
from mirrorax.runs.results import Results

Diverged = Literal["lowest", "exclude"]

#: What became of a run.
ABSENT, DONE, DIVERGED, FAILED = 0, 1, 2, 3


@dataclass(frozen=True)
class ScoredEnvironment:
    """Where runs were made: a name, the factor on its rewards, and the returns that are 0 and 1."""

    name: str
    reward_scale: float
    return_min: float
    return_max: float
    #: "known", or "estimated": a random policy's return and the best return of a run that was seen
    bounds_source: str = "known"

    @property
    def label(self) -> str:
        """The name, with the reward scale where it is not 1."""
        return self.name if self.reward_scale == 1 else f"{self.name} x {self.reward_scale:g}"

    @property
    def order(self) -> tuple[int, str, float]:
        """A key to sort by: the suite, then others by name, then rescaled ones."""
        known = SUITE.index(self.name) if self.name in SUITE else len(SUITE)
        return (known + 100 * (self.reward_scale != 1), self.name, self.reward_scale)


@dataclass(frozen=True, eq=False)
class Scored:
    """Runs with their normalised returns. Lists of different lengths are padded with NaN."""

    environments: tuple[ScoredEnvironment, ...]
    #: of each run, its place in `environments`
    environment: Int[np.ndarray, " runs"]
    state: Int[np.ndarray, " runs"]
    #: runs with a return that is not finite, though not marked as diverged
    unflagged: Bool[np.ndarray, " runs"]
    stochastic: Float[np.ndarray, "runs evaluations"]
    greedy: Float[np.ndarray, "runs evaluations"]


def run_scores(
    returns: Float[np.ndarray, "*runs evaluations"],
    state: Int[np.ndarray, "*runs"],
    diverged: Diverged = "lowest",
) -> Float[np.ndarray, "*runs"]:
    """Return each run's score: the mean of its normalised returns, not clipped.

    A diverged run counts with the lowest return, 0 after normalisation, or, with
    `diverged="exclude"`, like a run that is missing. Missing and failed runs are NaN.
    """
    if diverged not in ("lowest", "exclude"):
        raise unknown("diverged", diverged, ("lowest", "exclude"))
    held = np.isfinite(returns)
    total = np.sum(np.where(held, returns, 0.0), axis=-1)
    count = held.sum(axis=-1)
    score = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    score[state != DONE] = np.nan
    if diverged == "lowest":
        score[state == DIVERGED] = 0.0
    return score


def scored(results: Results) -> Scored:
    """Normalise the returns of all runs; raise `UserError` where they have no common scale."""
    returns, greedy = (read_lists(results.rows[name]) for name in ("returns", "greedy_returns"))
    state, unflagged = _state(results, returns, greedy)
    which, environments = _environments(results, state, returns, greedy)
    low = np.array([e.return_min for e in environments])[which][:, None]
    high = np.array([e.return_max for e in environments])[which][:, None]
    return Scored(
        tuple(environments),
        which,
        state,
        unflagged,
        normalize(returns[0], (low, high)),
        normalize(greedy[0], (low, high)),
    )


def _state(
    results: Results, returns: Lists, greedy: Lists
) -> tuple[Int[np.ndarray, " runs"], Bool[np.ndarray, " runs"]]:
    """Say what became of each run, and which diverged without being marked so.

    A finished run with a return that is not finite counts as diverged: leaving it out, or leaving
    out the evaluations that are NaN, would make its cell look better than it is.
    """
    finite = returns[1] > 0
    for values, lengths in (returns, greedy):
        finite &= np.isfinite(values).sum(axis=1) == lengths
    state = np.full(len(results), DONE, dtype=np.int8)
    state[results.diverged | ~finite] = DIVERGED
    state[~results.done] = FAILED
    return state, ~finite & ~results.diverged & results.done


def _environments(
    results: Results, state: Int[np.ndarray, " runs"], returns: Lists, greedy: Lists
) -> tuple[Int[np.ndarray, " runs"], list[ScoredEnvironment]]:
    """Return the environments of the runs with their bounds, sorted, and that of each run."""
    names, number = np.unique(
        np.array([c.settings.environment for c in results.configurations], object),
        return_inverse=True,
    )
    scale = results.numbers("reward_scale")
    scales, at = np.unique(scale, return_inverse=True)
    keys, group = np.unique(number[results.configuration] * len(scales) + at, return_inverse=True)
    chosen = []
    for k, key in enumerate(keys.tolist()):
        mine = np.flatnonzero(group == k)
        name, factor = str(names[key // len(scales)]), float(scales[key % len(scales)])
        pairs = {results.origins[i].bounds for i in np.unique(results.origin[mine])} - {None}
        best = _best(state[mine], *((v[mine], n[mine]) for v, n in (returns, greedy)))
        chosen.append(_scored_environment(name, factor, pairs, best))
    placed = sorted(range(len(chosen)), key=lambda i: chosen[i].order)
    return np.argsort(placed)[group], [chosen[i] for i in placed]


def _scored_environment(
    name: str, scale: float, pairs: set[tuple[float, float | None] | None], best: float
) -> ScoredEnvironment:
    known = {pair for pair in pairs if pair is not None}
    if not known:  # nothing but failed runs
        return ScoredEnvironment(name, scale, np.nan, np.nan)
    if any(high is None for _, high in known):
        low = min(low for low, _ in known)
        return ScoredEnvironment(name, scale, *estimated_bounds(scale * low, best), "estimated")
    if len(known) > 1:
        raise UserError(
            f"return_min, return_max: {name} has {len(known)} different pairs of bounds, so its "
            "returns cannot be put on one scale"
        )
    ((low, high),) = known
    assert high is not None
    return ScoredEnvironment(name, scale, scale * low, scale * high)


def _best(state: Int[np.ndarray, " runs"], *kinds: Lists) -> float:
    """Return the best mean return of a run; a diverged run has none."""
    best = -np.inf
    for values, lengths in kinds:
        held = (state == DONE) & (lengths > 0)
        sums = np.nansum(values[held], axis=1)
        best = max(best, float((sums / lengths[held]).max(initial=-np.inf)))
    return best
