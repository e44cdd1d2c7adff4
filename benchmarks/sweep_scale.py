"""Measure planning, storing and loading half a million runs: the size of the paper's whole study.

python benchmarks/sweep_scale.py [FOLDER]

Makes a store of 504,600 runs with an engine whose chunks finish at once (this is the driver's
throughput), and times `plan` when half are done, `status` and `load` when all are, each in a fresh
process with its peak memory. FOLDER (about 1 GB) is kept if named, and continued if it is there.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mirrorax.runs.chunk import Outcome
from mirrorax.spec.study import expand, read
from mirrorax.store import files, reading
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engine import InlineEngine

STUDY = """
environments = ["CartPole", "Acrobot", "Catch", "DeepSea"]
pairs = [
  ["entropy", "kl"], ["max", "bregman(max)"], ["entropy", "forward_kl"],
  ["tsallis(0.5)", "kl"], ["lp(2)", "kl"],
]
schedules = [
  ["constant", "constant"], ["linear", "constant"], ["constant", "linear"],
  ["linear", "linear"], ["learned", "constant"], ["learned", "linear"],
]
alpha = { log = [1e-3, 1e2], points = 28, plus = [0.0] }
w = { linear = [0.0, 1.0], points = 29 }
lam = { log = [1e-3, 1e2], points = 28, plus = [0.0] }
seeds = 5
"""
COMMAND = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"
LOAD = (
    "import sys; from mirrorax.store import read_results;"
    "print(len(read_results(sys.argv[1])), 'runs')"
)


def instant(chunk, *, on_segment=None):
    """Stand in for the trainer: other numbers for every run, in no time."""
    count = len(chunk)
    noise = np.resize(chunk.keys / 2**32, (count, chunk.settings.eval_episodes)) * 100
    never, origin = np.full(count, -1), {"lanes": chunk.lanes, "device": "standin"}
    return Outcome(chunk, noise, noise + 1, never, 7.5 * count, (0.0, 101.0), origin)


def timed(name: str, *command: str) -> None:
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", *command], stdout=subprocess.PIPE, text=True)
    out, _ = process.communicate()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"{name}: {seconds:.2f} s, exit code {process.returncode}; peak so far {peak:.2f} GiB")
    print("    " + (out.splitlines()[0] if out else ""), flush=True)


def fill(study: Path, store: Path) -> None:
    before = time.perf_counter()
    engine = lambda logs: InlineEngine(instant)  # noqa: E731
    summary = run_study(read(study), store, engine=engine, lanes=32, progress=False)
    seconds = time.perf_counter() - before
    rate = summary.session_done / seconds
    print(f"driver: {summary.session_done:,} runs in {seconds:.1f} s = {rate:,.0f} runs/s")


def halve(store: Path, half: Path) -> None:
    """Make a store that has every second shard of another."""
    root = files.create(half)
    for name in files.listed(store, "studies"):
        os.link(store / "studies" / name, root / "studies" / name)
    for name in files.listed(store, "shards")[::2]:
        os.link(store / "shards" / name, root / "shards" / name)
    reading.consolidate(root)


def main() -> None:
    named = sys.argv[1] if len(sys.argv) > 1 else None
    folder = Path(named or tempfile.mkdtemp(prefix="mirrorax-"))
    folder.mkdir(exist_ok=True)
    study, store, half = folder / "study.toml", folder / "store", folder / "half"
    study.write_text(STUDY)

    start = time.perf_counter()
    runs = expand(read(study))
    print(f"expand and hash {len(runs):,} runs: {time.perf_counter() - start:.2f} s")
    del runs
    timed("--help", COMMAND, "sweep", "--help")
    fill(study, store)
    if not half.exists():
        halve(store, half)
    for name, place in (("half done, study known", half), ("nothing known", folder / "absent")):
        timed(f"plan, {name}", COMMAND, "sweep", "plan", str(study), "--store", str(place))
    timed("status", COMMAND, "sweep", "status", "--store", str(store))
    timed("load", LOAD, str(store))
    timed("verify", COMMAND, "sweep", "verify", "--store", str(store))
    if named is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
