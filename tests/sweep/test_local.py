"""The local engine and the driver, with chunk functions that misbehave."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import standin

from mirrorax.spec.study import expand, parse
from mirrorax.store import load_curves, read_results
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engine import RETRIES, EngineError, InlineEngine
from mirrorax.sweep.engines.local import LocalEngine
from mirrorax.sweep.measure import ask_sizes

HERE = Path(standin.__file__).parent


def search_path(*folders):
    """Return the module search path of child processes, with some folders in front."""
    return os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", search_path(HERE))


def study(lam=(0.1,), extra=""):
    return parse(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
        f"alpha = [0.0, 0.1]\nlam = {list(lam)}\nseeds = 2\n{extra}"
    )


def load(store):
    return read_results(store).table("all")


class Notes:
    """A display that remembers."""

    def __init__(self):
        self.said = []

    def show(self, progress):
        assert progress.seconds_left() >= 0

    def say(self, text):
        self.said.append(text)

    def close(self, progress):
        self.progress = progress
        self.left = progress.seconds_left()


def run(store, declared, function="standin:train_chunk", lanes=1, **options):
    notes = Notes()
    summary = run_study(
        declared,
        store,
        engine=lambda logs: LocalEngine(logs=logs, workers=2, function=function),
        lanes=lanes,
        progress=notes,
        **options,
    )
    return summary, notes


def inline(logs):
    return InlineEngine(standin.train_chunk)


def by_lam(store):
    rows = {}
    for row in load(store).to_pylist():
        rows.setdefault(row["lam"], []).append(row)
    return rows


def test_results_are_those_of_the_inline_engine(tmp_path):
    declared = study(lam=(0.1, 1.0, 10.0), extra="eval_every = 100\n")
    summary, notes = run(tmp_path / "local", declared, lanes=4)
    assert (summary.done, summary.failed, summary.exit_code) == (12, 0, 0)
    run_study(declared, tmp_path / "inline", engine=inline, lanes=4)
    for read in (load, load_curves):
        one, two = (read(tmp_path / name) for name in ("local", "inline"))
        columns = [c for c in one.column_names if c in ("run_id", "returns", "return", "diverged")]
        assert one.select(columns).equals(two.select(columns))
    assert "over 2 seeds" in notes.progress.best()
    assert notes.left < 1e-6
    row = load(tmp_path / "local").to_pylist()[0]
    assert row["device"] == "standin"
    assert row["jax_version"]
    assert len(row["host"]) == 12
    again, _ = run(tmp_path / "local", declared, lanes=4)
    assert (again.done, again.session_done) == (12, 0)


def test_a_chunk_that_kills_its_workers_is_given_up_and_the_rest_goes_on(tmp_path):
    words = {
        standin.KILLED: ["killed by SIGKILL", "it ran 1 lanes", "about to be killed"],
        standin.SEGFAULT: ["killed by SIGSEGV"],
        standin.EXITS: ["exit code 3"],
        standin.RAISES: ["ArithmeticError: this chunk always fails", "a line in the log"],
    }
    declared = parse(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\nalpha = 0.1\nseeds = 1\n'
        f"lam = {[0.1, *words]}\n"
    )
    summary, notes = run(tmp_path / "store", declared)
    assert (summary.done, summary.failed, summary.exit_code) == (1, len(words), 1)
    assert any("failed" in line for line in notes.said)
    rows = by_lam(tmp_path / "store")
    assert {row["status"] for row in rows.pop(0.1)} == {"done"}
    for lam, (row,) in rows.items():
        assert row["status"] == "failed"
        assert not row["returns"]
        assert f"given up after {RETRIES + 1} attempts" in row["failure"]
        for word in words[lam]:
            assert word in row["failure"]


def test_all_runs_of_a_chunk_that_fails_are_failed(tmp_path):
    declared = study(lam=(0.1, standin.RAISES))
    summary = run_study(declared, tmp_path / "store", engine=inline, lanes=8)
    assert (summary.done, summary.failed, summary.exit_code) == (0, 8, 1)


def test_a_worker_that_dies_once_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_FLAG", str(tmp_path / "flag"))
    summary, _ = run(tmp_path / "store", study(lam=(0.1, standin.ONCE)))
    assert (summary.done, summary.failed) == (8, 0)
    assert (tmp_path / "flag").exists()


def test_out_of_memory_is_said_with_the_width_that_fits_and_not_tried_again(tmp_path):
    ask_sizes(expand(study()).configurations)
    summary, _ = run(tmp_path / "store", study(lam=(standin.NO_MEMORY,)))
    assert summary.failed == 4
    for row in load(tmp_path / "store").to_pylist():
        assert "given up after 1 attempts: out of memory at 1 lanes; about" in row["failure"]
        assert "would fit" in row["failure"]


def retried(store, declared, **more):
    """Run what failed again, in this process."""
    return run_study(declared, store, engine=inline, lanes=1, retry_failed=True, **more)


def test_failed_runs_wait_for_retry_failed(tmp_path, monkeypatch):
    declared = study(lam=(0.1, standin.RAISES))
    run_study(declared, tmp_path / "store", engine=inline, lanes=1)
    again = run_study(declared, tmp_path / "store", engine=inline, lanes=1)
    assert (again.done, again.failed, again.session_failed) == (4, 4, 0)
    monkeypatch.setattr(standin, "_misbehave", lambda asked: None)
    fixed = retried(tmp_path / "store", declared)
    assert (fixed.done, fixed.failed, fixed.exit_code) == (8, 0, 0)
    assert set(load(tmp_path / "store")["status"].to_pylist()) == {"done"}


def test_failed_runs_that_were_not_come_to_again_stay_counted(tmp_path):
    declared = study(lam=(standin.RAISES, 0.1))
    before = retried(tmp_path / "store", declared)
    assert before.failed == 4
    stopped = retried(tmp_path / "store", declared, fail_fast=True)
    assert 1 <= stopped.session_failed < 4
    assert (stopped.done, stopped.failed) == (4, 4)


def test_fail_fast_stops_at_the_first_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_SECONDS", "0.3")
    declared = study(lam=(standin.NO_MEMORY, *np.linspace(0.1, 0.9, 9).tolist()))
    summary, _ = run(tmp_path / "store", declared, fail_fast=True)
    assert summary.exit_code == 1
    assert summary.session_failed >= 1
    assert summary.done < 36


def test_workers_that_cannot_start_end_the_sweep_with_the_reason(tmp_path):
    with pytest.raises(EngineError, match="No module named 'nowhere'"):
        run(tmp_path / "store", study(), function="nowhere:train_chunk")


def test_an_outcome_of_other_runs_is_no_result(tmp_path, monkeypatch):
    (tmp_path / "wrong.py").write_text(
        "import standin\n"
        "def train_chunk(chunk, **options):\n"
        "    return standin.train_chunk(chunk.select([0]), **options)\n"
    )
    monkeypatch.setenv("PYTHONPATH", search_path(tmp_path))
    summary, _ = run(tmp_path / "store", study(), function="wrong:train_chunk", lanes=2)
    assert summary.failed == 4
    assert "not a result" in load(tmp_path / "store")["failure"][0].as_py()


def test_a_chunk_that_hangs_is_ended_by_the_timeout(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_SECONDS", "1000")
    monkeypatch.setattr("mirrorax.sweep.engine.RETRIES", 0)
    summary = run_study(
        parse(
            'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
            "alpha = 0\nlam = 1\nseeds = 1\n"
        ),
        tmp_path / "store",
        engine=lambda logs: LocalEngine(
            logs=logs, workers=1, function="standin:train_chunk", chunk_timeout=0.5
        ),
    )
    assert summary.failed == 1
    reason = load(tmp_path / "store")["failure"][0].as_py()
    assert "the chunk took longer than --chunk-timeout 0.5 s; it was stopped" in reason
    assert "SIGKILL" not in reason
    assert "memory" not in reason


def test_workers_are_pinned_single_threaded_nice_and_on_the_cpu(tmp_path):
    """Their sessions are scheduling groups: beside other programs the group's value counts."""
    group = Path("/proc/self/autogroup")
    (tmp_path / "spy.py").write_text(
        "import os, standin\n"
        "def train_chunk(chunk, **options):\n"
        f"    group = {group.exists()} and open({str(group)!r}).read().split()[-1]\n"
        "    cores = len(os.sched_getaffinity(0))\n"
        "    words = [cores, group, os.environ['JAX_PLATFORMS'], os.environ['XLA_FLAGS']]\n"
        "    return standin.train_chunk(chunk, device=' '.join(map(str, words)), **options)\n"
    )
    (tmp_path / "driver.py").write_text(
        "import os, sys, test_local\n"
        "os.nice(7)\n"
        "test_local.run(sys.argv[1], test_local.study(), function='spy:train_chunk', lanes=2)\n"
    )
    path = search_path(Path(__file__).parent, tmp_path)
    command = [sys.executable, tmp_path / "driver.py", tmp_path / "store"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    (device,) = set(load(tmp_path / "store")["device"].to_pylist())
    nice = str(min(os.nice(0) + 7, 19)) if group.exists() else "False"
    assert device.startswith(f"1 {nice} cpu ")
    assert "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" in device


def test_signal_handlers_are_given_back(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    run_study(study(), tmp_path / "store", engine=inline)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
