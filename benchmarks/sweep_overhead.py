"""Measure what the local engine adds to its chunks' own time.

python benchmarks/sweep_overhead.py [SECONDS_PER_CHUNK] [CHUNKS]

The overhead is the wall time of a whole sweep (start of the driver's work to the last commit,
workers' start included) over the sum of the chunks' compute divided by the number of workers. The
chunks stand in for the trainer: each waits its time in a hundred segments.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from mirrorax.runs.chunk import Outcome
from mirrorax.spec.study import parse
from mirrorax.store import read_results
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engines.local import LocalEngine

WORKERS = 2


def waiting(chunk, *, on_segment=None):
    start = time.perf_counter()
    for segment in range(100):
        time.sleep(float(os.environ["CHUNK_SECONDS"]) / 100)
        if on_segment is not None:
            on_segment(SimpleNamespace(fraction=(segment + 1) / 100))
    returns = np.zeros((len(chunk), chunk.settings.eval_episodes))
    never, origin = np.full(len(chunk), -1), {"lanes": chunk.lanes, "device": "standin"}
    seconds = time.perf_counter() - start
    return Outcome(chunk, returns, returns, never, seconds, (0.0, 500.0), origin)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    chunks = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    os.environ["CHUNK_SECONDS"] = str(seconds)
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    study = parse(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
        f"alpha = 0.1\nlam = 0.1\nseeds = {32 * chunks}\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        start = time.perf_counter()
        run_study(
            study,
            store,
            engine=lambda logs: LocalEngine(
                logs=logs, workers=WORKERS, function="sweep_overhead:waiting"
            ),
            lanes=32,
            progress=False,
        )
        wall = time.perf_counter() - start
        compute = float(read_results(store).numbers("wall_seconds").sum())
    ideal = compute / WORKERS
    print(
        f"{chunks} chunks of {seconds:g} s on {WORKERS} workers: {wall:.2f} s for {ideal:.2f} s "
        f"of work: overhead {100 * (wall / ideal - 1):.2f}%"
    )


if __name__ == "__main__":
    main()
