"""The data structure everything else works on: one algorithm's runs on its grid of temperatures.

An *algorithm* is everything that a run is except its environment, temperatures and seed. Its
*landscape* holds the normalised returns of its runs as [alpha, lam, env, seed, evaluation], with
NaN where there is no return, and says of every slot what became of the run. A hole in the grid is
a cell without runs; nothing is dropped silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from mirrorax.analysis.scores import Mask, Runs
from mirrorax.analysis.views import LandscapeView
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import counted
from mirrorax.runs.arrow import Configuration
from mirrorax.runs.results import Results, as_results
from mirrorax.runs.scoring import (
    ABSENT,
    DIVERGED,
    DONE,
    Diverged,
    Scored,
    ScoredEnvironment,
    run_scores,
    scored,
)
from mirrorax.runs.settings import LEARNED, STATIC, TEMPERATURES, TRACED

Evaluation = Literal["stochastic", "greedy"]
Cells = Literal["positive", "all"]
#: The rows and the columns of a grid that are kept.
Lines = tuple[Bool[np.ndarray, " alpha"], Bool[np.ndarray, " lam"]]

#: Values of a run that are part of its algorithm.
_VALUES = tuple(name for name in TRACED if name not in (*TEMPERATURES, "seed", "reward_scale"))
#: What a landscape keeps of each run.
_BY_RUN = ("seeds", "state", "stochastic", "greedy", "rows", "unflagged")
#: The settings that the name of a pair says.
OF_A_PAIR = ("potential", "drift", "alpha_schedule", "lam_schedule")


@dataclass(frozen=True, eq=False, repr=False)
class Landscape(LandscapeView):
    """One algorithm's runs. `alphas` are values of `axis`: alpha, or w where alpha is learned."""

    #: every setting but the environment, learning rates, discount, version of the algorithm
    settings: Mapping[str, Any]
    label: str
    axis: Literal["alpha", "w"]
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    environments: tuple[ScoredEnvironment, ...]
    seeds: Int[np.ndarray, "alpha lam env seed"]
    state: Int[np.ndarray, "alpha lam env seed"]
    stochastic: Float[np.ndarray, "alpha lam env seed evaluation"]
    greedy: Float[np.ndarray, "alpha lam env seed evaluation"]
    rows: Int[np.ndarray, "alpha lam env seed"]  # of the results; -1 where there is no run
    # Runs with a return that is not finite, though not marked as diverged.
    unflagged: Bool[np.ndarray, "alpha lam env seed"]
    #: what `lams` are values of: lam, or v where lambda is learned
    lam_axis: Literal["lam", "v"]
    #: what `rows` are places in
    results: Results

    def runs(self, evaluation: Evaluation = "stochastic", diverged: Diverged = "lowest") -> Runs:
        """Return each run's score: the mean of its normalised returns, not clipped.

        A diverged run counts with the lowest return, 0 after normalisation, or, with
        `diverged="exclude"`, like a run that is missing. Missing and failed runs are NaN.
        """
        if evaluation not in ("stochastic", "greedy"):
            raise unknown("evaluation", evaluation, ("stochastic", "greedy"))
        returns = self.stochastic if evaluation == "stochastic" else self.greedy
        return run_scores(returns, self.state, diverged)

    @cached_property
    def ended(self) -> Bool[np.ndarray, "alpha lam env seed"]:
        """Which runs have a result, diverged ones included."""
        return np.asarray((self.state == DONE) | (self.state == DIVERGED))

    @cached_property
    def counts(self) -> Int[np.ndarray, "alpha lam env"]:
        """How many runs with a result each cell has."""
        return np.sum(self.ended, axis=-1)

    @property
    def expected(self) -> int:
        """How many runs a complete cell has in each environment: the most that any cell has."""
        return int(self.state.shape[-1])

    @property
    def configurations(self) -> list[Configuration]:
        """The settings of its runs, each once."""
        used = np.unique(self.results.configuration[self.rows[self.rows >= 0]])
        return [self.results.configurations[k] for k in used]

    def cells(self, which: Cells = "positive") -> Mask:
        """Return the cells to count: both temperatures positive (the default), or all."""
        if which not in ("positive", "all"):
            raise unknown("cells", which, ("positive", "all"))
        if which == "all":
            return np.ones((len(self.alphas), len(self.lams)), dtype=bool)
        return (self.alphas > 0)[:, None] & (self.lams > 0)[None, :]

    def select(self, environments: Sequence[str] | None) -> Landscape:
        """Return the landscape restricted to environments given by label, in that order.

        One that is named twice counts once.
        """
        if environments is None:
            return self
        environments = tuple(dict.fromkeys(environments))
        labels = [environment.label for environment in self.environments]
        for name in environments:
            if name not in labels:
                raise unknown("environment", name, labels)
        if not environments:
            raise UserError("environments: at least one is needed")
        index = [labels.index(name) for name in environments]
        chosen = tuple(self.environments[i] for i in index)
        return replace(self, environments=chosen, **self._part((slice(None), slice(None), index)))

    def crop(self, rows: np.ndarray, columns: np.ndarray) -> Landscape:
        """Return the landscape on some of its alphas and lambdas, given as masks or places."""
        alphas, lams = self.alphas[rows], self.lams[columns]
        return replace(self, alphas=alphas, lams=lams, **self._part(np.ix_(rows, columns)))

    def keep(self, kept: Bool[np.ndarray, "alpha lam env seed"] | bool = True) -> Landscape:
        """Return the landscape with some of its runs, without slots of seeds that are empty."""
        state = np.where(kept, self.state, ABSENT).astype(self.state.dtype)
        used = (state != ABSENT).any(axis=(0, 1, 2))
        return replace(self, **{**self._part(np.s_[:, :, :, used]), "state": state[..., used]})

    def _part(self, index: Any) -> dict[str, Any]:
        """Return part of everything that is kept by run."""
        return {name: getattr(self, name)[index] for name in _BY_RUN}


