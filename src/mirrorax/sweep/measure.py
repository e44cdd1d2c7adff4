"""What only the real program knows: its sizes, and how long a segment of it takes.

The planner does not import jax. It asks a child process, `python -m mirrorax.sweep.measure`, which
reads one JSON object from standard input and writes one line of JSON per answer. Sizes are kept in
a cache on disk; nothing is written to a store.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import plugins
from mirrorax.mdpo.compilation import cache_folder
from mirrorax.mdpo.memory import Sizes
from mirrorax.runs import provenance
from mirrorax.runs.settings import Settings
from mirrorax.sweep import execute, processes

if TYPE_CHECKING:
    from mirrorax.sweep.plan import Plan

#: settings on which no size depends
_WITHOUT_SIZE = {"steps", "eval_every", "eval_episodes", "potential", "drift"}

_known: dict[str, Sizes] = {}


def _key(settings: Settings) -> str:
    """Return what the sizes of a program depend on, as a digest."""
    fields = [settings.model_dump(mode="json", exclude=_WITHOUT_SIZE), provenance.versions()]
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
            _keep(path, answer)


def _keep(path: Path, sizes: list[int]) -> None:
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(sizes))
        os.replace(temporary, path)
    except OSError:
        pass  # a home that cannot be written costs time, not results


def measure_seconds(plan: Plan, function: str) -> dict[Settings, float]:
    """Return the measured seconds per run of every configuration that is left to do."""
    firsts = {chunk.configuration: chunk for chunk in reversed(plan.chunks)}
    chunks = [base64.b64encode(plan.chunk(c).to_bytes()).decode() for c in firsts.values()]
    answers = _ask({"function": function, "chunks": chunks})
    configurations = [plan.runs.configurations[which] for which in firsts]
    return {configurations[number]: seconds / plan.lanes for number, seconds in answers}


def _ask(request: dict[str, Any]) -> list[tuple[int, Any]]:
    """Return the answers of a child process, each with the place of its question."""
    child = subprocess.run(
        [sys.executable, "-P", "-m", "mirrorax.sweep.measure"],
        input=json.dumps({**request, "plugins": plugins.loaded()}),
        capture_output=True,
        text=True,
        env=processes.environment(processes.ONE_CPU),
        check=False,
    )
    if child.returncode != 0:
        last = " ".join(child.stderr.strip().splitlines()[-1:])
        raise RuntimeError(f"measuring failed: {last}")
    return [tuple(json.loads(line)) for line in child.stdout.splitlines()]


# --- in the child ---


def _sizes(wanted: list[dict[str, Any]]) -> Iterator[tuple[int, Sizes]]:
    from mirrorax.mdpo.memory import program_sizes
    from mirrorax.mdpo.program import make_program

    for number, fields in enumerate(wanted):
        try:
            yield number, program_sizes(make_program(Settings(**fields)))
        except Exception as error:  # a mistake in a plugin shows when it is trained
            print(f"{fields.get('environment')}: {error}", file=sys.stderr)


def _seconds(
    function: execute.ChunkFunction, request: dict[str, Any]
) -> Iterator[tuple[int, float]]:
    for number, text in enumerate(request["chunks"]):
        yield number, _time_chunk(function, base64.b64decode(text), request["plugins"])


def _time_chunk(function: execute.ChunkFunction, data: bytes, driver_plugins: list[str]) -> float:
    """Return the seconds of a whole chunk, from the time between its first two segments."""
    marks: list[tuple[float, float]] = []

    def on_segment(progress: Any) -> None:
        marks.append((time.perf_counter(), progress.fraction))
        if len(marks) >= 2:
            raise execute.StopChunk

    start = time.perf_counter()
    try:
        execute.run_chunk(function, data, driver_plugins, on_segment)
    except execute.StopChunk:
        (first, done_first), (second, done_second) = marks
        if done_second > done_first:
            return (second - first) / (done_second - done_first)
    # A chunk of one segment: compilation cannot be told apart, so the whole of it counts.
    return time.perf_counter() - start


def main() -> int:
    """Answer what standard input asks."""
    request = json.load(sys.stdin)
    plugins.load_all(request["plugins"])
    output, sys.stdout = sys.stdout, sys.stderr
    answers: Iterator[tuple[int, Any]] = _sizes(request.get("sizes", []))
    if "chunks" in request:
        answers = _seconds(execute.resolve(request["function"]), request)
    for answer in answers:
        print(json.dumps(answer), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
