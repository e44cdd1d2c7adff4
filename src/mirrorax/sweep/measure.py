"""What a run costs: time, from a table or measured, and memory, asked of the real program.

The time of a run on one core is modelled as

    updates * (steps per update * seconds per step + seconds of an update * relative work)

The table was measured on one core of a cloud machine, with the default networks. Where the store
holds finished runs the model is scaled by what they took: per environment if it was seen, over all
otherwise.

The planner does not import jax. It asks a child process, `python -m mirrorax.sweep.measure`, which
reads one JSON object from standard input and writes one line of JSON per answer. Sizes are kept in
a cache on disk; nothing is written to a store.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax import plugins
from mirrorax.envs import suite
from mirrorax.errors import Failure, UserError
from mirrorax.files import write_file
from mirrorax.mdpo import machine
from mirrorax.mdpo.machine import Sizes
from mirrorax.runs.results import Results
from mirrorax.runs.settings import Settings
from mirrorax.sweep import worker

if TYPE_CHECKING:
    from mirrorax.sweep.plan import Plan

#: What compiling a configuration takes on one core.
COMPILE_SECONDS = 12.0

#: Seconds per million steps, and milliseconds of an update with the default settings. On a board
#: most steps look their policy up in a table of all states, and updates ask once at every state.
TABLE = {
    "CartPole": (0.113, 0.575),
    "Acrobot": (0.131, 0.601),
    "Catch": (0.013, 0.514),
    "DeepSea": (0.017, 0.213),
}
_OTHER = (1.0, 1.9)
#: environments that are stepped in Python
_HOSTED = (22.0, 1.9)


def modelled_seconds(settings: Settings) -> float:
    """Return what a run should take on one core, by the shipped table."""
    family = suite.environment(settings.environment).family
    steps, update = _HOSTED if family == "gymnasium" else TABLE.get(family, _OTHER)
    critics = 2 if settings.twin_critics else 1
    passes = (settings.actor_epochs + critics * settings.critic_epochs) / 4
    work = passes * settings.batches_per_update * settings.batch_size / 512
    return settings.updates * (settings.steps_per_update * steps / 1e6 + work * update / 1e3)


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
        return settings not in self.measured and (
            settings.environment not in {*self.by_environment, *TABLE}
        )


def observed(results: Results) -> Rates:
    """Scale the shipped table by the finished runs of a store.

    The median counts: a worker that was paused, or shared its core, says little of the others.
    """
    model = np.full(len(results.configurations), np.nan)
    for k, (settings, _) in enumerate(results.configurations):
        # Else it may be a name of a plugin that is not loaded: nothing here needs its rate.
        with contextlib.suppress(UserError):
            model[k] = modelled_seconds(settings)
    factor = results.numbers("wall_seconds") / model[results.configuration]
    known = results.done & np.isfinite(factor)
    if not known.any():
        return Rates()
    factor = factor[known]
    names = [settings.environment for settings, _ in results.configurations]
    environment = results.of_configurations(names, np.str_)[known]
    return Rates(
        source=f"{len(factor):,} finished runs in the store",
        overall=float(np.median(factor)),
        by_environment={
            str(name): float(np.median(factor[environment == name]))
            for name in np.unique(environment)
        },
    )


# --- asked of a child process ---------------------------------------------------------------------

#: settings on which no size depends
_WITHOUT_SIZE = {"steps", "eval_every", "eval_episodes", "potential", "drift"}


def _key(settings: Settings) -> str:
    """Return what the sizes of a program depend on, as a digest."""
    fields = [settings.model_dump(mode="json", exclude=_WITHOUT_SIZE), machine.versions()]
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]


def _cache(key: str) -> Path:
    """Return the file of the sizes of a program; where the cache is off, one that cannot be."""
    return (machine.cache_folder("sizes") or Path(os.devnull)) / f"sizes-{key}.json"


def known_sizes(configurations: Collection[Settings]) -> dict[Settings, Sizes]:
    """Return the sizes of those programs that were asked before, from the cache."""
    sizes = {}
    for settings in configurations:
        with contextlib.suppress(OSError, ValueError):  # not there, or not ours
            sizes[settings] = Sizes(int(_cache(_key(settings)).read_text()))
    return sizes


def ask_sizes(configurations: Collection[Settings]) -> dict[Settings, Sizes]:
    """Return the sizes of programs; a child process is asked for those that are not known.

    A program that cannot be made has none.
    """
    sizes = known_sizes(configurations)
    keys = {settings: _key(settings) for settings in configurations if settings not in sizes}
    wanted = {key: settings.model_dump(mode="json") for settings, key in keys.items()}
    answers = _ask({"sizes": list(wanted.values())}) if wanted else []
    asked = {list(wanted)[number]: Sizes(lane_bytes) for number, lane_bytes in answers}
    for key, size in asked.items():
        with contextlib.suppress(OSError):  # costs time in the next process, not results
            _cache(key).parent.mkdir(parents=True, exist_ok=True)
            write_file(_cache(key), str(size.lane_bytes).encode())
    return sizes | {settings: asked[key] for settings, key in keys.items() if key in asked}


def measure_seconds(plan: Plan) -> dict[Settings, float]:
    """Return the measured seconds per run of every configuration that is left to do."""
    firsts = {queued.chunk.settings: queued.chunk for queued in reversed(plan.chunks)}
    chunks = [base64.b64encode(chunk.to_bytes()).decode() for chunk in firsts.values()]
    answers = _ask({"function": worker.CHUNK_FUNCTION, "chunks": chunks})
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
            yield number, program_sizes(make_program(Settings(**fields))).lane_bytes
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
