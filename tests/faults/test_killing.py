"""Killed at any moment, resumed, and the table is the same to the last byte."""

import os
import random
import signal
import time

import pytest
from harness import long_form, wait_for, workers_of

from mirrorax.store import files
from mirrorax.store.files import POINTS
from mirrorax.store.reading import verify

MOMENTS = 60 if long_form() else 3
POINT_TRIALS = 120 if long_form() else 8


def finish(driver, store, expected):
    """Resume until all is done; the export must be the uninterrupted one's."""
    assert driver.resume(store).exit_code == 0
    assert driver.exported(store) == expected
    sound, wrong = verify(store)
    assert wrong == {}
    assert sound > 0
    assert [entry for entry, _ in files.entries(store, "tmp") if entry != "logs"] == []


@pytest.mark.parametrize("trial", range(POINT_TRIALS))
def test_killed_between_temp_write_rename_and_sync(driver, expected, tmp_path, trial):
    """SIGKILL at a fault point: every point of the protocol, in several of the files written."""
    store = tmp_path / "store"
    # The record of the study, 12 shards and a part are written: len(POINTS) points each.
    kill_at = trial if trial < len(POINTS) else random.Random(trial).randrange(13 * len(POINTS))
    if not long_form():
        kill_at = len(POINTS) * random.Random(trial).randrange(1, 12) + trial
    code, _, _ = driver.run(store, "--kill-at", str(kill_at))
    assert code == -signal.SIGKILL
    for kind in ("shards", "parts", "studies"):  # whatever is visible is whole
        for name in files.listed(store, kind):
            data = files.read_bytes(files.inside(store, kind, name))
            assert data[-4:] == b"PAR1"
    _, wrong = verify(store)
    assert wrong == {}
    finish(driver, store, expected)


@pytest.mark.parametrize("trial", range(MOMENTS))
def test_killed_at_a_random_moment(driver, expected, tmp_path, trial):
    """SIGKILL of the driver, of a worker, or of everything, while chunks are under way."""
    rng = random.Random(1000 + trial)
    store = tmp_path / "store"
    victim = ("driver", "worker", "everything", "driver")[trial % 4]
    process = driver.start(store, "--engine", "local", STANDIN_SECONDS="0.05")
    assert wait_for(lambda: workers_of(process.pid) or process.poll() is not None)
    wait_for(lambda: files.listed(store, "shards") or process.poll() is not None)
    time.sleep(rng.uniform(0.0, 0.5))
    workers = workers_of(process.pid)
    if victim in ("driver", "everything"):
        process.kill()
    if victim in ("worker", "everything") and workers:
        for pid in workers if victim == "everything" else [rng.choice(workers)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
    _, err = process.communicate(timeout=600)
    if victim == "worker":  # the driver replaces it and goes on
        assert process.returncode == 0, err
        assert driver.exported(store) == expected
    assert wait_for(lambda: not workers_of(process.pid)), "a worker outlived its driver"
    finish(driver, store, expected)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_cleanly_and_the_next_run_resumes(driver, expected, tmp_path, number, code):
    store = tmp_path / "store"
    process = driver.start(store, "--engine", "local", STANDIN_SECONDS="20", STANDIN_SEGMENTS="400")
    assert wait_for(lambda: len(workers_of(process.pid)) == 2)
    wait_for(lambda: (store / "live.json").exists())
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == code
    assert workers_of(process.pid) == []
    assert not (store / "holder.json").exists()
    assert not (store / "live.json").exists()
    finish(driver, store, expected)


def test_ctrl_c_does_not_wait_for_a_compilation(driver, tmp_path):
    store = tmp_path / "store"
    process = driver.start(store, "--engine", "local", STANDIN_SECONDS="600", STANDIN_SEGMENTS="1")
    assert wait_for(lambda: len(workers_of(process.pid)) == 2)
    wait_for(lambda: (store / "live.json").exists())
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=8)  # less than the time that a segment is given
    assert process.returncode == 130
    assert workers_of(process.pid) == []


def test_a_second_ctrl_c_is_immediate_and_leaves_nobody(driver, expected, tmp_path):
    store = tmp_path / "store"
    compiled = tmp_path / "compiled"
    compiled.mkdir()
    slow = {"STANDIN_SECONDS": "600", "STANDIN_SEGMENTS": "1", "STANDIN_COMPILED": str(compiled)}
    process = driver.start(store, "--engine", "local", **slow)
    assert wait_for(lambda: len(list(compiled.iterdir())) == 2)  # both have reported a segment
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None, "the chunk has no segment to stop at: the driver waits"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert wait_for(lambda: not workers_of(process.pid))
    finish(driver, store, expected)
