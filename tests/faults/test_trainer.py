"""The same proofs with the real trainer, on runs that are as small as they can be."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys

import pytest
from harness import HERE, long_form, wait_for, workers_of

from mirrorax.cli import main
from mirrorax.store import files, read_results
from mirrorax.store.exporting import export

STUDY = """
environments = ["Catch"]
pairs = [["entropy", "kl"]]
alpha = [0.0, 0.1]
lam = [0.1, 10.0]
seeds = 3
steps = 10240
num_envs = 4
env_steps_per_update = 32
batch_size = 16
buffer_size = 512
hidden = [8]
eval_episodes = 2
"""
COMMAND = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"


def finished(*words):
    """Run a command in this process, its workers in theirs; return what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["sweep", *map(str, words)]) == 0
    return out.getvalue()


def exported(store, folder):
    target = folder / f"{store.name}.csv"
    export(store, target, provenance=False)
    return target.read_bytes()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    path = tmp_path_factory.mktemp("trainer") / "study.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(scope="module")
def uninterrupted(study):
    """One worker, nothing happens to it."""
    store = study.parent / "uninterrupted"
    out = finished("run", study, "--store", store, "--lanes", 4, "--workers", 1, "--quiet")
    assert out == "12 of 12 runs done, 0 failed\n"
    return store


def test_killed_worker_and_driver_change_no_bit(study, uninterrupted, tmp_path):
    store = tmp_path / "store"
    words = ("sweep", "run", study, "--store", store, "--lanes", 4, "--workers", 2, "--quiet")
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, words)])
    assert wait_for(lambda: files.listed(store, "shards") if store.exists() else None, 400)
    for worker in workers_of(process.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    process.kill()
    process.communicate(timeout=120)
    assert wait_for(lambda: not workers_of(process.pid))
    done = len(read_results(store))
    out = finished("run", study, "--store", store, "--quiet")  # the width is the store's
    assert out == "12 of 12 runs done, 0 failed\n"
    assert 4 <= done <= 12
    assert exported(store, tmp_path) == exported(uninterrupted, tmp_path)


def test_what_a_run_leaves_behind(study, uninterrupted, tmp_path, capsys):
    table = read_results(uninterrupted).table("all")
    assert set(table["status"].to_pylist()) == {"done"}
    assert {len(returns) for returns in table["returns"].to_pylist()} == {2}
    for returns in table["returns"].to_pylist():
        assert all(abs(value) == 1.0 for value in returns)  # Catch: caught or missed
    for name in ("jax_version", "gymnax_version", "numpy_version", "device", "layout", "host"):
        assert None not in table[name].to_pylist()
    assert set(table["gymnasium_version"].to_pylist()) == {None}  # which had no part in it
    assert set(table["lanes"].to_pylist()) == {4}
    assert main(["sweep", "plan", str(study), "--store", str(uninterrupted)]) == 0
    assert "nothing is left to do" in capsys.readouterr().out
    # What more seeds would take is told from the runs that are there.
    larger = tmp_path / "larger.toml"
    larger.write_text(STUDY.replace("seeds = 3", "seeds = 9"))
    assert main(["sweep", "plan", str(larger), "--store", str(uninterrupted)]) == 0
    assert "finished runs in the store" in capsys.readouterr().out


def test_measure_times_the_real_trainer(study, tmp_path, capsys):
    words = ("plan", study, "--store", tmp_path / "store", "--lanes", 4, "--measure")
    assert main(["sweep", *map(str, words)]) == 0
    assert "(from what was measured just now)" in capsys.readouterr().out
    assert not (tmp_path / "store").exists()


@pytest.mark.skipif(not long_form(), reason="long form only")
def test_ray_and_local_agree_to_the_last_bit(study, uninterrupted, tmp_path):
    pytest.importorskip("ray")
    store = tmp_path / "store"
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [
            *(sys.executable, str(HERE / "ray_cluster.py"), str(study), str(store)),
            *("mirrorax.mdpo.session:train_chunk", "4"),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["done"], told["failed"]) == (12, 0)
    assert exported(store, tmp_path) == exported(uninterrupted, tmp_path)
