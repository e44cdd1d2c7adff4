"""The data structure everything else works on: one algorithm's runs on its grid of temperatures.

An *algorithm* is everything that a run is except its environment, temperatures and seed. Its
*landscape* holds the normalised returns of its runs as [alpha, lam, env, seed, evaluation], with
NaN where there is no return, and says of every slot what became of the run. A hole in the grid is
a cell without runs; nothing is dropped silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from mirrorax.analysis import columns
from mirrorax.envs.suite import SUITE, estimated_bounds
from mirrorax.errors import UserError, unknown

Evaluation = Literal["stochastic", "greedy"]
Diverged = Literal["lowest", "exclude"]
Cells = Literal["positive", "all"]

ABSENT, DONE, DIVERGED, FAILED = 0, 1, 2, 3
LEARNED = ("learned", "learned_linear")


@dataclass(frozen=True)
class Environment:
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


@dataclass(frozen=True, eq=False)
class Landscape:
    """One algorithm's runs. `alphas` are values of `axis`: alpha, or w where alpha is learned."""

    settings: Mapping[str, Any]
    label: str
    axis: Literal["alpha", "w"]
    alphas: Float[np.ndarray, " alpha"]
    lams: Float[np.ndarray, " lam"]
    environments: tuple[Environment, ...]
    seeds: Int[np.ndarray, "alpha lam env seed"]
    state: Int[np.ndarray, "alpha lam env seed"]
    stochastic: Float[np.ndarray, "alpha lam env seed evaluation"]
    greedy: Float[np.ndarray, "alpha lam env seed evaluation"]
    rows: Int[np.ndarray, "alpha lam env seed"]  # of the table; -1 where there is no run
    # Runs with a return that is not finite, though not marked as diverged.
    unflagged: Bool[np.ndarray, "alpha lam env seed"]

    def runs(
        self, evaluation: Evaluation = "stochastic", diverged: Diverged = "lowest"
    ) -> Float[np.ndarray, "alpha lam env seed"]:
        """Return each run's score: the mean of its normalised returns, not clipped.

        A diverged run counts with the lowest return, 0 after normalisation, or, with
        `diverged="exclude"`, like a run that is missing. Missing and failed runs are NaN.
        """
        if evaluation not in ("stochastic", "greedy"):
            raise unknown("evaluation", evaluation, ("stochastic", "greedy"))
        if diverged not in ("lowest", "exclude"):
            raise unknown("diverged", diverged, ("lowest", "exclude"))
        returns = self.stochastic if evaluation == "stochastic" else self.greedy
        given = np.isfinite(returns)
        total = np.sum(np.where(given, returns, 0.0), axis=-1)
        count = given.sum(axis=-1)
        score = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
        score[self.state != DONE] = np.nan
        if diverged == "lowest":
            score[self.state == DIVERGED] = 0.0
        return score

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

    def cells(self, which: Cells = "positive") -> Bool[np.ndarray, "alpha lam"]:
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
        return replace(
            self,
            environments=tuple(self.environments[i] for i in index),
            seeds=self.seeds[:, :, index],
            state=self.state[:, :, index],
            stochastic=self.stochastic[:, :, index],
            greedy=self.greedy[:, :, index],
            rows=self.rows[:, :, index],
            unflagged=self.unflagged[:, :, index],
        )


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


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _labels(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name each algorithm by its pair, its schedules, and any setting that most others lack."""
    names = [name for name in columns.ALGORITHM if any(name in each for each in settings)]
    usual = {
        name: Counter(str(each.get(name)) for each in settings).most_common(1)[0][0]
        for name in names
        if name not in ("potential", "drift", "alpha_schedule", "lam_schedule")
    }
    out = []
    for each in settings:
        label = f"({each['potential']}, {each['drift']})"
        schedule = (each.get("alpha_schedule", "constant"), each.get("lam_schedule", "constant"))
        if schedule != ("constant", "constant"):
            label += f" alpha {schedule[0]}, lam {schedule[1]}"
        others = [name for name in usual if str(each.get(name)) != usual[name]]
        if others:
            label += " [" + ", ".join(f"{n}={_value(each.get(n))}" for n in others) + "]"
        out.append(label)
    return out


def _groups(table: pa.Table, names: Sequence[str]) -> tuple[Int[np.ndarray, " rows"], list[Any]]:
    """Number the rows by their values in several columns; return also the values of each group."""
    key = np.zeros(table.num_rows, dtype=np.int64)
    values: dict[str, tuple[Int[np.ndarray, " rows"], list[Any]]] = {}
    for name in names:
        number, distinct = columns.codes(table.column(name))
        values[name] = (number, distinct)
        if len(distinct) > 1:
            key = np.unique(key * len(distinct) + number, return_inverse=True)[1]
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return group, [{n: d[int(c[i])] for n, (c, d) in values.items()} for i in first]


def _environments(
    table: pa.Table,
) -> tuple[Int[np.ndarray, " rows"], list[Environment]]:
    names = [n for n in ("environment", "reward_scale") if n in table.column_names]
    group, values = _groups(table, names)
    low, high = columns.numbers(table, "return_min"), columns.numbers(table, "return_max")
    estimated = columns.matches(table, "bounds_source", "estimated")
    out = []
    for i, value in enumerate(values):
        if (estimated & (group == i)).any():
            out.append(_estimated(table, group == i, value))
            continue
        mine = (group == i) & (np.isfinite(low) | np.isfinite(high))  # a failed run may lack them
        bounds = np.unique(np.stack([low[mine], high[mine]], axis=1), axis=0)
        name = str(value["environment"])
        scale = value.get("reward_scale")
        scale = 1.0 if scale is None else float(scale)
        if len(bounds) == 0:
            out.append(Environment(name, scale, np.nan, np.nan))
            continue
        if len(bounds) > 1:
            raise UserError(
                f"return_min, return_max: {name} has {len(bounds)} different pairs of bounds in "
                "this store, so its returns cannot be put on one scale"
            )
        lower, upper = float(bounds[0, 0]), float(bounds[0, 1])
        if not (np.isfinite(lower) and np.isfinite(upper) and lower < upper):
            raise UserError(
                f"return_min, return_max: {name} has {lower} and {upper}; "
                "two finite numbers in ascending order are needed"
            )
        out.append(Environment(name, scale, lower, upper))
    placed = sorted(range(len(out)), key=lambda i: order(out[i]))
    return np.argsort(placed)[group], [out[i] for i in placed]


def _estimated(
    table: pa.Table, mine: Bool[np.ndarray, " rows"], value: Mapping[str, Any]
) -> Environment:
    """Return an environment whose bounds nobody knows, with those its runs suggest."""
    low = columns.numbers(table, "return_min")[mine]
    scale = value.get("reward_scale")
    name, scale = str(value["environment"]), 1.0 if scale is None else float(scale)
    if not np.isfinite(low).any():  # nothing but failed runs
        return Environment(name, scale, np.nan, np.nan, "estimated")
    part = table.filter(pa.array(mine))
    drawn, greedy = (columns.matrix(part, kind) for kind in ("returns", "greedy_returns"))
    state, _ = _state(part, drawn, greedy)
    best = -np.inf
    for returns, lengths in (drawn, greedy):
        held = (state == DONE) & (lengths > 0)  # a diverged run has no best return
        sums = np.nansum(returns[held], axis=1)
        best = max(best, float((sums / lengths[held]).max(initial=-np.inf)))
    return Environment(name, scale, *estimated_bounds(float(np.nanmin(low)), best), "estimated")


def order(environment: Environment) -> tuple[int, str, float]:
    """Return a key to sort by: the suite, then others by name, then rescaled ones."""
    known = SUITE.index(environment.name) if environment.name in SUITE else len(SUITE)
    rescaled = environment.reward_scale != 1
    return (known + 100 * rescaled, environment.name, environment.reward_scale)


def _temperatures(
    table: pa.Table, group: Int[np.ndarray, " rows"], settings: Sequence[Mapping[str, Any]]
) -> Float[np.ndarray, " rows"]:
    learned = np.array([s.get("alpha_schedule", "constant") in LEARNED for s in settings])
    alpha, w = columns.numbers(table, "alpha"), columns.numbers(table, "w")
    value = np.where(learned[group], w, alpha)
    for name, values in (("alpha" if not learned.all() else "w", value), ("lam", None)):
        checked = columns.numbers(table, "lam") if values is None else values
        bad = ~np.isfinite(checked) | (checked < 0)
        if bad.any():
            raise UserError(
                f"{name}: {int(bad.sum())} runs have a value that is missing, negative or not "
                "finite, so they have no place on a grid of temperatures"
            )
    return value


def landscapes(table: pa.Table) -> tuple[Landscape, ...]:
    """Sort a store's runs into one landscape per algorithm, constant temperatures first."""
    columns.require(table)
    table = columns.telling_plugins(table)
    names = [name for name in columns.ALGORITHM if name in table.column_names]
    group, settings = _groups(table, names)
    env, environments = _environments(table)
    alpha = _temperatures(table, group, settings)
    lam = columns.numbers(table, "lam")
    seed = columns.whole_numbers(table, "seed")
    low = np.array([e.return_min for e in environments])[env][:, None]
    high = np.array([e.return_max for e in environments])[env][:, None]
    raw, greedy_raw = columns.matrix(table, "returns"), columns.matrix(table, "greedy_returns")
    state, unflagged = _state(table, raw, greedy_raw)
    stochastic = (raw[0] - low) / (high - low)
    greedy = (greedy_raw[0] - low) / (high - low)
    out = []
    for i, label in enumerate(_labels(settings)):
        mine = np.flatnonzero(group == i)
        out.append(
            _landscape(
                settings[i],
                label,
                mine,
                (alpha[mine], lam[mine], env[mine], seed[mine]),
                environments,
                (state[mine], stochastic[mine], greedy[mine], unflagged[mine]),
            )
        )
    return tuple(sorted(out, key=lambda item: (_scheduled(item.settings), item.label)))


def _scheduled(settings: Mapping[str, Any]) -> bool:
    names = ("alpha_schedule", "lam_schedule")
    return any(settings.get(name, "constant") != "constant" for name in names)


def _state(
    table: pa.Table,
    stochastic: tuple[Float[np.ndarray, "rows evaluations"], Int[np.ndarray, " rows"]],
    greedy: tuple[Float[np.ndarray, "rows evaluations"], Int[np.ndarray, " rows"]],
) -> tuple[Int[np.ndarray, " rows"], Bool[np.ndarray, " rows"]]:
    """Say what became of each run, and which diverged without being marked so.

    A finished run with a return that is not finite counts as diverged: leaving it out, or leaving
    out the evaluations that are NaN, would make its cell look better than it is.
    """
    state = np.full(table.num_rows, DONE, dtype=np.int8)
    given = stochastic[1] > 0
    for returns, lengths in (stochastic, greedy):
        given &= np.isfinite(returns).sum(axis=1) == lengths
    diverged = columns.numbers(table, "diverged", default=0.0) == 1
    state[diverged | ~given] = DIVERGED
    failed = np.zeros(table.num_rows, dtype=bool)
    if "status" in table.column_names:
        number, values = columns.codes(table.column("status"))
        failed = np.isin(number, [k for k, v in enumerate(values) if v != "done"])
        state[failed] = FAILED
    return state, ~given & ~diverged & ~failed


def _landscape(
    settings: Mapping[str, Any],
    label: str,
    rows: Int[np.ndarray, " runs"],
    keys: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    environments: Sequence[Environment],
    results: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
) -> Landscape:
    alpha, lam, env, seed = keys
    state, stochastic, greedy, unflagged = results
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
        axis="w" if settings.get("alpha_schedule") in LEARNED else "alpha",
        alphas=alphas,
        lams=lams,
        environments=tuple(environments[i] for i in present),
        seeds=place(seed, -1),
        state=place(state, ABSENT),
        stochastic=place(stochastic, np.nan),
        greedy=place(greedy, np.nan),
        rows=place(rows, -1),
        unflagged=place(unflagged, False),
    )
