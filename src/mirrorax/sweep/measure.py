"""Time one segment of each configuration, in a child process: `python -m mirrorax.sweep.measure`.

Reads {"function": ..., "tasks": [...]} from standard input, writes one line of JSON per
configuration. Nothing is written to a store.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from typing import Any

from mirrorax.runs.settings import Settings
from mirrorax.sweep import execute, wire
from mirrorax.sweep.engines.local import CPU_ENVIRONMENT, CPU_XLA_FLAGS
from mirrorax.sweep.plan import Plan
from mirrorax.sweep.task import Stop


def _time_one(function: Any, message: dict[str, Any]) -> dict[str, float]:
    """Return the seconds and the fraction of a chunk between its first two segments."""
    marks: list[tuple[float, float]] = []

    def on_segment(progress: Any) -> None:
        marks.append((time.perf_counter(), execute.fraction_of(progress)))
        if len(marks) >= 2:
            raise Stop

    start = time.perf_counter()
    try:
        execute.execute(function, message, on_segment)
    except Stop:
        (first, done_first), (second, done_second) = marks[:2]
        if done_second > done_first:
            return {"seconds": (second - first) / (done_second - done_first)}
    # A chunk of one segment: compilation cannot be told apart, so the whole of it counts.
    return {"seconds": time.perf_counter() - start}


def main() -> int:
    """Measure what standard input asks for."""
    (request,) = wire.Decoder().feed(base64.b64decode(sys.stdin.read()))
    function = execute.resolve(request["function"])
    output, sys.stdout = sys.stdout, sys.stderr
    for message in request["tasks"]:
        answer = _time_one(function, message)
        print(json.dumps({"number": message["number"], **answer}), file=output, flush=True)
    return 0


def measure(plan: Plan, function: str) -> dict[Settings, float]:
    """Return the measured seconds per run of every configuration that is left to do."""
    firsts = {chunk.configuration: chunk for chunk in reversed(plan.chunks)}
    tasks = [execute.payload(plan.task(chunk)) for chunk in firsts.values()]
    request = wire.encode({"function": function, "tasks": tasks})
    flags = f"{os.environ.get('XLA_FLAGS', '')} {CPU_XLA_FLAGS}".strip()
    done = subprocess.run(
        [sys.executable, "-P", "-m", "mirrorax.sweep.measure"],
        input=base64.b64encode(request),
        capture_output=True,
        env={**os.environ, **CPU_ENVIRONMENT, "XLA_FLAGS": flags},
        check=False,
    )
    if done.returncode != 0:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"measuring failed: {' '.join(tail)}")
    by_number = {chunk.number: chunk for chunk in firsts.values()}
    found = {}
    for line in done.stdout.decode().splitlines():
        answer = json.loads(line)
        chunk = by_number[answer["number"]]
        settings = plan.runs.configurations[chunk.configuration]
        found[settings] = answer["seconds"] / plan.lanes
    return found


if __name__ == "__main__":
    sys.exit(main())
