"""`mirrorax sweep` from the command line, with the stand-in for the trainer."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import standin

from mirrorax.cli import main
from mirrorax.store import files, read_results
from mirrorax.store.store import Store
from mirrorax.sweep import worker

STUDY = """
environments = ["CartPole", "Catch"]
pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
alpha = [0.0, 0.1]
lam = [0.1, 10.0]
seeds = 2
"""


def load(store):
    return read_results(store).table("all")


@pytest.fixture
def study(tmp_path, monkeypatch):
    path = [str(Path(standin.__file__).parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setattr(worker, "CHUNK_FUNCTION", "standin:train_chunk")
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def call(capsys, *words):
    code = main(["sweep", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_plan_run_status_verify_export(study, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MIRRORAX_COMPILE_CACHE", str(tmp_path / "cache"))
    store = tmp_path / "store"
    code, out, _ = call(capsys, "plan", study, "--store", store, "--workers", 3)
    assert code == 0
    assert re.search(r"runs in all +32\n", out)
    assert re.search(r"to do +32\n", out)
    assert re.search(r"chunks +4 of up to 8 lanes, 4 configurations\n", out)
    assert re.search(r"memory +checked when the sweep starts\n", out)
    assert re.search(r"time left +about .* on 3 workers \(from the shipped table\)\n", out)
    assert "guess" not in out
    assert not store.exists(), "plan writes nothing"

    code, out, err = call(capsys, "run", study, "--store", store, "--workers", 2)
    assert (code, out) == (0, "32 of 32 runs done, 0 failed\n")
    assert "32 of 32 runs" in err
    assert err.endswith(f"look at it: mirrorax report {store} --open\n")

    code, out, _ = call(capsys, "plan", study, "--store", store)
    assert re.search(r"done +32\n", out)
    assert re.search(r"to do +0\n", out)
    assert out.endswith("\nnothing is left to do\n")
    assert "GiB" not in out
    study.write_text(STUDY.replace("seeds = 2", "seeds = 3"))
    code, out, _ = call(capsys, "plan", study, "--store", store)
    assert re.search(r"to do +16\n", out)
    assert re.search(r"memory +about \d+\.\d GiB in each worker\n", out)
    assert "finished runs in the store" in out
    study.write_text(STUDY)

    code, out, _ = call(capsys, "status", "--store", store)
    assert code == 0
    assert out.startswith("study: 32 of 32 runs done, 0 failed,")
    assert "no sweep is running" in out
    assert re.search(r"Catch +max bregman\(max\) +8 +8 +0 +0 +\d\n", out)

    code, out, _ = call(capsys, "verify", "--store", store)
    assert (code, out) == (0, "6 files sound, 0 damaged\n")

    for name in ("runs.csv", "runs.parquet"):
        code, out, _ = call(capsys, "export", "--store", store, "--to", tmp_path / name)
        assert (code, out) == (0, f"32 runs written to {tmp_path / name}\n")
    assert load(tmp_path / "runs.parquet").equals(load(store))

    code, out, _ = call(capsys, "run", study, "--store", store, "--quiet", "--workers", 1)
    assert (code, out) == (0, "32 of 32 runs done, 0 failed\n")


def test_status_needs_only_the_store_and_counts_failures(study, tmp_path, capsys):
    text = STUDY.replace("10.0]", f"{standin.RAISES}]")
    study.write_text(text)
    store = tmp_path / "store"
    code, out, err = call(capsys, "run", study, "--store", store, "--lanes", 1, "--workers", 1)
    assert code == 1
    assert out == "16 of 32 runs done, 16 failed\n"
    assert "failed: CartPole entropy kl, 1 run: given up after 4 attempts: ArithmeticError" in err
    code, out, _ = call(capsys, "plan", study, "--store", store)
    assert out.endswith("nothing is left to do; --retry-failed runs the failed runs again\n")
    code, out, _ = call(capsys, "plan", study, "--store", store, "--retry-failed")
    assert re.search(r"to do +16\n", out)
    assert "nothing is left" not in out
    study.unlink()
    code, out, _ = call(capsys, "status", "--store", store)
    assert "16 of 32 runs done, 16 failed" in out


def test_a_study_edited_between_runs(study, tmp_path, capsys):
    store = tmp_path / "store"
    call(capsys, "run", study, "--store", store, "--quiet", "--workers", 1)
    study.write_text(STUDY.replace("seeds = 2", "seeds = 3").replace(', "Catch"', ""))
    code, out, err = call(capsys, "run", study, "--store", store)
    assert code == 0
    assert out.startswith("24 of 24 runs done")
    assert "16 runs in the store are not in this study; they are kept" in err
    assert len(load(store)) == 40
    _, out, _ = call(capsys, "status", "--store", store)
    assert "24 of 24 runs done" in out
    assert "16 further runs in the store are not in this study" in out


def test_a_damaged_shard_is_named_set_aside_and_run_again(study, tmp_path, capsys):
    store = tmp_path / "store"
    call(capsys, "run", study, "--store", store, "--quiet", "--workers", 1)
    before = load(store)
    victim = store / "shards" / files.listed(store, "shards")[2]
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 4
    victim.write_bytes(data)
    code, out, _ = call(capsys, "verify", "--store", store)
    assert code == 1
    assert f"damaged: shards/{victim.name}: " in out
    assert list((store / "parts").iterdir()), "a copy still has its rows"
    _, out, _ = call(capsys, "plan", study, "--store", store)
    assert re.search(r"done +24\n", out)
    assert re.search(r"to do +8\n", out)
    assert f"runs its runs again: shards/{victim.name}\n" in out
    assert victim.exists(), "plan writes nothing"
    code, out, err = call(capsys, "run", study, "--store", store)
    assert (code, out) == (0, "32 of 32 runs done, 0 failed\n")
    assert f"damaged, set aside; its runs are run again: shards/{victim.name}" in err
    after = load(store)
    results = ["run_id", "returns", "greedy_returns", "diverged_at", "status"]
    assert after.select(results).equals(before.select(results))
    assert len(list((store / "quarantine").iterdir())) == 1


def test_an_export_without_the_runs_of_a_damaged_shard_says_so_and_is_exit_code_1(
    study, tmp_path, capsys
):
    store = tmp_path / "store"
    call(capsys, "run", study, "--store", store, "--quiet", "--workers", 1)
    for part in (store / "parts").iterdir():
        part.unlink()
    victim = store / "shards" / files.listed(store, "shards")[0]
    victim.write_bytes(victim.read_bytes()[:-9])
    code, out, err = call(capsys, "export", "--store", store, "--to", tmp_path / "runs.csv")
    assert (code, out) == (1, f"24 runs written to {tmp_path / 'runs.csv'}\n")
    assert err.startswith(f"mirrorax: note: {store}: shard left out: {victim.name}: ")
    assert len(err.splitlines()) == 1


BAD = STUDY + "stepz = 3\nactivation = 'gelu'\n"


@pytest.mark.parametrize("action", ["plan", "run"])
def test_a_bad_study_is_exit_code_2_and_nothing_is_written(study, tmp_path, capsys, action):
    study.write_text(BAD)
    code, out, err = call(capsys, action, study, "--store", tmp_path / "store")
    assert (code, out) == (2, "")
    assert "2 mistakes" in err
    assert "stepz: 3: no such key; did you mean 'steps'?" in err
    assert "activation: 'gelu': must be 'tanh' or 'relu'" in err
    assert "Traceback" not in err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["plan"],
        ["nothing"],
        [],
        ["run", "STUDY"],
        ["run", "STUDY", "--store", "STORE", "--lanes", "0"],
        ["run", "STUDY", "--store", "STORE", "--lanes", "many"],
        ["run", "STUDY", "--store", "STORE", "--engine", "slurm"],
        ["run", "absent.toml", "--store", "STORE"],
        ["plan", "STUDY", "--store", "STUDY"],
        ["status", "--store", "absent"],
        ["verify", "--store", "absent"],
        ["export", "--store", "absent", "--to", "x.csv"],
        ["export", "--store", "absent", "--to", "x.txt"],
        ["status", "--store", "a\0b"],
    ],
)
def test_mistakes_on_the_command_line_are_exit_code_2(study, tmp_path, capsys, words):
    real = {"STUDY": str(study), "STORE": str(tmp_path / "store")}
    code, _, err = call(capsys, *(real.get(word, word) for word in words))
    assert code == 2
    assert err.startswith("mirrorax: error: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "--engine", "ray", "--chunk-timeout", 5), "--chunk-timeout: a worker of this"),
        (("run", "--address", "10.0.0.5:6379"), "--address: '10.0.0.5:6379' is for the engine ray"),
        (("plan", "--node-workers", 64), "--node-workers: 64 on how many nodes? give --nodes N"),
    ],
)
def test_a_flag_that_would_be_ignored_is_refused(study, tmp_path, capsys, words, said):
    store = tmp_path / "store"
    code, _, err = call(capsys, words[0], study, "--store", store, *words[1:])
    assert code == 2
    assert said in err
    assert not store.exists()


def test_a_store_that_is_held_is_exit_code_2_with_the_holder(study, tmp_path, capsys):
    with Store(tmp_path / "store"):
        code, _, err = call(capsys, "run", study, "--store", tmp_path / "store")
    assert code == 2
    assert f"is held by process {os.getpid()}" in err


@pytest.mark.parametrize(
    ("address", "code", "words"),
    [
        ("nonsense", 2, "expected auto or HOST:PORT"),
        ("127.0.0.1:1", 1, "no Ray cluster at '127.0.0.1:1'"),
        ("127.0.0.1:99999999", 1, "no Ray cluster"),
    ],
)
def test_a_ray_cluster_that_is_not_there(study, tmp_path, capsys, address, code, words):
    store = tmp_path / "store"
    found = call(capsys, "run", study, "--store", store, "--engine", "ray", "--address", address)
    assert found[0] == code
    assert words in found[2]
    assert "Traceback" not in found[2]
    assert not store.exists()


def test_a_lane_width_that_cannot_be_is_refused_before_the_store_is_made(study, tmp_path, capsys):
    store = tmp_path / "store"
    code, _, err = call(capsys, "run", study, "--store", store, "--lanes", 5000)
    assert (code, err) == (
        2,
        "mirrorax: error: --lanes: 5000 is not allowed: 1 to 4096\n",
    )
    assert not store.exists()


def test_a_full_disk_is_exit_code_1_with_a_clear_line(study, tmp_path, capsys, monkeypatch):
    from mirrorax.store import files

    original = files.write

    def full(root, kind, name, data, fault=files.no_fault):
        def fails(point):
            if kind == "shards" and point == "temp-half-written":
                raise OSError(28, "No space left on device")

        return original(root, kind, name, data, fails)

    monkeypatch.setattr(files, "write", full)
    code, _, err = call(
        capsys, "run", study, "--store", tmp_path / "store", "--quiet", "--workers", 1
    )
    assert code == 1
    assert "no space left on the device; make room and run the same command again" in err
    assert "Traceback" not in err
    assert files.listed(tmp_path / "store", "shards") == []
    monkeypatch.setattr(files, "write", original)
    code, out, _ = call(
        capsys, "run", study, "--store", tmp_path / "store", "--quiet", "--workers", 1
    )
    assert (code, out) == (0, "32 of 32 runs done, 0 failed\n")


def test_measure_works_in_a_child_and_writes_nothing(study, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("STANDIN_SECONDS", "0.4")
    code, out, _ = call(capsys, "plan", study, "--store", tmp_path / "store", "--measure")
    assert code == 0
    assert "(from what was measured just now)" in out
    assert not (tmp_path / "store").exists()


QUIET = r"""
import json, sys
from mirrorax.cli import main
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as stopped:
        code = stopped.code
    heavy = {"jax", "jaxlib", "gymnax", "ray", "matplotlib"} & set(sys.modules)
    assert (code, heavy) == (0, set()), words
