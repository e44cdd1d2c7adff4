"""Callbacks hear of training between segments, change nothing, and are named when they fail."""

from __future__ import annotations

import struct
import subprocess
import sys
import types
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
import tiny

import mirrorax
from mirrorax.callbacks import Callback, CallbackError, MLflow, TensorBoard, WandB, run_names
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.mdpo import session
from mirrorax.runs.settings import RunValues

TINY = {
    "env": "Catch(4x3)",
    **tiny.TINY,
    "steps": 16 * 12,
    "lanes": 2,
}
FLAGS = tiny.flags(TINY)


class Listener:
    """Writes down what it hears."""

    def __init__(self):
        self.heard, self.order = [], []

    def on_start(self, settings, runs):
        self.order.append("start")
        self.settings, self.runs = settings, runs

    def on_segment(self, progress):
        self.order.append("segment")
        self.heard.append(progress)

    def on_end(self, result):
        self.order.append("end")
        self.result = result


@pytest.mark.optimised
def test_a_callback_hears_start_segments_and_end_and_changes_nothing():
    alone = mirrorax.train(**TINY, seeds=3, alpha=0.1)
    listener = Listener()
    assert isinstance(listener, Callback)
    heard_of = mirrorax.train(**TINY, seeds=3, alpha=0.1, callbacks=[listener], curve_points=4)
    np.testing.assert_array_equal(alone.returns, heard_of.returns)
    np.testing.assert_array_equal(alone.policies, heard_of.policies)
    assert listener.order[0] == "start"
    assert listener.order[-1] == "end"
    assert set(listener.order[1:-1]) == {"segment"}
    assert listener.settings == heard_of.settings
    assert [run.seed for run in listener.runs] == [0, 1, 2]
    assert listener.result is heard_of
    assert listener.heard[-1].fraction == 1.0
    # Three runs in lanes of two: first runs 0 and 1, then run 2.
    assert [p.first_run for p in listener.heard] == sorted(p.first_run for p in listener.heard)
    assert {p.first_run for p in listener.heard} == {0, 2}
    done = [p.updates_done for p in listener.heard]
    assert done == sorted(done)
    assert all(p.updates_total == 24 for p in listener.heard)


def test_metrics_are_the_latest_points_of_the_learning_curves():
    listener = Listener()
    result = mirrorax.train(**TINY, seeds=3, callbacks=[listener], eval_every=3)
    for first, rows in ((0, slice(0, 2)), (2, slice(2, 3))):
        of_group = [p for p in listener.heard if p.first_run == first]
        for progress in of_group:
            if not progress.metrics:
                continue
            at = int(progress.metrics["update"][0]) // 3 - 1
            assert set(progress.metrics) == set(result.curves)
            for name, values in progress.metrics.items():
                np.testing.assert_array_equal(values, result.curves[name][rows, at])
        last = of_group[-1]
        assert set(last.metrics["update"]) == {12.0}


@pytest.mark.parametrize("method", ["on_start", "on_segment", "on_end"])
def test_one_that_raises_is_named_and_the_others_hear_of_the_end(method):
    def fails(*_):
        raise ZeroDivisionError("two\nlines")

    bad, good = Listener(), Listener()
    setattr(bad, method, fails)
    with pytest.raises(CallbackError) as caught:
        mirrorax.train(**TINY, seeds=1, callbacks=[good, bad])
    said = f"callbacks: Listener.{method} raised ZeroDivisionError: two lines"
    assert str(caught.value).startswith(said)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert good.order[-1] == "end"
    assert (good.result is None) == (method != "on_end")


def test_a_second_failure_at_the_end_does_not_hide_the_first():
    class Bad(Listener):
        def on_segment(self, progress):
            raise RuntimeError("first")

        def on_end(self, result):
            raise RuntimeError("second")

    with pytest.raises(CallbackError, match=r"Bad\.on_segment raised RuntimeError: first"):
        mirrorax.train(**TINY, seeds=1, callbacks=[Bad()])


@pytest.mark.parametrize("given", [[print], [Listener], ["tensorboard"], "x", 3])
def test_what_is_no_callback_is_refused_before_anything_is_compiled(given, monkeypatch):
    monkeypatch.setattr(session.Session, "__post_init__", None)
    with pytest.raises(UserError, match="callbacks: "):
        mirrorax.train(**TINY, callbacks=given)


