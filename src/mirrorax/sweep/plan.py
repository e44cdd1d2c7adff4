"""Runs minus finished runs, cut into chunks: what is left to do, in which order, at what measure.

A chunk is up to `lanes` runs of one configuration (one compiled program). Configurations whose
chunks take longest come first, so that no long chunk starts when the others have finished; within a
configuration the study's order is kept.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from mirrorax.errors import UserError
from mirrorax.formatting import check_whole
from mirrorax.mdpo import machine
from mirrorax.runs import arrow
from mirrorax.runs.chunk import DIFFERING, Chunk, together
from mirrorax.runs.results import Results
from mirrorax.runs.settings import Settings
from mirrorax.spec.study import Runs
from mirrorax.store.reading import latest_study
from mirrorax.sweep import measure

#: Lane widths to choose from, the preferred first; results depend on the width, so it is fixed
#: for a store when its first study is run.
WIDTHS = (32, 16, 8)
GPU_WIDTHS = (256, 128, 64, 32)
_WASTE = 0.10
LARGEST_WIDTH = 4096


@dataclass(frozen=True, eq=False)
class QueuedChunk:
    """A chunk that waits to be trained."""

    number: int
    configuration: int  # chunks with the same number share one compiled program
    chunk: Chunk
    seconds: float = 0.0  # how long it is expected to take
    places: Sequence[int] | np.ndarray = ()  # of its runs in the plan

    def __len__(self) -> int:
        return len(self.chunk)

    @property
    def label(self) -> str:
        """Environment and pair, for people."""
        settings = self.chunk.settings
        return f"{settings.environment} {settings.potential} {settings.drift}"


@dataclass(frozen=True, eq=False)
class Plan:
    """What a sweep would do."""

    runs: Runs
    lanes: int
    done: np.ndarray  # masks over the runs
    failed: np.ndarray
    todo: np.ndarray
    beyond: int  # runs in the store that are not in the study
    chunks: list[QueuedChunk]
    rates: measure.Rates
    mixed: dict[str, list[str]]  # provenance that differs within the store

    @cached_property
    def configurations(self) -> list[Settings]:
        """The configurations that are left to do."""
        return [self.runs.configurations[i] for i in sorted({c.configuration for c in self.chunks})]

    def seconds_on(self, workers: int, speedup: float = 1.0) -> float:
        """Return how long the rest would take on other workers, each `speedup` times as fast.

        The work is shared evenly, but a chunk is not divided; every worker compiles its part of
        the configurations, no faster than here.
        """
        if not self.chunks:
            return 0.0
        work = sum(chunk.seconds for chunk in self.chunks)
        longest = max(chunk.seconds for chunk in self.chunks)
        shared = max(work / (workers * speedup), longest / speedup)
        return shared + -(-len(self.configurations) // workers) * measure.COMPILE_SECONDS

    def guessed(self) -> list[str]:
        """Return the environments of what is left whose time is no more than a guess."""
        guessed = (s.environment for s in self.configurations if self.rates.guessed(s))
        return list(dict.fromkeys(guessed))

    def largest(self) -> machine.Sizes | None:
        """Return the most memory that a configuration left to do needs; None if not all known."""
        sizes = measure.known_sizes(self.configurations)
        return max(sizes.values()) if len(sizes) == len(self.configurations) else None

    def check_memory(self, workers: int) -> None:
        """Raise `UserError`, with the width that would fit, if the workers cannot fit.

        Sizes that are not known are asked of a child process, which takes some seconds.
        """
        known = measure.ask_sizes(self.configurations)
        if len(known) < len(self.configurations):
            return  # a program that cannot be made fails in its worker, which says why
        settings, sizes = max(known.items(), key=lambda item: item[1])
        need, free = sizes.worker_bytes(self.lanes) * workers, machine.available_bytes()
        if need <= free:
            return
        fits = sizes.lanes_that_fit(workers, free)
        advice = f"{fits} lanes would fit" if fits else "not even one lane fits: use fewer workers"
        raise UserError(
            f"lanes: {self.lanes} lanes of {settings.environment} need about "
            f"{need / 2**30:.1f} GiB in {workers} workers, {free / 2**30:.1f} GiB are free; "
            f"{advice}"
        )


def choose_lanes(runs: Runs, widths: tuple[int, ...] = WIDTHS) -> int:
    """Return the widest of the usual widths that wastes little on padding for this study."""
    sizes = np.bincount(runs.configuration, minlength=len(runs.configurations))
    padded = {width: float((-(-sizes // width) * width).sum()) for width in widths}
    for width in widths:
        if padded[width] <= (1 + _WASTE) * len(runs):
            return width
    return min(widths, key=lambda width: padded[width])


def lanes_for(runs: Runs, root: Path, lanes: int | None, *, gpu: bool = False) -> int:
    """Return the lane width: the one asked for, the store's own, or a good one for the study."""
    if lanes is not None:
        return check_whole("lanes", lanes, 1, LARGEST_WIDTH)
    if (last := latest_study(root)) is not None:
        return last.lanes
    return choose_lanes(runs, GPU_WIDTHS if gpu else WIDTHS)


