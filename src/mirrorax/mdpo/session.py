"""Training from the host: a session of runs side by side, and `train_chunk`, from chunk to outcome.

A session is trained in segments. Between segments progress is reported, training can be stopped,
and the state can be saved. Where a run is cut into segments never changes its result.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from mirrorax.envs import adapter
from mirrorax.envs.adapter import Environment, Task
from mirrorax.envs.host import Gymnasium
from mirrorax.errors import UserError
from mirrorax.formatting import Shown
from mirrorax.mdpo import checkpoint, host, machine, train
from mirrorax.mdpo.program import (
    Layout,
    Program,
    as_keys,
    default_lanes,
    default_layout,
    make_program,
    make_values,
)
from mirrorax.runs.chunk import Chunk, Outcome, make_chunk
from mirrorax.runs.settings import Settings

#: A segment is cut so that it takes about this long.
SEGMENT_SECONDS = 1.0

#: float32 numbers in a vector of the processor, as XLA uses them
_VECTOR = 8


@dataclass(frozen=True, repr=False)
class SegmentProgress(Shown):
    """What is known between two segments."""

    updates_done: int
    updates_total: int
    seconds: float
    #: the latest point of the learning curves of the runs at hand, as in `curves`: `return`,
    #: `greedy_return`, `update` and, with the setting `eval_every`, what an update reports
    metrics: Mapping[str, Float[np.ndarray, " runs"]] = field(default_factory=dict)
    #: the place of the first of the runs at hand among all runs
    first_run: int = 0

    @property
    def fraction(self) -> float:
        """Between 0 and 1."""
        return self.updates_done / self.updates_total

    @property
    def returns(self) -> Float[np.ndarray, " runs"] | None:
        """The mean return of the last evaluation of every run, or None before the first."""
        return self.metrics.get("return")


@dataclass(repr=False)
class Session(Shown):
    """Runs with one program, at most `lanes` of them; the rest of the lanes is padding."""

    chunk: Chunk
    layout: Layout = field(default_factory=default_layout)
    #: made from the settings unless given
    program: Program = field(default=None)  # type: ignore[assignment]
    #: evaluate every so many updates along the way; the settings' `eval_every` unless given.
    #: Unlike that field it is no part of a run's specification: looking does not change a run.
    evaluate_every: int | None = None
    curves: dict[str, list[np.ndarray]] = field(default_factory=dict)
    #: the updates at which these runs had ended and were trained on; none in a run of one go
    continued_from: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.runs = len(self.chunk)
        self.lanes = self.chunk.lanes or default_lanes()
        if not 1 <= self.runs <= self.lanes:
            raise UserError(f"runs: {self.runs} do not fit into {self.lanes} lanes")
        self.program = self.program or make_program(self.settings)
        order = self._padded(range(self.runs))
        keys = self.chunk.keys[order]
        self._keys = as_keys(keys)
        values = make_values(self.chunk.columns, self.runs)
        self._values = jax.tree.map(lambda column: column[jnp.asarray(order)], values)
        self._state = train.init_state(self.program, keys, self._values)
        # Environments that the compiled program cannot step are stepped here.
        hosted = isinstance(self.program.env, Gymnasium)
        self._host = host.Host(self.program, self.chunk.keys) if hosted else None
        self._updates_per_segment = 1

    @property
    def settings(self) -> Settings:
        """The settings of the runs."""
        return self.chunk.settings

    @property
    def total(self) -> int:
        """The number of updates of a whole run."""
        return self.settings.updates

    @property
    def width(self) -> int:
        """The lanes of the compiled program: a multiple of 8 where updates are batched over them.

        A processor's vector instructions round differently from the scalar ones that the end of an
        array is left to, which must not depend on a run's lane.
        """
        return self.lanes if self.layout == "map" else -(-self.lanes // _VECTOR) * _VECTOR

    def _padded(self, rows: Sequence[int]) -> list[int]:
        """Fill the lanes: padding repeats the first run, so that it is as well behaved as any."""
        return [*rows, *[rows[0]] * (self.width - len(rows))]

    @property
    def k(self) -> int:
        """The number of updates done."""
        return int(self._state.k)

    @property
    def diverged_at(self) -> Int[np.ndarray, " runs"]:
        """The update at which each run diverged, or -1."""
        return np.asarray(self._state.learner.diverged_at)[: self.runs].astype(np.int64)

    @property
    def policies(self) -> Float[np.ndarray, "runs p"]:
        """The parameter vectors of the policies."""
        return np.asarray(self._state.learner.actor)[: self.runs]

    def advance(self, updates: int) -> None:
        """Do some updates of every run, in one call of the compiled segment."""
        keys, values, layout, total = self._keys, self._values, self.layout, self.total
        if self._host is not None:
            for _ in range(updates):
                self._state = self._host.update(layout, self._state, keys, values, total)
            return
        counts = map(jnp.int32, (total, self.runs, updates))
        self._state = train.segment(self.program, layout, self._state, keys, values, *counts)
        jax.block_until_ready(self._state)  # type: ignore[no-untyped-call]

    def evaluate(
        self, episodes: int | None = None
    ) -> tuple[Float[np.ndarray, "runs episodes"], Float[np.ndarray, "runs episodes"]]:
        """Return the returns of stochastic and of greedy episodes, in units of scaled reward."""
        count = episodes or self.settings.eval_episodes
        lanes = slice(self.width if self._host is None else self.runs)
        actors, keys = self._state.learner.actor[lanes], self._keys[lanes]
        scale = self._values.reward_scale[lanes]
        returns, greedy = evaluate(self.program, count, actors, keys, scale, self.total)
        return returns[: self.runs], greedy[: self.runs]

    def _record(self) -> None:
        """Evaluate, and add a point to the learning curves."""
        returns, greedy = self.evaluate()
        metrics = self._state.metrics.items()
        point = {name: np.asarray(value, np.float64)[: self.runs] for name, value in metrics}
        point |= {"return": returns.mean(1), "greedy_return": greedy.mean(1)}
        point["update"] = np.full(self.runs, self.k, np.float64)
        for name, value in point.items():
            self.curves.setdefault(name, []).append(value)

    def run(
        self,
        on_segment: Callable[[SegmentProgress], None] | None = None,
        until: int | None = None,
    ) -> None:
        """Train to the end, or to update `until`; `on_segment` may raise to stop in between."""
        every, start = self.evaluate_every or self.settings.eval_every, time.perf_counter()
        end = self.total if until is None else min(until, self.total)
        while self.k < end:
            k = self.k
            stop = min(end, k + self._updates_per_segment)
            if every:
                stop = min(stop, (k // every + 1) * every)
            began = time.perf_counter()
            self.advance(stop - k)
            took = (time.perf_counter() - began) / (stop - k)
            # At most double at a time: the first call also compiles.
            wanted = max(1, int(SEGMENT_SECONDS / max(took, 1e-9)))
            self._updates_per_segment = min(wanted, 2 * self._updates_per_segment)
            if every and stop % every == 0:
                self._record()
            if on_segment is not None:
                seconds = time.perf_counter() - start
                metrics = {name: points[-1] for name, points in self.curves.items()}
                on_segment(SegmentProgress(stop, self.total, seconds, metrics))

    def curve_arrays(self) -> dict[str, Float[np.ndarray, "runs points"]]:
        """Return the learning curves, one row per run."""
        return {name: np.stack(points, axis=1) for name, points in self.curves.items()}

    def continued(self, settings: Settings) -> Session:
        """Return a session that goes on from here to the end of longer settings, and says so."""
        other = self.select(range(self.runs))
        # The random numbers stay those of the shorter run.
        other.chunk = replace(self.chunk, settings=settings, own_keys=self.chunk.keys)
        other.continued_from = (*self.continued_from, self.k)
        return other

    def select(self, rows: Sequence[int]) -> Session:
        """Return a session of some of these runs, each of which goes on as it would have here.

        This one stays as it is.
        """
        if not rows or not all(0 <= row < self.runs for row in rows):
            raise UserError(f"rows: {list(rows)} are not among {self.runs} runs")
        other = copy.copy(self)
        other.chunk, other.runs = self.chunk.select(rows), len(rows)
        order = jnp.asarray(self._padded(rows))
        other._keys = self._keys[order]
        other._values = jax.tree.map(lambda column: column[order], self._values)
        state = self._state
        learner, env, metrics = jax.tree.map(
            lambda x: x[order], (state.learner, state.env, state.metrics)
        )
        buffer = jnp.take(state.buffer, order, axis=1)  # its lanes come second
        other._state = train.TrainState(learner, env, buffer, jnp.copy(state.k), metrics)
        if self._host is not None:
            other._host = self._host.select(list(rows))
        other.curves = {n: [point[list(rows)] for point in c] for n, c in self.curves.items()}
        return other

    def save(self, path: str | Path) -> None:
        """Write everything needed for a bit-identical continuation."""
        if self._host is not None:
            raise UserError(
                f"save: {self.settings.environment} is stepped on the host, and the state of its "
                "environments cannot be saved"
            )
        arrays = checkpoint.flatten(self._state, "state/")
        arrays |= {f"curves/{name}": curve for name, curve in self.curve_arrays().items()}
        arrays["keys"] = self.chunk.keys
        meta = {
            "settings": self.settings.model_dump(mode="json"),
            "columns": {
                name: [None if value != value else float(value) for value in column]
                for name, column in self.chunk.columns.items()
            },
            "lanes": self.lanes,
            "layout": self.layout,
            "evaluate_every": self.evaluate_every,
            "continued_from": list(self.continued_from),
        }
        checkpoint.save(path, arrays, meta)

    @classmethod
    def restore(cls, path: str | Path, program: Program | None = None) -> Session:
        """Read a session back; `program` is needed where objects stood in for names."""
        env = None if program is None else program.env
        arrays, settings, data = checkpoint.load_session(path, env)
        session = cls(
            make_chunk(settings, data.columns, data.lanes, arrays["keys"]),
            layout=data.layout,
            program=program or make_program(settings),
            evaluate_every=data.evaluate_every,
            continued_from=tuple(data.continued_from),
        )
        session._state = checkpoint.unflatten(session._state, arrays, "state/", Path(path))
        for name, curve in arrays.items():
            if name.startswith("curves/"):
                session.curves[name.removeprefix("curves/")] = list(curve.T)
        return session


def train_chunk(
    chunk: Chunk,
    *,
    on_segment: Callable[[SegmentProgress], None] | None = None,
    program: Program | None = None,
    layout: Layout | None = None,
    evaluate_every: int | None = None,
    on_session: Callable[[Session], None] | None = None,
) -> Outcome:
    """Train and evaluate the runs of a chunk.

    More runs than lanes are trained in several sessions, one after the other; the last is padded.
    `on_segment` is called about every second and may raise to stop. `on_session` is given every
    session that has ended. `program` is needed where objects stand in for names.
    """
    chunk = replace(chunk, lanes=chunk.lanes or default_lanes())
    lanes = chunk.lanes or 1
    program = program or make_program(chunk.settings)
    layout = layout or default_layout()
    sessions = (
        Session(chunk.select(slice(first, first + lanes)), layout, program, evaluate_every)
        for first in range(0, len(chunk), lanes)
    )
    return train_sessions(chunk, sessions, on_segment, on_session)


def train_sessions(
    chunk: Chunk,
    sessions: Iterable[Session],
    on_segment: Callable[[SegmentProgress], None] | None = None,
    on_session: Callable[[Session], None] | None = None,
) -> Outcome:
    """Train the sessions of a chunk to their end, one after the other, and evaluate them."""
    start = time.perf_counter()
    parts, curves, first = [], [], 0
    for session in sessions:

        def report(progress: SegmentProgress, first: int = first) -> None:
            each, lanes = progress.updates_total, chunk.lanes or 1
            whole: dict[str, Any] = {
                "updates_done": first // lanes * each + progress.updates_done,
                "updates_total": -(-len(chunk) // lanes) * each,
                "seconds": time.perf_counter() - start,
                "first_run": first,
            }
            if on_segment is not None:
                on_segment(replace(progress, **whole))

        session.run(report)
        parts.append((*session.evaluate(), session.diverged_at))
        curves.append(session.curve_arrays())
        first += session.runs
        if on_session is not None:
            on_session(session)
        env, layout, continued = session.program.env, session.layout, session.continued_from
        del session  # the next one is made when this one's memory is free
    bounds = env.return_bounds or (random_return(env), None)
    hosted = isinstance(env, Gymnasium)
    origin = machine.collect(hosted=hosted, device=device_name(), lanes=chunk.lanes, layout=layout)
    returns, greedy, diverged = map(np.concatenate, zip(*parts, strict=True))
    return Outcome(
        chunk=chunk,
        returns=returns,
        greedy_returns=greedy,
        diverged_at=diverged,
        wall_seconds=time.perf_counter() - start,
        bounds=bounds,
        provenance={**origin, "continued_from": list(continued)} if continued else origin,
        curves={name: np.concatenate([c[name] for c in curves]) for name in curves[0]},
    )


def evaluate(
    program: Program,
    episodes: int,
    actors: Float[jax.Array, "lanes p"],
    keys: jax.Array,
    reward_scale: Float[jax.Array, " lanes"],
    updates: int,
) -> tuple[Float[np.ndarray, "lanes episodes"], Float[np.ndarray, "lanes episodes"]]:
    """Return the returns of stochastic and of greedy episodes of policies.

    `keys` are those of their runs, which have so many updates.
    """
    own = train.evaluation_keys(keys, updates)
    if isinstance(program.env, Gymnasium):
        seeds = np.asarray(jax.random.key_data(keys))
        return host.evaluate(program, episodes, actors, seeds, own, reward_scale)
    stochastic, greedy = train.evaluate(program, episodes, actors, own, reward_scale)
    return np.asarray(stochastic, np.float64), np.asarray(greedy, np.float64)


def random_return(env: Task) -> float:
    """Return the mean return of the policy that chooses every action alike."""
    if isinstance(env, Gymnasium):
        return host.random_return(env)
    assert isinstance(env, Environment)
    return adapter.random_return(env)


def device_name() -> str:
    """Return the kind of device that computes."""
    device = jax.devices()[0]
    return f"{device.platform}:{device.device_kind}"