def counted_algorithms(items: Sequence[Landscape]) -> str:
    """Return how many algorithms there are: "3 pairs" if no two have the same pair."""
    pairs = {(item.settings["potential"], item.settings["drift"]) for item in items}
    return counted(len(items), "pair" if len(pairs) == len(items) else "algorithm")


def shared_environments(items: Sequence[Landscape]) -> tuple[str, ...]:
    """Return the environments to average over: those every algorithm has, rewards not rescaled.

    Where no algorithm has one with its own rewards, rescaled ones count too.
    """
    if not items:
        raise UserError("store: there is no algorithm to analyse")
    common = [
        environment
        for environment in items[0].environments
        if all(environment.label in {e.label for e in item.environments} for item in items)
    ]
    if not common:
        raise UserError(
            "environments: the algorithms in this store have none in common; "
            "analyse them one by one or name the environments"
        )
    plain = [environment for environment in common if environment.reward_scale == 1]
    return tuple(environment.label for environment in (plain or common))


def map_grid(given: Mask) -> Lines:
    """Return the rows and columns that make a map, without those that hold a few extra cells.

    The emptiest row or column is dropped as long as it has less than half the cells, relative to
    its length, that the whole has. A grid with holes and a strip along each axis stay as they are.
    """
    return _without_emptiest(given, lambda least, whole: least >= whole / 2)


def full_grid(given: Mask) -> Lines:
    """Return the rows and columns of a grid without holes."""
    return _without_emptiest(given, lambda least, whole: least == 1)


