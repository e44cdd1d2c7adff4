"""How far suggestions can be trusted: leave each environment out and predict it from the others.

The rows are of one pair each: its cell is chosen without a look at the environment. `joint` are
those in which the pair is chosen without a look, too, as `suggest` does for a new environment. The
plain default stands beside them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirrorax.analysis.scores import rbst, reaches
from mirrorax.errors import UserError
from mirrorax.formatting import Shown
from mirrorax.runs.settings import RunValues, Settings
from mirrorax.tuning.evidence import Evidence, ScoreMap
from mirrorax.tuning.prediction import Prediction, at_nearest, combine, grid_of, mean_of

THRESHOLD = 0.9
#: What is trained unless told otherwise.
DEFAULT_PAIR = Settings.model_fields["potential"].default, Settings.model_fields["drift"].default
DEFAULT_CELL = RunValues.model_fields["alpha"].default, RunValues.model_fields["lam"].default


@dataclass(frozen=True)
class LeftOut:
    """What was suggested for an environment without a look at it, and how good that is there."""

    potential: str
    drift: str
    environment: str
    alpha: float
    lam: float
    score: float  # there, at the suggested cell
    best: float  # the best cell there
    success: bool  # the suggested cell is in the good region
    random: float  # the share of the cells it could have been that are: the chance of a draw
    fixed: bool  # whether the best single cell for all environments, this one included, is
    default: bool | None  # whether the default pair and cell is; None if nothing near was measured


@dataclass(frozen=True, repr=False)
class Validation(Shown):
    """All environments left out, and the rates."""

    threshold: float
    rows: tuple[LeftOut, ...]
    joint: tuple[LeftOut, ...] = ()

    @property
    def suggested(self) -> float:
        """The share of suggestions that fell into the good region."""
        return float(np.mean([row.success for row in self.rows]))

    @property
    def random(self) -> float:
        """The chance of a random cell."""
        return float(np.mean([row.random for row in self.rows]))

    @property
    def fixed(self) -> float:
        """The share of environments in which the best single cell is good."""
        return float(np.mean([row.fixed for row in self.rows]))

    @property
    def default(self) -> float:
        """The share of environments in which the plain default is good; NaN if not measured."""
        known = [row.default for row in self.rows if row.default is not None]
        return float(np.mean(known)) if known else float("nan")

    def of(self, pair: tuple[str, str] | None) -> Validation | None:
        """Return the part about one pair, or about the chosen ones if it is None."""
        mine = tuple(row for row in self.rows if (row.potential, row.drift) == pair)
        rows = self.joint if pair is None else mine
        return Validation(self.threshold, rows) if rows else None


def validate(evidence: Evidence, threshold: float = THRESHOLD) -> Validation:
    """Leave each environment of each pair out in turn and predict it from the other families.

    A cell is good where its score reaches the threshold. The best single cell is the one with the
    best mean over all environments: it has seen the one that is left out, the suggestion has not.
    An environment without any good cell cannot be hit and is not counted.
    """
    if not 0 < threshold <= 1:
        raise UserError(f"threshold: {threshold!r} is not allowed: above 0, at most 1")
    defaults = default_scores(evidence)
    fixed = {pair: _best_single(evidence.of(pair)) for pair in evidence.pairs}

    def good_enough(score: float) -> bool:
        return bool(reaches(np.array(score), threshold))

    def row(each: ScoreMap, prediction: Prediction) -> LeftOut:
        good = reaches(each.scores, threshold)
        eligible = np.isfinite(each.scores) & np.isfinite(prediction.scores)
        default, cell = defaults.get(each.environment), fixed[each.pair]
        return LeftOut(
            *each.pair,
            environment=each.environment,
            alpha=prediction.alpha,
            lam=prediction.lam,
            score=float(each.scores[prediction.cell]),
            best=float(np.nanmax(each.scores)),
            success=bool(good[prediction.cell]),
            random=float(good[eligible].mean()),
            fixed=cell is not None and good_enough(score_at(each, *cell)),
            default=None if default is None else good_enough(default),
        )

    def rows(pair: tuple[str, str] | None = None) -> tuple[LeftOut, ...]:
        pairs = left_out(evidence, pair)
        return tuple(row(m, p) for m, p in pairs if reaches(m.scores, threshold).any())

    fixed_pairs = tuple(made for pair in evidence.pairs for made in rows(pair))
    if not fixed_pairs:
        raise UserError(
            f"results: nothing to validate: no pair with two families of environments of which "
            f"one has a cell that reaches {threshold:g}"
        )
    return Validation(threshold, fixed_pairs, rows())


def left_out(
    evidence: Evidence, pair: tuple[str, str] | None = None
) -> Iterator[tuple[ScoreMap, Prediction]]:
    """Leave each family out and predict it from the others, on its own grid.

    The pair is chosen on the others, too, unless it is given.
    """
    for family in dict.fromkeys(each.family for each in evidence.maps):
        rest = Evidence(tuple(each for each in evidence.maps if each.family != family))
        if not rest.maps:
            continue
        chosen = pair or best_pair(rest)
        known = rest.of(chosen)
        for each in evidence.of(chosen):
            if known and each.family == family:
                measured = np.isfinite(each.scores)
                prediction = combine(known, each.alphas, each.lams, measured)
                if prediction is not None:
                    yield each, prediction


def left_out_score(evidence: Evidence, pair: tuple[str, str] | None = None) -> float:
    """Return the mean score of cells that were suggested without a look; NaN if none was."""
    scores = [float(each.scores[p.cell]) for each, p in left_out(evidence, pair)]
    return float(np.mean(scores)) if scores else float("nan")


def best_pair(evidence: Evidence) -> tuple[str, str]:
    """Return the pair whose cells, chosen without a look at an environment, score best there.

    Only pairs with as many environments as any other are compared. Without a second family, and
    between equals, Rbst decides.
    """
    count = Counter(each.pair for each in evidence.maps)
    rank = pair_rbst(evidence)
    return max(
        (pair for pair in count if count[pair] == max(count.values())),
        key=lambda p: (np.nan_to_num(left_out_score(evidence, p), nan=-1.0), rank.get(p, 0.0)),
    )


def pair_rbst(evidence: Evidence) -> dict[tuple[str, str], float]:
    """Return Rbst of each pair over the environments and cells that all pairs have.

    It is what `mirrorax robustness` shows of the same results; empty if nothing is shared.
    """
    pairs = evidence.pairs
    names = [{m.environment for m in evidence.maps if m.pair == p} for p in pairs]
    shared = set.intersection(*names)
    tables = [(m.pair, m.by_cell()) for m in evidence.maps if m.environment in shared]
    common = set.intersection(*(set(cells) for _, cells in tables)) if tables else set()
    if not common:
        return {}
    out = {}
    for pair in pairs:
        scores = [[cells[c] for c in sorted(common)] for p, cells in tables if p == pair]
        out[pair] = rbst(np.mean(scores, axis=0), THRESHOLD)
    return out


def default_scores(evidence: Evidence) -> dict[str, float]:
    """Return what the default pair scores at the default temperatures, by environment.

    The nearest measured cell counts, if it is near enough.
    """
    maps = evidence.of(DEFAULT_PAIR)
    scores = {each.environment: score_at(each, *DEFAULT_CELL) for each in maps}
    return {name: score for name, score in scores.items() if np.isfinite(score)}


def score_at(each: ScoreMap, alpha: float, lam: float) -> float:
    """Return the score of the nearest measured cell; NaN if none is near."""
    return float(at_nearest(each, np.array([alpha]), np.array([lam]))[0][0, 0])


def _best_single(maps: Sequence[ScoreMap]) -> tuple[float, float] | None:
    """Return the temperatures with the best mean over all maps, of those measured in each."""
    alphas, lams = grid_of(maps)
    scores = mean_of(maps, alphas, lams)[0]
    if not np.isfinite(scores).any():
        return None
    i, j = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    return float(alphas[i]), float(lams[j])
