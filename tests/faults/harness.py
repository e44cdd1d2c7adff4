"""What the fault tests share: a study, driver processes, and a look at what is running."""

import os
import subprocess
import sys
import time
from pathlib import Path

import standin

from mirrorax.spec.study import read
from mirrorax.store.exporting import export
from mirrorax.sweep.driver import SweepSummary, run_study
from mirrorax.sweep.engine import InlineEngine

HERE = Path(__file__).parent

STUDY = """
environments = ["CartPole", "Catch"]
pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
alpha = [0.0, 0.1]
lam = [0.1, 10.0]
seeds = 3
"""


def long_form() -> bool:
    return os.environ.get("MIRRORAX_FAULTS") == "long"


class Driver:
    """Start drivers on one study and compare what they leave."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study = folder / "study.toml"
        self.study.write_text(STUDY)

    def start(self, store: Path, *options: str, **environment: str) -> subprocess.Popen:
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, str(HERE / "drive.py"), str(self.study), str(store), *options],
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, store: Path, *options: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(store, *options, **environment)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    def resume(self, store: Path) -> SweepSummary:
        """Run what is left in this process."""
        engine = InlineEngine(standin.train_chunk)
        return run_study(
            read(self.study), store, engine=lambda logs: engine, lanes=4, progress=False
        )

    def exported(self, store: Path) -> tuple[bytes, bytes]:
        found = []
        for suffix in ("csv", "parquet"):
            target = self.folder / f"exported.{suffix}"
            export(store, target, provenance=False)
            found.append(target.read_bytes())
        return found[0], found[1]


def workers_of(driver: int) -> list[int]:
    """Return the live worker processes that were started by this driver."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if b"mirrorax.sweep.worker" in words and str(driver).encode() in words and state != "Z":
            found.append(int(entry.name))
    return found


def wait_for(condition, seconds=180.0):
    """Wait until a condition holds; return what it gave, or its last value at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)