def _without_emptiest(given: Mask, enough: Callable[[float, float], bool]) -> Lines:
    """Drop the emptiest row or column until the share of cells it has is enough."""
    rows, columns = np.asarray(given.any(axis=1)), np.asarray(given.any(axis=0))
    while rows.any() and columns.any():
        part = given[np.ix_(rows, columns)]
        by_row, by_column = part.mean(axis=1), part.mean(axis=0)
        if enough(min(by_row.min(), by_column.min()), part.mean()):
            break
        if by_row.min() <= by_column.min():
            rows[np.flatnonzero(rows)[by_row.argmin()]] = False
        else:
            columns[np.flatnonzero(columns)[by_column.argmin()]] = False
    return rows, columns


def setting_text(value: Any) -> str:
    """Return a setting as it is shown: 64 x 64 for a list, few digits for a number."""
    if isinstance(value, tuple | list):
        return " x ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each algorithm by its pair, its schedules, and any setting that most others lack."""
    usual = {
        name: Counter(each[name] for each in settings).most_common(1)[0][0]
        for name in (settings[0] if settings else ())
        if name not in OF_A_PAIR
    }
    labels = []
    for each in settings:
        label = f"({each['potential']}, {each['drift']})"
        schedule = (each["alpha_schedule"], each["lam_schedule"])
        if schedule != ("constant", "constant"):
            label += f" alpha {schedule[0]}, lam {schedule[1]}"
        others = [name for name in usual if each[name] != usual[name]]
        if others:
            label += " [" + ", ".join(f"{n}={setting_text(each[n])}" for n in others) + "]"
        labels.append(label)
    return labels


def _algorithms(
    results: Results, across: Sequence[str]
) -> tuple[Int[np.ndarray, " runs"], list[dict[str, Any]]]:
    """Number the runs by algorithm; return also the settings of each algorithm."""
    left_out = dict.fromkeys(("environment", *across))
    plugins = _telling_plugins(results.configurations)
    shared: dict[Any, int] = {}
    number = []
    for (settings, version), telling in zip(results.configurations, plugins, strict=True):
        same = settings.model_copy(update={**left_out, "plugins": telling})
        number.append(shared.setdefault((same, version), len(shared)))
    key = np.array(number, np.int64)[results.configuration]
    for name in _VALUES:
        distinct, at = np.unique(results.numbers(name), return_inverse=True)
        key = key * len(distinct) + at
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    known = list(shared)
    names = [
        name for name in dict.fromkeys((*OF_A_PAIR, "actor_q", *STATIC)) if name not in left_out
    ]
    algorithms = []
    for row in first.tolist():
        settings, version = known[number[results.configuration[row]]]
        fields = {name: getattr(settings, name) for name in names}
        values = {name: float(results.numbers(name)[row]) for name in _VALUES}
        algorithms.append({**fields, **values, "algorithm_version": version})
    return group, algorithms


def _telling_plugins(configurations: Sequence[Configuration]) -> list[tuple[str, ...]]:
    """Return those plugins of each configuration that tell it from others.

    The plugin of an environment is no part of an algorithm; that of a potential has a name of its
    own there. What is left tells apart runs with different versions of the same plugin.
    """
    used = [frozenset(c.settings.plugins) for c in configurations]
    common: dict[str, frozenset[str]] = {}
    for c, entry in zip(configurations, used, strict=True):
        common[c.settings.environment] = common.get(c.settings.environment, entry) & entry
    versions: dict[str, set[str]] = {}
    for text in frozenset().union(*used):
        versions.setdefault(text.partition("==")[0], set()).add(text)
    several = {text for group in versions.values() if len(group) > 1 for text in group}
    return [
        tuple(sorted((entry - common[c.settings.environment]) & several))
        for c, entry in zip(configurations, used, strict=True)
    ]


def _temperatures(results: Results, name: str, weight: str) -> Float[np.ndarray, " runs"]:
    """Return a temperature, or the weight of its target where it is learned.

    Refuse runs without a place on a grid.
    """
    schedules = [getattr(c.settings, f"{name}_schedule") for c in results.configurations]
    learned = results.of_configurations([schedule in LEARNED for schedule in schedules], bool)
    values = np.where(learned, results.numbers(weight), results.numbers(name))
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        raise UserError(
            f"{weight if learned.all() else name}: {int(bad.sum())} runs have a value that is "
            "missing, negative or not finite, so they have no place on a grid of temperatures"
        )
    return values


