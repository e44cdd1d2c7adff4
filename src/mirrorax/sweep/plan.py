"""Runs minus finished runs, cut into chunks: what is left to do, in which order, at what cost.

A chunk is up to `lanes` runs of one configuration (one compiled program). Configurations whose
chunks take longest come first, so that no long chunk starts when the others have finished; within a
configuration the study's order is kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.errors import UserError
from mirrorax.runs import ids as run_ids
from mirrorax.runs.settings import Settings
from mirrorax.spec.expand import Runs
from mirrorax.store import reading, studies
from mirrorax.sweep import rates as cost
from mirrorax.sweep.task import Task

#: Lane widths to choose from, the preferred first; results depend on the width, so it is fixed
#: for a store when its first study is run.
WIDTHS = (32, 16, 8)
GPU_WIDTHS = (256, 128, 64, 32)
_WASTE = 0.10
LARGEST_WIDTH = 4096


@dataclass(frozen=True)
class Chunk:
    """Runs of one configuration that are computed together: positions in the plan's runs."""

    number: int
    configuration: int
    positions: np.ndarray
    seconds: float

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, eq=False)
class Plan:
    """What a sweep would do."""

    runs: Runs
    lanes: int
    done: np.ndarray  # masks over the runs
    failed: np.ndarray
    todo: np.ndarray
    beyond: int  # runs in the store that are not in the study
    chunks: list[Chunk]
    rates: cost.Rates
    mixed: dict[str, list[str]]  # provenance that differs within the store

    @property
    def seconds(self) -> float:
        """Worker-seconds that are left, compilation included."""
        compiled = len({chunk.configuration for chunk in self.chunks})
        return sum(chunk.seconds for chunk in self.chunks) + compiled * cost.COMPILE_SECONDS

    def seconds_on(self, workers: int, speedup: float = 1.0) -> float:
        """Return how long the rest would take on other workers, each `speedup` times as fast.

        The work is shared evenly, but a chunk is not divided; every worker compiles its part of
        the configurations, no faster than here.
        """
        if not self.chunks:
            return 0.0
        work = sum(chunk.seconds for chunk in self.chunks)
        longest = max(chunk.seconds for chunk in self.chunks)
        compiled = len({chunk.configuration for chunk in self.chunks})
        shared = max(work / (workers * speedup), longest / speedup)
        return shared + -(-compiled // workers) * cost.COMPILE_SECONDS

    def guessed(self) -> list[str]:
        """Return the environments of what is left whose time is no more than a guess."""
        used = {chunk.configuration for chunk in self.chunks}
        settings = [self.runs.configurations[number] for number in sorted(used)]
        return list(dict.fromkeys(s.environment for s in settings if self.rates.guessed(s)))

    def worker_bytes(self) -> int:
        """Return the memory that the largest configuration left to do needs in each worker."""
        which = {chunk.configuration for chunk in self.chunks}
        return max(
            (cost.worker_bytes(self.runs.configurations[i], self.lanes) for i in which), default=0
        )

    def task(self, chunk: Chunk) -> Task:
        """Return a chunk as plain data for a worker."""
        runs = self.runs.select(chunk.positions)
        settings = self.runs.configurations[chunk.configuration]
        return Task(
            number=chunk.number,
            configuration=chunk.configuration,
            settings=settings.model_dump(),
            columns=runs.values,
            keys=runs.keys(),
            lanes=self.lanes,
            label=f"{settings.environment} {settings.potential} {settings.drift}",
            seconds=chunk.seconds,
        )

    def check_memory(self, workers: int) -> None:
        """Raise `UserError`, with the width that would fit, if the workers cannot fit."""
        need, free = self.worker_bytes() * workers, cost.available_bytes()
        if need <= free:
            return
        widest = max(
            {chunk.configuration for chunk in self.chunks},
            key=lambda i: cost.lane_bytes(self.runs.configurations[i]),
        )
        settings = self.runs.configurations[widest]
        fits = cost.lanes_that_fit(settings, workers, free)
        advice = f"{fits} lanes would fit" if fits else "not even one lane fits: use fewer workers"
        raise UserError(
            f"lanes: {self.lanes} lanes of {settings.environment} need about "
            f"{need / 2**30:.1f} GiB in {workers} workers, {free / 2**30:.1f} GiB are free; "
            f"{advice}"
        )


_PROVENANCE = (
    "lanes",
    "device",
    "jax_version",
    "gymnax_version",
    "gymnasium_version",
    "mirrorax_version",
    "commit",
)


def known(root: Path | None, without: Collection[str] = ()) -> pa.Table:
    """Read what planning needs to know of a store; an empty table if there is none.

    `without` names shards that do not count, even where a consolidated copy has their rows.
    """
    columns = [*cost.COLUMNS, *_PROVENANCE]
    reader = reading.Reader(root if root is not None else Path("/nonexistent"), columns, without)
    if root is not None:
        reader.refresh()
    return reader.table()


def choose_lanes(runs: Runs, widths: tuple[int, ...] = WIDTHS) -> int:
    """Return the widest of the usual widths that wastes little on padding for this study."""
    sizes = np.bincount(runs.configuration, minlength=len(runs.configurations))
    padded = {width: float((-(-sizes // width) * width).sum()) for width in widths}
    for width in widths:
        if padded[width] <= (1 + _WASTE) * len(runs):
            return width
    return min(widths, key=lambda width: padded[width])


def check_lanes(asked: int | None) -> None:
    """Refuse a lane width that cannot be."""
    if asked is not None and not 1 <= asked <= LARGEST_WIDTH:
        raise UserError(f"lanes: {asked}: expected a number from 1 to {LARGEST_WIDTH}")


def lanes_for(runs: Runs, root: Path | None, asked: int | None, *, gpu: bool = False) -> int:
    """Return the lane width: the one asked for, the store's own, or a good one for the study."""
    check_lanes(asked)
    if asked is not None:
        return asked
    last = studies.latest_notes(root) if root is not None else None
    if last is not None:
        return int(last[1]["mirrorax.lanes"])
    return choose_lanes(runs, GPU_WIDTHS if gpu else WIDTHS)


def make(
    runs: Runs,
    table: pa.Table,
    *,
    lanes: int,
    retry_failed: bool = False,
    measured: dict[Settings, float] | None = None,
) -> Plan:
    """Compare a study's runs with what a store knows (`known`) and cut the rest into chunks."""
    ids = run_ids.to_arrow(runs.ids)
    is_done = pc.equal(table["status"], "done")
    done = _among(ids, table["run_id"].filter(is_done))
    failed = _among(ids, table["run_id"].filter(pc.invert(is_done))) & ~done
    todo = ~done if retry_failed else ~done & ~failed
    rates = cost.observed(table)
    if measured:
        rates = cost.Rates(
            "what was measured just now", rates.overall, rates.by_environment, measured
        )
    mixed = {}
    for name in _PROVENANCE:
        values = [v for v in pc.unique(table[name]).to_pylist() if v is not None]
        if len(values) > 1:
            mixed[name] = sorted(map(str, values))
    return Plan(
        runs=runs,
        lanes=lanes,
        done=done,
        failed=failed,
        todo=todo,
        beyond=len(table) - int(done.sum()) - int(failed.sum()),
        chunks=list(_chunks(runs, np.flatnonzero(todo), lanes, rates)),
        rates=rates,
        mixed=mixed,
    )


def _among(ids: pa.Array, those: pa.ChunkedArray) -> np.ndarray:
    return pc.is_in(ids, value_set=those.combine_chunks()).to_numpy(zero_copy_only=False)


def _chunks(runs: Runs, todo: np.ndarray, lanes: int, rates: cost.Rates) -> Iterator[Chunk]:
    order = todo[np.argsort(runs.configuration[todo], kind="stable")]
    which = runs.configuration[order]
    starts = np.flatnonzero(np.diff(which, prepend=-1))
    pieces = []
    for start, end in zip(starts, np.append(starts, len(order))[1:], strict=True):
        configuration = int(which[start])
        seconds = rates.seconds(runs.configurations[configuration])
        for first in range(start, end, lanes):
            positions = order[first : min(first + lanes, end)]
            # A padded lane costs as much as a real one.
            pieces.append((seconds * lanes, configuration, positions))
    longest_first = sorted(range(len(pieces)), key=lambda i: (-pieces[i][0], pieces[i][1], i))
    for number, index in enumerate(longest_first):
        seconds, configuration, positions = pieces[index]
        yield Chunk(number, configuration, positions, seconds)


class Queue:
    """The chunks that are left, handed out so that a worker keeps to one configuration.

    A worker that asks again gets the next chunk of the configuration it has compiled. One that is
    new, or whose configuration is used up, gets the longest chunk of a configuration that nobody
    has taken; when all are taken, of the one with most work left per worker.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._waiting: dict[int, list[Chunk]] = defaultdict(list)
        for chunk in reversed(plan.chunks):  # so that pop() gives the first
            self._waiting[chunk.configuration].append(chunk)
        self._again: list[Task] = []
        self._order = list(dict.fromkeys(chunk.configuration for chunk in plan.chunks))
        self._takers: dict[int, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._again) + sum(map(len, self._waiting.values()))

    def take(self, prefer: int | None = None) -> Task | None:
        """Return the next chunk for a worker that last compiled `prefer`; None if none is left."""
        if self._again:
            return self._again.pop(0)
        if prefer is not None and self._waiting.get(prefer):
            return self._plan.task(self._pop(prefer))
        if prefer is not None:
            self._takers[prefer] -= 1
        best = self._best()
        if best is None:
            return None
        self._takers[best] += 1
        return self._plan.task(self._pop(best))

    def put_back(self, task: Task) -> None:
        """Return a chunk that has to be run again; it is the next to be taken."""
        self._again.append(task)

    def clear(self) -> None:
        """Drop everything that is left."""
        self._waiting.clear()
        self._again.clear()

    def _pop(self, configuration: int) -> Chunk:
        waiting = self._waiting[configuration]
        chunk = waiting.pop()
        if not waiting:
            del self._waiting[configuration]
        return chunk

    def _best(self) -> int | None:
        left = [which for which in self._order if which in self._waiting]
        if not left:
            return None
        fresh = [which for which in left if self._takers[which] <= 0]
        if fresh:
            return fresh[0]
        return max(
            left,
            key=lambda which: (
                sum(c.seconds for c in self._waiting[which]) / (self._takers[which] + 1)
            ),
        )
