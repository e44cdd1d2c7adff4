"""The local engine and the driver, with chunk functions that misbehave."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import standin
from mirrorax.sweep.wire import Decoder, encode

from mirrorax.spec.study import parse
from mirrorax.store.reading import load, load_curves
from mirrorax.sweep.driver import sweep
from mirrorax.sweep.engine import RETRIES, EngineError
from mirrorax.sweep.engines.inline import InlineEngine
from mirrorax.sweep.engines.local import LocalEngine

HERE = Path(standin.__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def study(lam=(0.1,), extra=""):
    return parse(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
        f"alpha = [0.0, 0.1]\nlam = {list(lam)}\nseeds = 2\n{extra}"
    )


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
    summary = sweep(
        declared,
        store,
        lambda logs: LocalEngine(logs=logs, workers=2, function=function),
        lanes=lanes,
        display=notes,
        **options,
    )
    return summary, notes


def by_lam(store):
    rows = {}
    for row in load(store).to_pylist():
        rows.setdefault(row["lam"], []).append(row)
    return rows


def test_results_are_those_of_the_inline_engine(tmp_path):
    declared = study(lam=(0.1, 1.0, 10.0), extra="eval_every = 100\n")
    summary, notes = run(tmp_path / "local", declared, lanes=4)
    assert (summary.done, summary.failed, summary.exit_code) == (12, 0, 0)
    sweep(declared, tmp_path / "inline", lambda logs: InlineEngine(standin.train_chunk), lanes=4)
    for read in (load, load_curves):
        one, two = (read(tmp_path / name) for name in ("local", "inline"))
        columns = [c for c in one.column_names if c in ("run_id", "returns", "return", "diverged")]
        assert one.select(columns).equals(two.select(columns))
    assert "over 2" in notes.progress.best()
    assert notes.left < 1e-6
    row = load(tmp_path / "local").to_pylist()[0]
    assert row["device"] == "standin"
    assert row["jax_version"]
    assert len(row["host"]) == 12
    again, _ = run(tmp_path / "local", declared, lanes=4)
    assert (again.done, again.session_done) == (12, 0)


@pytest.mark.parametrize(
    ("lam", "words"),
    [
        (standin.KILLED, ["killed by SIGKILL", "lanes", "would fit", "about to be killed"]),
        (standin.SEGFAULT, ["killed by SIGSEGV"]),
        (standin.EXITS, ["exit code 3"]),
        (standin.RAISES, ["ArithmeticError: this chunk always fails", "a line in the log"]),
    ],
)
def test_a_chunk_that_kills_its_workers_is_given_up_and_the_rest_goes_on(tmp_path, lam, words):
    summary, notes = run(tmp_path / "store", study(lam=(0.1, lam)), lanes=8)
    assert (summary.done, summary.failed, summary.exit_code) == (0, 8, 1)  # one chunk, all its runs
    summary, notes = run(tmp_path / "other", study(lam=(0.1, lam)), lanes=1)
    assert (summary.done, summary.failed, summary.exit_code) == (4, 4, 1)
    assert any("failed" in line for line in notes.said)
    rows = by_lam(tmp_path / "other")
    assert {row["status"] for row in rows[0.1]} == {"done"}
    for row in rows[lam]:
        assert row["status"] == "failed"
        assert row["returns"] is None
        assert f"given up after {RETRIES + 1} attempts" in row["failure"]
        for word in words:
            assert word in row["failure"]


def test_a_worker_that_dies_once_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_FLAG", str(tmp_path / "flag"))
    summary, _ = run(tmp_path / "store", study(lam=(0.1, standin.ONCE)))
    assert (summary.done, summary.failed) == (8, 0)
    assert (tmp_path / "flag").exists()


def test_out_of_memory_is_said_with_the_width_that_fits_and_not_tried_again(tmp_path):
    summary, _ = run(tmp_path / "store", study(lam=(standin.NO_MEMORY,)))
    assert summary.failed == 4
    for row in load(tmp_path / "store").to_pylist():
        assert "given up after 1 attempts: out of memory at 1 lanes; about" in row["failure"]
        assert "would fit" in row["failure"]


def retried(store, declared, **more):
    """Run what failed again, in this process."""

    def engine(logs):
        return InlineEngine(standin.train_chunk)

    return sweep(declared, store, engine, lanes=1, retry_failed=True, **more)


def test_failed_runs_wait_for_retry_failed(tmp_path, monkeypatch):
    declared = study(lam=(0.1, standin.RAISES))
    run(tmp_path / "store", declared)
    again, _ = run(tmp_path / "store", declared)
    assert (again.done, again.failed, again.session_failed) == (4, 4, 0)
    monkeypatch.setattr(standin, "_misbehave", lambda asked: None)
    fixed = retried(tmp_path / "store", declared)
    assert (fixed.done, fixed.failed, fixed.exit_code) == (8, 0, 0)
    assert set(load(tmp_path / "store")["status"].to_pylist()) == {"done"}


def test_failed_runs_that_were_not_come_to_again_stay_counted(tmp_path):
    declared = study(lam=(standin.RAISES, 0.1))
    before, _ = run(tmp_path / "store", declared)
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
        run(tmp_path / "store", study(), function="nowhere:run_chunk")


def test_a_result_of_the_wrong_shape_is_no_result(tmp_path, monkeypatch):
    (tmp_path / "wrong.py").write_text(
        "import standin\n"
        "def run_chunk(settings, columns, keys, **options):\n"
        "    found = standin.train_chunk(settings, columns, keys, **options)\n"
        "    found.returns = found.returns[:-1]\n"
        "    return found\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(tmp_path)]))
    summary, _ = run(tmp_path / "store", study(), function="wrong:run_chunk")
    assert summary.failed == 4
    assert "not a result" in load(tmp_path / "store")["failure"][0].as_py()


def test_a_chunk_that_hangs_is_ended_by_the_timeout(tmp_path, monkeypatch):
    monkeypatch.setenv("STANDIN_SECONDS", "1000")
    monkeypatch.setattr("mirrorax.sweep.engines.local.RETRIES", 0)
    summary = sweep(
        parse(
            'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
            "alpha = 0\nlam = 1\nseeds = 1\n"
        ),
        tmp_path / "store",
        lambda logs: LocalEngine(
            logs=logs, workers=1, function="standin:train_chunk", chunk_timeout=0.5
        ),
    )
    assert summary.failed == 1
    reason = load(tmp_path / "store")["failure"][0].as_py()
    assert "the chunk took longer than --chunk-timeout 0.5 s; it was stopped" in reason
    assert "SIGKILL" not in reason
    assert "memory" not in reason


def test_workers_are_pinned_single_threaded_and_on_the_cpu(tmp_path, monkeypatch):
    (tmp_path / "spy.py").write_text(
        "import os, standin\n"
        "def run_chunk(settings, columns, keys, **options):\n"
        "    found = standin.train_chunk(settings, columns, keys, **options)\n"
        "    found.device = ' '.join([str(len(os.sched_getaffinity(0))),\n"
        "        os.environ['JAX_PLATFORMS'], os.environ['XLA_FLAGS']])\n"
        "    return found\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(tmp_path)]))
    run(tmp_path / "store", study(), function="spy:run_chunk")
    devices = set(load(tmp_path / "store")["device"].to_pylist())
    (device,) = devices
    assert device.startswith("1 cpu ")
    assert "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1" in device


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="no autogroups here")
def test_workers_are_as_nice_as_the_sweep(tmp_path):
    """Their sessions are scheduling groups: beside other programs the group's value counts."""
    (tmp_path / "spy.py").write_text(
        "import standin\n"
        "def run_chunk(settings, columns, keys, **options):\n"
        "    found = standin.train_chunk(settings, columns, keys, **options)\n"
        "    found.device = open('/proc/self/autogroup').read().split()[-1]\n"
        "    return found\n"
    )
    (tmp_path / "driver.py").write_text(
        "import os, sys, test_local\n"
        "os.nice(7)\n"
        "test_local.run(sys.argv[1], test_local.study(), function='spy:run_chunk')\n"
    )
    path = os.pathsep.join(map(str, (HERE, Path(__file__).parent, tmp_path)))
    command = [sys.executable, tmp_path / "driver.py", tmp_path / "store"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    assert set(load(tmp_path / "store")["device"].to_pylist()) == {str(min(os.nice(0) + 7, 19))}


def test_signal_handlers_are_given_back(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    sweep(study(), tmp_path / "store", lambda logs: InlineEngine(standin.train_chunk))
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_messages_survive_any_cutting_of_the_stream():
    message = {
        "kind": "task",
        "settings": {"hidden": [64, 64], "tau": 0.95, "w": None, "name": "ä\0"},
        "columns": {"alpha": np.array([0.1, np.nan]), "seed": np.array([2**62, 0])},
        "keys": np.arange(4, dtype=np.uint32).reshape(2, 2),
        "empty": np.zeros((0, 3)),
    }
    data = encode(message) * 3
    for size in (1, 7, 1000, len(data)):
        decoder = Decoder()
        found = []
        for start in range(0, len(data), size):
            found += decoder.feed(data[start : start + size])
        assert len(found) == 3
        for copy in found:
            assert copy["settings"] == message["settings"]
            for name in ("keys", "empty"):
                assert copy[name].dtype == message[name].dtype
                assert copy[name].shape == message[name].shape
                assert (copy[name] == message[name]).all()
            assert copy["columns"]["seed"].tolist() == [2**62, 0]
            assert np.isnan(copy["columns"]["alpha"][1])
    with pytest.raises(TypeError):
        encode({"bad": object()})
    with pytest.raises(TypeError):
        encode({"bad": np.array([object()])})