def landscapes(runs: Results | pa.Table, across: Sequence[str] = ()) -> tuple[Landscape, ...]:
    """Sort runs into one landscape per algorithm, constant temperatures first.

    `across` names settings that are no part of an algorithm here: with `("steps",)` environments
    that were trained for different lengths are one landscape. A flat table is read by
    `mirrorax.runs.flat.read`.
    """
    results = as_results(runs)
    if len(results) == 0:
        raise UserError("store: it holds no runs yet, so there is nothing to analyse")
    results = results.compact()
    group, settings = _algorithms(results, across)
    heat, lam = _temperatures(results, "alpha", "w"), _temperatures(results, "lam", "v")
    seed = results.rows["seed"].to_numpy()
    scores = scored(results)
    items = [
        _landscape(
            settings[i], label, np.flatnonzero(group == i), (heat, lam, seed), scores, results
        )
        for i, label in enumerate(_labels(settings))
    ]
    return tuple(sorted(items, key=lambda item: (_scheduled(item.settings), item.label)))


def _scheduled(settings: Mapping[str, Any]) -> bool:
    return any(settings[name] != "constant" for name in ("alpha_schedule", "lam_schedule"))


def _landscape(
    settings: Mapping[str, Any],
    label: str,
    rows: Int[np.ndarray, " runs"],
    keys: tuple[np.ndarray, np.ndarray, np.ndarray],
    scores: Scored,
    results: Results,
) -> Landscape:
    """Put some of the runs in their places; `keys` are alpha or w, lam and seed of all runs."""
    alpha, lam, seed = (values[rows] for values in keys)
    env, environments = scores.environment[rows], scores.environments
    alphas, ia = np.unique(alpha, return_inverse=True)
    lams, il = np.unique(lam, return_inverse=True)
    present, ie = np.unique(env, return_inverse=True)
    cell = (ia * len(lams) + il) * len(present) + ie
    order = np.lexsort((seed, cell))
    cell, sorted_seed = cell[order], seed[order]
    twin = (np.diff(cell) == 0) & (np.diff(sorted_seed) == 0)
    if twin.any():
        at = order[int(np.argmax(twin))]
        raise UserError(
            f"store: two runs of {label} have environment={environments[env[at]].label}, "
            f"alpha or w={alpha[at]:g}, lam={lam[at]:g}, seed={seed[at]}; they differ in a "
            "setting this version does not know, or one of them was stored twice"
        )
    # A run's slot is the rank of its seed within its cell, so that cells may use other seeds.
    starts = np.flatnonzero(np.r_[True, np.diff(cell) != 0])
    slot = np.arange(len(cell)) - np.repeat(starts, np.diff(np.r_[starts, len(cell)]))
    shape = (len(alphas), len(lams), len(present), int(slot.max()) + 1)
    index = (ia[order], il[order], ie[order], slot)

    def place(values: np.ndarray, empty: float | int) -> np.ndarray:
        out = np.full(shape + values.shape[1:], empty, dtype=values.dtype)
        out[index] = values[order]
        return out

    return Landscape(
        settings=settings,
        label=label,
        axis="w" if settings["alpha_schedule"] in LEARNED else "alpha",
        alphas=alphas,
        lams=lams,
        environments=tuple(environments[i] for i in present),
        seeds=place(seed, -1),
        state=place(scores.state[rows], ABSENT),
        stochastic=place(scores.stochastic[rows], np.nan),
        greedy=place(scores.greedy[rows], np.nan),
        rows=place(rows, -1),
        unflagged=place(scores.unflagged[rows], False),
        lam_axis="v" if settings["lam_schedule"] in LEARNED else "lam",
        results=results,
    )
