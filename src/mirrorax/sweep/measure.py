"""What a run costs: time, from a table or measured, and memory, asked of the real program.

The time of a run on one core is modelled as

    updates * (steps per update * step_seconds[family] + update_seconds[family] * relative work)

The table was measured on one core of a cloud machine. Where the store holds finished runs the model
is scaled by what they took: per environment if it was seen, over all otherwise.

The planner does not import jax. It asks a child process, `python -m mirrorax.sweep.measure`, which
reads one JSON object from standard input and writes one line of JSON per answer. Sizes are kept in
a cache on disk; nothing is written to a store.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mirrorax import plugins
from mirrorax.envs import suite
from mirrorax.errors import Failure, UserError
from mirrorax.files import write_file
from mirrorax.mdpo import machine
from mirrorax.mdpo.machine import Sizes, cache_folder
from mirrorax.runs.results import Results
from mirrorax.runs.settings import Settings
from mirrorax.sweep import worker

if TYPE_CHECKING:
    from mirrorax.sweep.plan import Plan

#: What compiling a configuration takes on one core.
COMPILE_SECONDS = 12.0


class Cost(NamedTuple):
    """What the runs of a family of environments cost."""

    #: seconds per million steps at which the policy is computed
    steps: float
    #: milliseconds of an update with the default settings
    update: float
    #: operations of the policy for one observation, with the default settings
    flops: int
    #: seconds per million steps at which the policy is looked up in a table of all states
    looked_up: float = 0.0


TABLE = {
    "CartPole": Cost(0.25, 1.17, 9_090),
    "Acrobot": Cost(0.42, 1.08, 9_475),
    "Catch": Cost(0.45, 1.54, 15_107, 0.05),
    "DeepSea": Cost(0.47, 1.54, 16_770, 0.03),
}
_OTHER = Cost(1.0, 1.9, 16_770)
#: environments that are stepped in Python
_HOSTED = Cost(22.0, 1.9, 16_770)


def modelled_seconds(settings: Settings) -> float:
    """Return what a run should take on one core, by the shipped table."""
    family = suite.environment(settings.environment).family
    cost = _HOSTED if family == "gymnasium" else TABLE.get(family, _OTHER)
    computed = computed_steps(settings)
    looked_up = settings.steps_per_update - computed
    rollout = (computed * cost.steps + looked_up * cost.looked_up) / 1e6
    return settings.updates * (rollout + cost.update / 1e3 * _relative_work(settings, cost))


def _relative_work(settings: Settings, cost: Cost) -> float:
    """Return the work of one update, relative to the default settings.

    A network whose size is not known counts as the default one.
    """
    critics = 2 if settings.twin_critics else 1
    passes = (settings.actor_epochs + critics * settings.critic_epochs) / 4
    observations = settings.batches_per_update * settings.batch_size / 512
    sizes = known_sizes(settings)
    return passes * observations * (1.0 if sizes is None else sizes.flops / cost.flops)


def computed_steps(settings: Settings) -> int:
    """Return at how many states the policy is computed in a rollout.

    At every step, or once for every state of a board that has fewer; the rest is looked up.
    """
    match suite.environment(settings.environment).size:
        case (rows, columns):  # Catch: two columns and a row
            states = rows * columns * columns
        case (size,):  # DeepSea: a row, perhaps below the last, and a column
            states = (size + 1) * size
        case _:
            return settings.steps_per_update
    return min(-(-states // settings.num_envs) * settings.num_envs, settings.steps_per_update)


@dataclass(frozen=True)
class Rates:
    """How long runs take here, relative to the shipped table."""

    source: str = "the shipped table"
    overall: float = 1.0
    by_environment: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[Settings, float] = field(default_factory=dict)  # seconds per run

    def seconds(self, settings: Settings) -> float:
        """Return the expected seconds of one run's share of a worker."""
        if settings in self.measured:
            return self.measured[settings]
        factor = self.by_environment.get(settings.environment, self.overall)
        return modelled_seconds(settings) * factor

    def guessed(self, settings: Settings) -> bool:
        """Whether this environment was measured neither here nor for the table."""
        if settings in self.measured or settings.environment in self.by_environment:
            return False
        return suite.environment(settings.environment).family not in TABLE


def observed(results: Results) -> Rates:
    """Scale the shipped table by the finished runs of a store.

    Of each configuration the median counts: a worker that was paused, or shared its core, says
    little of the others.
    """
    seconds = np.where(results.done, results.numbers("wall_seconds"), np.nan)
    known = np.isfinite(seconds)
    actual: dict[str, float] = defaultdict(float)
    model: dict[str, float] = defaultdict(float)
    runs = 0
    for k, (settings, _) in enumerate(results.configurations):
        mine = seconds[known & (results.configuration == k)]
        if len(mine):
            # Else it may be a name of a plugin that is not loaded: nothing here needs its rate.
            with contextlib.suppress(UserError):
                model[settings.environment] += len(mine) * modelled_seconds(settings)
                actual[settings.environment] += len(mine) * float(np.median(mine))
                runs += len(mine)
    if not actual:
        return Rates()
    return Rates(
        source=f"{runs:,} finished runs in the store",
        overall=sum(actual.values()) / sum(model.values()),
        by_environment={name: actual[name] / model[name] for name in actual},
    )