def make(
    runs: Runs,
    stored: Results,
    *,
    lanes: int,
    retry_failed: bool = False,
    measured: dict[Settings, float] | None = None,
) -> Plan:
    """Compare a study's runs with what a store has and cut the rest into chunks.

    Of the stored runs `wall_seconds` is read, see `mirrorax.store.reading.Reader`.
    """
    place = stored.places(arrow.id_column(runs.ids))
    done, failed = np.zeros((2, len(runs)), bool)
    done[place[stored.done & (place >= 0)]] = True
    failed[place[~stored.done & (place >= 0)]] = True
    todo = ~done if retry_failed else ~done & ~failed
    rates = measure.observed(stored)
    if measured:
        rates = replace(rates, source="what was measured just now", measured=measured)
    seen = {name: stored.provenance(name) for name in DIFFERING}
    return Plan(
        runs=runs,
        lanes=lanes,
        done=done,
        failed=failed,
        todo=todo,
        beyond=int((place < 0).sum()),
        chunks=list(_chunks(runs, todo, lanes, rates)),
        rates=rates,
        mixed={name: [*map(str, values)] for name, values in seen.items() if len(values) > 1},
    )


def _chunks(
    runs: Runs, todo: np.ndarray, lanes: int, rates: measure.Rates
) -> Iterator[QueuedChunk]:
    left = np.flatnonzero(todo)
    spans = []
    for places in together(runs.configuration[left]):
        mine = left[places]
        configuration = int(runs.configuration[mine[0]])
        # A padded lane costs as much as a real one.
        seconds = rates.seconds(runs.configurations[configuration]) * lanes
        cuts = range(0, len(mine), lanes)
        spans += [(seconds, configuration, mine[k : k + lanes]) for k in cuts]
    longest_first = sorted(spans, key=lambda span: -span[0])
    for number, (seconds, configuration, mine) in enumerate(longest_first):
        columns = {name: column[mine] for name, column in runs.values.items()}
        chunk = Chunk(runs.configurations[configuration], columns, lanes)
        yield QueuedChunk(number, configuration, chunk, seconds, mine)


class Queue:
    """The chunks that are left, handed out so that a worker keeps to one configuration.

    A worker that asks again gets the next chunk of the configuration it has compiled. One that is
    new, or whose configuration is used up, gets the first chunk of a configuration that no worker
    has taken; when all are taken, of the one with most work left per worker.
    """

    def __init__(self, chunks: Iterable[QueuedChunk] = ()) -> None:
        self._waiting: dict[int, deque[QueuedChunk]] = {}
        self._again: deque[QueuedChunk] = deque()
        self._takers: Counter[int] = Counter()
        self.add(chunks)

    def __len__(self) -> int:
        return len(self._again) + sum(map(len, self._waiting.values()))

    def add(self, chunks: Iterable[QueuedChunk]) -> None:
        """Add chunks behind those that wait."""
        for queued in chunks:
            self._waiting.setdefault(queued.configuration, deque()).append(queued)

    def take(self, prefer: int | None = None) -> QueuedChunk | None:
        """Return the next chunk for a worker that last compiled `prefer`; None if none is left."""
        if self._again:
            return self._again.popleft()
        if not self._waiting:
            return None
        if prefer not in self._waiting:
            if prefer is not None:
                self._takers[prefer] -= 1
            prefer = self._best()
            self._takers[prefer] += 1
        queued = self._waiting[prefer].popleft()
        if not self._waiting[prefer]:
            del self._waiting[prefer]
        return queued

    def put_back(self, queued: QueuedChunk) -> None:
        """Return a chunk that has to be run again; it is the next to be taken."""
        self._again.append(queued)

    def clear(self) -> None:
        """Drop everything that is left."""
        self._waiting.clear()
        self._again.clear()

    def _best(self) -> int:
        for which in self._waiting:
            if self._takers[which] <= 0:
                return which

        def work(which: int) -> float:
            return sum(c.seconds for c in self._waiting[which]) / (self._takers[which] + 1)

        return max(self._waiting, key=work)