# TensorBoard's files, read by a reader of our own: records framed by length and two checksums, in
# each an Event as a protocol buffer (step is field 2, summary 5; in it values 1 with tag 1 and
# simple_value 2).


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 128:
                return value, at

    at, found = 0, []
    while at < len(data):
        key, at = varint(at)
        kind = key & 7
        if kind == 0:
            value, at = varint(at)
        elif kind == 2:
            length, at = varint(at)
            value, at = data[at : at + length], at + length
        else:
            length = {1: 8, 5: 4}[kind]
            value, at = data[at : at + length], at + length
        found.append((key >> 3, value))
    return found


def read_events(path):
    data, at, points = path.read_bytes(), 0, []
    while at < len(data):
        header = data[at : at + 8]
        (length,) = struct.unpack("<Q", header)
        body = data[at + 12 : at + 12 + length]
        sums = struct.unpack("<I", data[at + 8 : at + 12])
        sums += struct.unpack("<I", data[at + 12 + length : at + 16 + length])
        assert sums == (crc32c(header), crc32c(body))
        at += 16 + length
        event = dict(fields(body))
        for _, value in fields(event.get(5, b"")):
            inner = dict(fields(value))
            (number,) = struct.unpack("<f", inner[2])
            points.append((inner[1].decode(), event.get(2, 0), number))
    return points


def test_tensorboard_files_hold_the_curves_and_the_final_evaluation(tmp_path):
    result = mirrorax.train(
        **TINY, seeds=3, alpha=[0.1, 0.2], callbacks=[TensorBoard(tmp_path)], eval_every=3
    )
    names = run_names(result.runs)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    for index, name in enumerate(names):
        # A group's files are closed with it; what is known at the very end is in a second one.
        points = [p for f in sorted((tmp_path / name).iterdir()) for p in read_events(f)]
        for metric in set(result.curves) - {"update"}:
            steps = [step for tag, step, _ in points if tag == metric]
            assert steps == [16 * k for k in (3, 6, 9, 12)]
            values = np.array([value for tag, _, value in points if tag == metric])
            np.testing.assert_array_equal(values, result.curves[metric][index].astype("f4"))
        final = {tag: (step, value) for tag, step, value in points if tag.startswith("final/")}
        assert final["final/normalized_return"] == (192, np.float32(result.normalized[index]))
        assert final["final/greedy_return"][1] == np.float32(result.greedy_returns[index].mean())
        assert final["final/diverged"][1] == 0.0


def test_writing_into_the_same_folder_again_adds_a_file(tmp_path):
    for _ in range(2):
        mirrorax.train(**TINY, seeds=1, callbacks=[TensorBoard(tmp_path)], curve_points=2)
    assert len(list((tmp_path / "seed=0").iterdir())) == 2


def test_runs_are_named_by_what_tells_them_apart():
    runs = [RunValues(alpha=a, lam=0.1, seed=s) for a in (1e-5, 0.5) for s in (0, 7)]
    assert run_names(runs) == [
        "alpha=0.00001,seed=0",
        "alpha=0.00001,seed=7",
        "alpha=0.5,seed=0",
        "alpha=0.5,seed=7",
    ]


def test_the_flag_writes_and_a_missing_extra_is_one_line(tmp_path, capsys, monkeypatch):
    arguments = ["train", *FLAGS, "--seeds", "1", "--quiet", "--tensorboard", str(tmp_path / "log")]
    assert main(arguments) == 0
    (file,) = (tmp_path / "log" / "seed=0").iterdir()
    assert {"return", "final/return"} <= {tag for tag, _, _ in read_events(file)}
    capsys.readouterr()

    (tmp_path / "taken").touch()
    assert main([*arguments[:-1], str(tmp_path / "taken")]) == 2
    assert "tensorboard: cannot make the folder" in capsys.readouterr().err

    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert main(arguments) == 2
    said = "tensorboardX: it is not installed; pip install 'mirrorax[tensorboard]'"
    assert capsys.readouterr().err == f"mirrorax: error: {said}\n"