# --- asked of a child process ---------------------------------------------------------------------

#: settings on which no size depends
_WITHOUT_SIZE = {"steps", "eval_every", "eval_episodes", "potential", "drift"}

_known: dict[str, Sizes] = {}


def _key(settings: Settings) -> str:
    """Return what the sizes of a program depend on, as a digest."""
    fields = [settings.model_dump(mode="json", exclude=_WITHOUT_SIZE), machine.versions()]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def _cached(key: str) -> Path | None:
    folder = cache_folder("sizes")
    return None if folder is None else folder / f"sizes-{key}.json"


def known_sizes(settings: Settings) -> Sizes | None:
    """Return the sizes of a program if they were asked before, in this or another process."""
    key = _key(settings)
    if key not in _known and (path := _cached(key)) is not None:
        try:
            lane_bytes, flops = json.loads(path.read_text())
            _known[key] = Sizes(int(lane_bytes), int(flops))
        except (OSError, ValueError, TypeError, RecursionError):
            return None  # not there, or not ours
    return _known.get(key)


def ask_sizes(configurations: Iterable[Settings]) -> None:
    """Ask a child process for the sizes that are not known. A program that fails has none."""
    missing = {_key(s): s for s in configurations if known_sizes(s) is None}
    if not missing:
        return
    wanted = [settings.model_dump(mode="json") for settings in missing.values()]
    for number, answer in _ask({"sizes": wanted}):
        key = list(missing)[number]
        _known[key] = Sizes(*answer)
        if (path := _cached(key)) is not None:
            with contextlib.suppress(OSError):  # costs time in the next process, not results
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, json.dumps(answer).encode())


def measure_seconds(plan: Plan, function: str) -> dict[Settings, float]:
    """Return the measured seconds per run of every configuration that is left to do."""
    firsts = {queued.chunk.settings: queued.chunk for queued in reversed(plan.chunks)}
    chunks = [base64.b64encode(chunk.to_bytes()).decode() for chunk in firsts.values()]
    answers = _ask({"function": function, "chunks": chunks})
    return {list(firsts)[number]: seconds / plan.lanes for number, seconds in answers}


def _ask(request: dict[str, Any]) -> list[tuple[int, Any]]:
    """Return the answers of a child process, each with the place of its question."""
    child = subprocess.run(
        [sys.executable, "-P", "-m", "mirrorax.sweep.measure"],
        input=json.dumps({**request, "plugins": plugins.loaded()}),
        capture_output=True,
        text=True,
        env=machine.environment(machine.ONE_CPU),
        check=False,
    )
    if child.returncode != 0:
        last = " ".join(child.stderr.strip().splitlines()[-1:])
        raise Failure(f"measuring failed: {last}")
    return [tuple(json.loads(line)) for line in child.stdout.splitlines()]


# --- in the child ---


def _time_chunk(function: worker.ChunkFunction, data: bytes, driver_plugins: list[str]) -> float:
    """Return the seconds of a whole chunk, from the time between its first two segments."""
    marks: list[tuple[float, float]] = []

    def on_segment(progress: Any) -> None:
        marks.append((time.perf_counter(), progress.fraction))
        if len(marks) >= 2:
            raise worker.StopChunk

    start = time.perf_counter()
    try:
        worker.run_chunk(function, data, driver_plugins, on_segment)
    except worker.StopChunk:
        (first, done_first), (second, done_second) = marks
        if done_second > done_first:
            return (second - first) / (done_second - done_first)
    # A chunk of one segment: compilation cannot be told apart, so the whole of it counts.
    return time.perf_counter() - start


def _answers(request: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    if "chunks" in request:
        function = worker.resolve(request["function"])
        for number, text in enumerate(request["chunks"]):
            yield number, _time_chunk(function, base64.b64decode(text), request["plugins"])
        return
    from mirrorax.mdpo.program import make_program, program_sizes

    for number, fields in enumerate(request["sizes"]):
        try:
            yield number, program_sizes(make_program(Settings(**fields)))
        except Exception as error:  # a mistake in a plugin shows when it is trained
            print(f"{fields.get('environment')}: {error}", file=sys.stderr)


def main() -> int:
    """Answer what standard input asks."""
    request = json.load(sys.stdin)
    plugins.load_all(request["plugins"])
    output, sys.stdout = sys.stdout, sys.stderr
    for answer in _answers(request):
        print(json.dumps(answer), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
