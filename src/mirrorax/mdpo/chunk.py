"""A chunk: any number of runs with the same settings, from columns of numbers to returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, UInt32

from mirrorax.errors import UserError
from mirrorax.mdpo.program import Layout, Program, default_lanes, default_layout, make_program
from mirrorax.mdpo.session import Progress, Session
from mirrorax.runs.settings import Settings

__all__ = ["ChunkResult", "Progress", "run_chunk", "run_sessions", "sessions"]


@dataclass(frozen=True)
class ChunkResult:
    """What became of the runs of a chunk, row by row in the order they were given."""

    returns: Float[np.ndarray, "runs episodes"]
    greedy_returns: Float[np.ndarray, "runs episodes"]
    diverged_at: Int[np.ndarray, " runs"]
    wall_seconds: float
    lanes: int
    device: str
    curves: dict[str, Float[np.ndarray, "runs points"]]
    #: how updates went over lanes; results depend on it in the last bits, as on `lanes`
    layout: str | None = None
    #: what a random policy earns, of unscaled rewards, where the bounds of returns are not known
    random_return: float | None = None


def device_name() -> str:
    """Return the kind of device that computes."""
    device = jax.devices()[0]
    return f"{device.platform}:{device.device_kind}"


def sessions(
    settings: Settings,
    columns: Mapping[str, Sequence[Any] | np.ndarray],
    keys: UInt32[np.ndarray, "runs 2"],
    lanes: int | None = None,
    program: Program | None = None,
    evaluate_every: int | None = None,
    layout: Layout | None = None,
) -> Iterator[Session]:
    """Cut runs into sessions of one fixed width, made one by one; the last is padded."""
    keys = np.asarray(keys)
    if keys.ndim != 2 or keys.shape[1] != 2 or len(keys) == 0:
        raise UserError(f"keys: expected pairs of words, got shape {keys.shape}")
    for name, column in columns.items():
        if len(column) != len(keys):
            raise UserError(f"{name}: {len(column)} values for {len(keys)} runs")
    lanes = default_lanes() if lanes is None else lanes
    layout = default_layout() if layout is None else layout
    program = program or make_program(settings)
    for first in range(0, len(keys), lanes):
        cut = slice(first, first + lanes)
        here = {name: list(column[cut]) for name, column in columns.items()}
        yield Session(
            settings,
            keys[cut],
            here,
            lanes=lanes,
            program=program,
            evaluate_every=evaluate_every,
            layout=layout,
        )


def run_sessions(
    made: Iterable[Session],
    count: int,
    on_segment: Callable[[Progress], None] | None = None,
) -> ChunkResult:
    """Train `count` sessions to their end, one after the other, and evaluate them."""
    start = time.perf_counter()
    returns: list[np.ndarray] = []
    greedy, diverged, curves = [], [], []
    lanes, layout, random = 0, None, None
    for index, session in enumerate(made):

        def report(progress: Progress, index: int = index) -> None:
            if on_segment is None:
                return
            total = progress.updates_total
            seconds = time.perf_counter() - start
            on_segment(
                replace(
                    progress,
                    updates_done=index * total + progress.updates_done,
                    updates_total=count * total,
                    seconds=seconds,
                    first_run=sum(len(each) for each in returns),
                )
            )

        session.run(report)
        stochastic, best = session.evaluate()
        returns.append(stochastic)
        greedy.append(best)
        diverged.append(session.diverged_at)
        curves.append(session.curve_arrays())
        lanes, layout = session.lanes, session.layout
        random = session.random_return()
    return ChunkResult(
        returns=np.concatenate(returns),
        greedy_returns=np.concatenate(greedy),
        diverged_at=np.concatenate(diverged),
        wall_seconds=time.perf_counter() - start,
        lanes=lanes,
        device=device_name(),
        curves={name: np.concatenate([c[name] for c in curves]) for name in curves[0]},
        layout=layout,
        random_return=random,
    )


def run_chunk(
    settings: Settings,
    columns: Mapping[str, Sequence[Any] | np.ndarray],
    keys: UInt32[np.ndarray, "runs 2"],
    *,
    lanes: int | None = None,
    on_segment: Callable[[Progress], None] | None = None,
    layout: Layout | None = None,
) -> ChunkResult:
    """Train and evaluate runs that differ only in traced values and keys.

    `columns` holds one array per traced value (missing ones have their defaults; `seed` is accepted
    and only ever enters through the keys). `on_segment` is called every second or so and may raise
    to stop. Memory is that of one session of `lanes` runs, however many there are.
    """
    width = default_lanes() if lanes is None else lanes
    count = -(-len(keys) // width)
    made = sessions(settings, columns, keys, width, layout=layout)
    return run_sessions(made, count, on_segment)