def test_control_c_leaves_the_points_written_so_far(tmp_path):
    """Pressed after the second of four evaluations; the files are whole."""
    code = f"""
import os, signal, sys
from mirrorax.callbacks import TensorBoard
from mirrorax.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # not so in the background
write, seen = TensorBoard.on_segment, []

def pressed(self, progress):
    write(self, progress)
    if progress.metrics and progress.metrics["update"][0] >= 6:
        os.kill(os.getpid(), signal.SIGINT)

TensorBoard.on_segment = pressed
sys.exit(main({["train", *FLAGS, "--seeds", "1", "--eval-every", "3", "--quiet"]!r}
              + ["--tensorboard", {str(tmp_path)!r}]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mirrorax: interrupted\n")
    (file,) = (tmp_path / "seed=0").iterdir()
    points = read_events(file)
    steps = [step for tag, step, _ in points if tag == "return"]
    # It is heard at the end of the next segment, whose evaluation, if there is one, is not written.
    assert steps == [48, 96]
    assert not any(tag.startswith("final/") for tag, _, _ in points)


# Weights & Biases and MLflow: against stand-ins that write down the calls, and against the packages
# themselves where they are installed (`pip install 'mirrorax[wandb,mlflow]'`).


class FakeWandB(types.ModuleType):
    """Keeps what `init`, `log` and `finish` were called with."""

    def __init__(self):
        super().__init__("wandb")
        self.runs = []

    def init(self, **options):
        run = SimpleNamespace(options=options, points=[], finished=0)

        def log(values, step):
            assert not run.finished
            run.points.append((step, values))

        def finish():
            run.finished += 1

        run.log, run.finish = log, finish
        self.runs.append(run)
        return run


class FakeMLflow(types.ModuleType):
    """Keeps what a client was called with."""

    def __init__(self):
        super().__init__("mlflow")
        self.entities = SimpleNamespace(Param=Pair, Metric=Point)
        self.runs, self.experiments, self.uris = {}, {}, []

    def MlflowClient(self, tracking_uri):
        self.uris.append(tracking_uri)
        return self

    def get_experiment_by_name(self, name):
        return self.experiments.get(name)

    def create_experiment(self, name):
        self.experiments[name] = SimpleNamespace(experiment_id=f"id of {name}")
        return f"id of {name}"

    def create_run(self, experiment, run_name, tags):
        identity = str(len(self.runs))
        self.runs[identity] = SimpleNamespace(
            experiment=experiment, name=run_name, tags=tags, params={}, points=[], ended=0
        )
        return SimpleNamespace(info=SimpleNamespace(run_id=identity))

    def log_batch(self, identity, metrics=(), params=()):
        run = self.runs[identity]
        assert not run.ended
        run.params |= dict(params)
        run.points += [(point.step, point.key, point.value) for point in metrics]

    def set_terminated(self, identity):
        self.runs[identity].ended += 1


Pair = namedtuple("Pair", ["key", "value"])
Point = namedtuple("Point", ["key", "value", "timestamp", "step"])


def test_wandb_has_a_run_for_each_run_in_one_group(monkeypatch, tmp_path):
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    logger = WandB("mine", mode="offline", directory=tmp_path)
    result = mirrorax.train(**TINY, seeds=3, alpha=0.1, callbacks=[logger], eval_every=3)
    assert [run.options["name"] for run in fake.runs] == run_names(result.runs)
    for index, run in enumerate(fake.runs):
        shared = ("project", "mode", "dir", "group", "reinit")
        assert [run.options[name] for name in shared] == [
            *("mine", "offline", tmp_path, "Catch(4x3), (entropy, kl)", "create_new")
        ]
        assert run.options["config"]["alpha"] == 0.1
        assert run.options["config"]["seed"] == index
        assert run.options["config"]["batch_size"] == 16
        steps = [step for step, values in run.points if "return" in values]
        assert steps == [48, 96, 144, 192]
        returns = [values["return"] for _, values in run.points if "return" in values]
        np.testing.assert_array_equal(returns, result.curves["return"][index])
        assert run.points[-1][1]["final/normalized_return"] == result.normalized[index]
        assert run.finished == 1
    assert [step for step, _ in fake.runs[0].points] == sorted(s for s, _ in fake.runs[0].points)


def test_mlflow_has_a_run_for_each_run(monkeypatch):
    fake = FakeMLflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    for _ in range(2):  # the experiment is made once
        logger = MLflow("sqlite:///x.db", experiment="mine")
    result = mirrorax.train(**TINY, seeds=3, alpha=0.1, callbacks=[logger], eval_every=3)
    assert [run.name for run in fake.runs.values()] == run_names(result.runs)
    for index, run in enumerate(fake.runs.values()):
        assert run.experiment == "id of mine"
        assert run.tags == {"group": "Catch(4x3), (entropy, kl)"}
        assert run.params["seed"] == str(index)
        returns = [value for _, key, value in run.points if key == "return"]
        np.testing.assert_array_equal(returns, result.curves["return"][index])
        assert (192, "final/normalized_return", result.normalized[index]) in run.points
        assert run.ended == 1


STUDY = {"environments": ["Catch(4x3)"], "pairs": [["entropy", "kl"]], "alpha": [0.1, 0.2]}
STUDY |= {"lam": [1.0], "seeds": 2, "steps": 192, "hidden": [8]}
STUDY |= {name: TINY[name] for name in ("num_envs", "env_steps_per_update", "batch_size")}
STUDY |= {"buffer_size": 160, "eval_episodes": 3}


def test_a_sweep_logs_a_record_per_chunk_with_a_point_per_run(monkeypatch, tmp_path):
    fake = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    study = mirrorax.Study.of(**STUDY)
    store = tmp_path / "store"
    mirrorax.sweep(study, store, workers=1, lanes=2, progress=False, log=WandB())
    runs = mirrorax.load(store).to_pylist()
    assert len(fake.runs) == 2
    logged = [values for run in fake.runs for _, values in run.points]
    key = ("alpha", "lam", "seed")
    scores = {tuple(row[n] for n in key): row["score"] for row in runs}
    assert {tuple(row[n] for n in key): row["score"] for row in logged} == scores
    assert all(run.finished == 1 for run in fake.runs)
    assert all([step for step, _ in run.points] == [0, 1] for run in fake.runs)
    again = mirrorax.sweep(study, store, workers=1, lanes=2, progress=False, log=WandB())
    assert (again.done, len(fake.runs)) == (4, 2)  # nothing is run or logged twice


def test_a_logger_that_fails_does_not_stop_a_sweep(monkeypatch, tmp_path, capsys):
    fake = FakeWandB()
    fake.init = None
    monkeypatch.setitem(sys.modules, "wandb", fake)
    (tmp_path / "study.toml").write_text(mirrorax.Study.of(**STUDY).text)
    command = ["sweep", "run", str(tmp_path / "study.toml"), "--store", str(tmp_path / "store")]
    assert main([*command, "--workers", "1", "--lanes", "2", "--log", "wandb:mine"]) == 0
    said = capsys.readouterr()
    assert "4 of 4 runs done, 0 failed" in said.out
    assert said.err.count("log: WandB raised TypeError") == 1


@pytest.mark.parametrize("command", ["train", "sweep"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensorbord", "log: unknown"),
        ("wandb", "wandb: it is not installed; pip install 'mirrorax[wandb]'"),
        ("mlflow:x", "mlflow: it is not installed; pip install 'mirrorax[mlflow]'"),
    ],
)
def test_a_logger_that_is_not_there_is_one_line(command, text, said, tmp_path, monkeypatch, capsys):
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "study.toml").write_text(mirrorax.Study.of(**STUDY).text)
    where = [str(tmp_path / "study.toml"), "--store", str(tmp_path / "store")]
    words = ["train", *FLAGS] if command == "train" else ["sweep", "run", *where]
    assert main([*words, "--log", text]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
    assert not (tmp_path / "store").exists()


def test_the_real_wandb_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    logger = WandB(mode="offline", directory=tmp_path)
    mirrorax.train(**TINY, seeds=2, callbacks=[logger], curve_points=3)
    wandb.teardown()  # its own process writes the files, and has done so when it has ended
    files = list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert len(files) == 2
    assert all(b"final/normalized_return" in file.read_bytes() for file in files)


@pytest.mark.filterwarnings("ignore")
def test_the_real_mlflow_in_a_file(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    result = mirrorax.train(**TINY, seeds=2, callbacks=[MLflow(uri)], curve_points=3)
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("mirrorax")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {"seed=0", "seed=1"}
    for run in runs:
        index = int(run.data.params["seed"])
        assert run.data.metrics["final/normalized_return"] == result.normalized[index]
        points = client.get_metric_history(run.info.run_id, "return")
        assert [point.step for point in points] == [64, 128, 192]
        assert run.info.status == "FINISHED"