"""


def test_plan_status_verify_export_and_help_import_no_jax(study, tmp_path, capsys):
    store = str(tmp_path / "store")
    call(capsys, "run", study, "--store", store, "--quiet", "--workers", 1)
    commands = (
        ["--help"],
        ["sweep", "--help"],
        ["sweep", "run", "--help"],
        ["sweep", "plan", str(study), "--store", store],
        ["sweep", "plan", str(study), "--store", store, "--measure"],  # all done: nothing to time
        ["sweep", "status", "--store", store],
        ["sweep", "verify", "--store", store],
        ["sweep", "export", "--store", store, "--to", str(tmp_path / "x.csv")],
    )
    command = [sys.executable, "-c", QUIET, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_status_shows_a_running_sweep_and_watch_ends_with_ctrl_c(study, tmp_path, capsys):
    store = tmp_path / "store"
    drive = Path(standin.__file__).parent / "drive.py"
    running = subprocess.Popen(
        [sys.executable, str(drive), str(study), str(store), "--engine", "local", "--lanes", "8"],
        env={**os.environ, "STANDIN_SECONDS": "300", "STANDIN_SEGMENTS": "3000"},
        stdout=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 240
        out = ""
        while "running on 2 workers" not in out or "16 running" not in out:
            assert time.monotonic() < deadline, out
            time.sleep(0.2)
            if (store / "live.json").exists():
                _, out, _ = call(capsys, "status", "--store", store)
        terminal, theirs = pty.openpty()
        command = "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))"
        watch = subprocess.Popen(
            [sys.executable, "-c", command, "sweep", "status", "--store", str(store), "--watch"],
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        seen = b""
        while seen.count(b"running on 2 workers") < 2:  # drawn, and drawn again
            assert time.monotonic() < deadline
            seen += os.read(terminal, 65536)
        watch.send_signal(signal.SIGINT)
        _, err = watch.communicate(timeout=60)
        assert watch.returncode == 130
        assert b"Traceback" not in err
        os.close(terminal)
        os.close(theirs)
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=120) == 143


def test_on_a_terminal_there_is_a_bar_per_worker_and_the_terminal_is_given_back(study, tmp_path):
    code = (
        "import sys\nfrom mirrorax.sweep import worker\n"
        "worker.CHUNK_FUNCTION = 'standin:train_chunk'\n"
        "from mirrorax.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    terminal, theirs = pty.openpty()
    words = ["sweep", "run", str(study), "--store", str(tmp_path / "store"), "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "140", "STANDIN_SECONDS": "1.5"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side has closed
            break
        if not data:
            break
        seen += data
    os.close(terminal)
    assert process.wait(timeout=120) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    for words in ("worker 0 ", "worker 1 ", "32 of 32 runs", "best cell so far: ", "8 runs, "):
        assert words in text
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")  # the cursor is shown again
