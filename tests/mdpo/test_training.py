"""What a person does: `mirrorax.train`, `mirrorax train`, `mirrorax play`."""

import inspect
import itertools
import json
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image, ImageSequence
from tiny import TINY, flags

import mirrorax
from mirrorax.analysis.scores import mean_interval
from mirrorax.cli import main
from mirrorax.envs.adapter import Environment, Step
from mirrorax.errors import UserError
from mirrorax.mdpo.session import Session
from mirrorax.runs.settings import STATIC, TRACED, make_settings
from mirrorax.training import LAYOUTS, plan_runs, train

CLI = ["train", "--env", "Catch-bsuite", "--steps", "320", "--lanes", "4", *flags(TINY)]


@dataclass(frozen=True)
class Corridor(Environment):
    """The example of the documentation: walk right to the end."""

    length: int = 6
    name = "Corridor"
    num_actions, return_bounds, max_steps = 2, (0.0, 1.0), 30

    def reset(self, noise):
        return {"place": jnp.int32(0), "time": jnp.int32(0)}

    def step(self, state, action, noise):
        place = jnp.maximum(state["place"] + 2 * action - 1, 0)
        time = state["time"] + 1
        reached = place == self.length - 1
        state = {"place": place, "time": time}
        return Step(state, reached.astype(jnp.float32), reached, time >= self.max_steps)

    def remember(self, state):
        return state["place"][None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(self.length) == memory[0]).astype(jnp.float32)


def test_presets_are_what_the_documentation_says():
    default, paper = (make_settings(name, environment="CartPole") for name in ("default", "paper"))
    assert (default.updates, default.initialization) == (3906, "orthogonal")
    assert (paper.updates, paper.steps_per_update, paper.initialization) == (
        3906,
        4096,
        "orthogonal",
    )
    # The paper's table of fixed hyperparameters, in both.
    table = {
        "num_envs": 16,
        "max_grad_norm": 1.0,
        "buffer_size": 100_000,
        "env_steps_per_update": 256,
        "batch_size": 512,
        "critic_epochs": 1,
        "actor_epochs": 2,
        "tau": 0.95,
    }
    assert (default.steps, paper.steps) == (10**6, 16 * 10**6)
    for settings in (default, paper):
        assert {name: getattr(settings, name) for name in table} == table
    assert set(table) <= set(STATIC)
    traced = {"alpha", "lam", "w", "v", "seed", "actor_lr", "critic_lr", "gamma", "reward_scale"}
    assert set(TRACED) == traced


def test_train_takes_the_steps_of_its_preset(monkeypatch):
    seen = []

    def planned(settings, *_):
        seen.append(settings.steps)
        raise UserError("enough")

    monkeypatch.setattr("mirrorax.training.plan_runs", planned)
    for fields in ({}, {"preset": "paper"}, {"preset": "paper", "steps": 10**6}):
        with pytest.raises(UserError, match="enough"):
            train("Catch", **fields)
    assert seen == [10**6, 16 * 10**6, 10**6]


def test_an_environment_of_ones_own_is_learned():
    fields = {**TINY, "buffer_size": 2000, "batch_size": 64}
    result = train(Corridor(), alpha=0.01, lam=0.1, seeds=2, steps=16 * 400, lanes=2, **fields)
    assert result.normalized.shape == (2,)
    assert (result.greedy_normalized == 1).all()
    assert result.settings.environment.endswith(":Corridor")
    more = result.more(steps=16 * 10)
    assert more.settings.updates == 410
    assert more.sessions[0].k == 410
    # The first result is as it was, and can be trained on again.
    assert result.sessions[0].k == 400
    again = result.more(steps=16 * 10)
    np.testing.assert_array_equal(again.policies, more.policies)
    for steps in (0, 15, 16.5, True):
        with pytest.raises(UserError, match=r"^steps: "):
            result.more(steps=steps)


def test_a_result_that_was_trained_on_says_so_wherever_it_goes(tmp_path):
    from mirrorax.training.folder import config_text, read_policies, write

    fields = {"lanes": 4, "seeds": 2, "curve_points": 2, **TINY}
    first, whole = (train("Catch", steps=steps, **fields) for steps in (16 * 20, 16 * 30))
    second = first.more(steps=16 * 10)
    third = second.more(steps=16 * 5)
    found = [result.continued_from for result in (first, whole, second, third)]
    assert found == [(), (), (20,), (20, 30)]
    assert [json.loads(r.to_json())["continued_from"] for r in (first, third)] == [[], [20, 30]]
    # It could be taken for the run of one go, of equal settings, which it is not: not even where
    # nothing is annealed, because its random numbers are those of the shorter run.
    assert second.settings == whole.settings
    assert not np.array_equal(second.policies, whole.policies)
    np.testing.assert_array_equal(second.sessions[0].chunk.keys, first.sessions[0].chunk.keys)
    # As files.
    write(tmp_path, third)
    assert read_policies(str(tmp_path))[2]["continued_from"] == [20, 30]
    config = (tmp_path / "config.toml").read_text()
    assert config.startswith("# The result was trained on from update 20, 30; ")
    assert tomllib.loads(config)["steps"] == 16 * 35
    assert not config_text(whole).startswith("#")
    # As a state that somebody goes on from elsewhere.
    third.sessions[0].save(tmp_path / "state.npz")
    restored = Session.restore(tmp_path / "state.npz")
    assert (restored.continued_from, restored.k) == ((20, 30), 35)


@pytest.mark.optimised
def test_a_diverged_run_stays_frozen_when_it_is_trained_on():
    fields = {"lanes": 4, "seeds": 1, "steps": 16 * 20, **TINY}
    result = train("Catch", reward_scale=[1.0, 1e30], **fields)
    assert result.diverged.tolist() == [False, True]
    more = result.more(steps=16 * 5)
    assert more.diverged_at.tolist() == result.diverged_at.tolist()
    np.testing.assert_array_equal(more.policies[1], result.policies[1])
    assert not np.array_equal(more.policies[0], result.policies[0])


def test_an_environment_of_ones_own_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    source = inspect.getsource(Corridor)
    (tmp_path / "own_corridor.py").write_text(
        "from dataclasses import dataclass\nimport jax.numpy as jnp\n"
        "from mirrorax.envs.adapter import Environment, Step\n\n\n@dataclass(frozen=True)\n"
        + source[source.index("class Corridor") :]
        + "\n\nimport mirrorax\nmirrorax.register_environment('OwnCorridor', Corridor)\n"
    )
    flag = ["--plugin", "own_corridor"]
    own = ["--env", "OwnCorridor", *flag]
    assert main([*CLI, *own, "--seeds", "1", "--quiet", "--out", "out"]) == 0
    assert main(["play", "out", "--json", *flag]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["settings"]["environment"] == "OwnCorridor"
    # There is no picture of it, and that is said after the table.
    assert main(["play", "out", "--gif", "a.gif", *flag]) == 2
    captured = capsys.readouterr()
    assert "10 episodes each" in captured.out
    assert captured.err == "mirrorax: error: --gif: Corridor cannot be drawn\n"


def test_objects_are_recorded_under_names_that_tell_them_apart():
    from mirrorax.envs import adapter, boards, physics
    from mirrorax.training.objects import environment_name

    here = f"{__name__}:Corridor"
    gymnax = adapter.Gymnax("CartPole-v1", (0.0, 500.0))
    for env, name in (
        (boards.Catch(20, 10), "Catch(20x10)"),
        (boards.DeepSea(), "DeepSea"),
        (physics.CartPole(), "CartPole"),
        (Corridor(), here),
        (Corridor(9), f"{here}(length=9)"),
    ):
        assert environment_name(env) == name
        assert adapter.make(name) == env
    assert adapter.make(environment_name(gymnax)) == gymnax
    for wrong in (Corridor, 3, None):
        with pytest.raises(UserError, match=r"^environment: "):
            environment_name(wrong)
    for wrong in (f"{here}(9)", f"{here}(length=", f"{here}(length=f())", f"{here}(width=2)"):
        with pytest.raises(UserError, match=r"^environment: "):
            adapter.make(wrong)


def test_a_regularizer_whose_name_means_another_is_refused():
    from mirrorax.regularizers.functions import FunctionPotential
    from mirrorax.training.objects import regularizer_name

    assert regularizer_name("potential", mirrorax.potential("tsallis(0.5)")) == "tsallis(0.5)"
    assert regularizer_name("drift", mirrorax.drift("bregman(max)")) == "bregman(max)"
    with pytest.raises(UserError, match=r"^potential: the name 'entropy'"):
        train("Catch", potential=FunctionPotential("entropy", lambda p: (p**2).sum()))
    with pytest.raises(UserError, match=r"^drift: "):
        train("Catch", drift=mirrorax.potential("entropy"))


@pytest.mark.optimised
def test_temperatures_and_seeds_span_a_grid_of_independent_runs():
    request = {"env": "Catch", "steps": 320, "lanes": 4, **TINY}
    grid = train(alpha=[0.01, 0.5], lam=np.array([0.1, 2.0]), seeds=[3, 8], **request)
    assert [(r.alpha, r.lam, r.seed) for r in grid.runs] == [
        (a, l, s) for a in (0.01, 0.5) for l in (0.1, 2.0) for s in (3, 8)
    ]
    assert grid.returns.shape == grid.greedy_returns.shape == (8, 3)
    alone = train(alpha=0.5, lam=0.1, seeds=[8], curve_points=4, **request)
    assert alone.curves["return"].shape == (1, 4)
    np.testing.assert_array_equal(alone.policies[0], grid.policies[5])
    np.testing.assert_array_equal(alone.returns[0], grid.returns[5])
    assert len({p.tobytes() for p in grid.policies}) == 8
    assert sum(session.runs for session in grid.sessions) == 8


def test_the_layout_can_be_chosen_and_is_recorded():
    results = [train("Catch", seeds=2, steps=64, lanes=4, layout=x, **TINY) for x in LAYOUTS]
    for result, layout in zip(results, LAYOUTS, strict=True):
        assert result.layout == result.to_dict()["layout"] == result.sessions[0].layout == layout
    np.testing.assert_allclose(results[0].policies, results[1].policies, atol=1e-3)


def test_the_states_of_very_many_runs_are_not_kept(monkeypatch):
    monkeypatch.setattr("mirrorax.training.KEPT_SESSIONS", 1)
    result = train("Catch", seeds=5, steps=320, lanes=4, **TINY)
    assert result.policies.shape[0] == 5
    with pytest.raises(UserError, match="not kept"):
        result.more(steps=320)


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"env": "Nowhere"}, "environment: "),
        ({"env": "Catch", "potential": "entropi"}, "potential: "),
        ({"env": "Catch", "alpha": -1}, "alpha: "),
        ({"env": "Catch", "seeds": 0}, "seeds: "),
        ({"env": "Catch", "seeds": [1, 1]}, "seeds: "),
        ({"env": "Catch", "num_envs": 7}, "env_steps_per_update: "),
        ({"env": "Catch", "typo": 7}, "typo: "),
        ({"env": "Catch", "preset": "papper"}, "preset: "),
        ({"env": "Catch", "lanes": 0}, "lanes: "),
        ({"env": "Catch", "seeds": [1.5]}, "seed: "),
        ({"env": "Catch", "alpha": True}, "alpha: "),
        ({"env": "Catch", "alpha": 1e39}, "alpha: "),
    ],
)
def test_mistakes_are_one_line_naming_the_field(fields, start):
    with pytest.raises(UserError) as caught:
        train(**fields)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    settings = make_settings(environment="Catch")
    for alpha in (np.float32(0.5), np.array(0.5), [np.float64(0.5)], jnp.float32(0.5)):
        (run,) = plan_runs(settings, {"alpha": alpha}, np.int64(1))
        assert (run.alpha, run.seed) == (0.5, 0)
    for seeds in (3, np.arange(3), [np.int64(0), 1, 2]):
        assert [run.seed for run in plan_runs(settings, {}, seeds)] == [0, 1, 2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a small training run."""
    out = tmp_path_factory.mktemp("out") / "run"
    assert main([*CLI, "--seeds", "2", "--alpha", "0.05", "--quiet", "--out", str(out)]) == 0
    return out


def test_train_writes_a_folder_that_gives_the_same_run_again(folder, capsys):
    names = {path.name for path in folder.iterdir()}
    written = {"results.json", "config.toml", "policies.npz", "runs.parquet", "learning_curve.png"}
    assert names == written
    stored = json.loads((folder / "results.json").read_text())
    config = tomllib.loads((folder / "config.toml").read_text())
    assert config["env"] == "Catch"
    with np.load(folder / "policies.npz", allow_pickle=False) as arrays:
        assert {"policies", "curve.return", "curve.greedy_return", "curve.update"} < set(arrays)
        assert arrays["curve.return"].shape == arrays["curve.update"].shape == (2, 20)
        np.testing.assert_array_equal(arrays["curve.update"][1], np.arange(1, 21))
        # The last point is the evaluation after training.
        ends = np.mean(stored["returns"], axis=1)
        np.testing.assert_array_equal(arrays["curve.return"][:, -1], ends)
    assert (config["lanes"], config["layout"]) == (stored["lanes"], stored["layout"]) == (4, "map")
    assert main(["train", "--config", str(folder / "config.toml"), "--json"]) == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert captured.err == ""
    expected = {"returns", "greedy_returns", "normalized", "mean", "interval", "diverged"}
    assert expected | {"settings"} <= set(again)
    for name in expected:
        assert again[name] == stored[name]
    assert again["normalized"] == [np.mean(r) / 2 + 0.5 for r in again["returns"]]
    # A flag wins over the file.
    flags = ["--config", str(folder / "config.toml"), "--seeds", "9", "--lanes", "4", "--json"]
    assert main(["train", *flags]) == 0
    other = json.loads(capsys.readouterr().out)
    assert [run["seed"] for run in other["runs"]] == list(range(9))


def test_a_preset_flag_wins_over_the_file_and_other_flags_over_it(tmp_path):
    from argparse import Namespace

    from mirrorax.cli.train import gather
    from mirrorax.training import make_request

    path = tmp_path / "given.toml"
    path.write_text(
        'env = "Catch"\nsteps = 8192\nsteps_counted = "total"\ninitialization = "orthogonal"\n'
    )

    def fields(preset=None, **flags):
        args = Namespace(config=str(path), preset=preset, plugin=[], **flags)
        made = make_request(**gather(args)).chunk.settings
        return made.steps_counted, made.initialization, made.steps

    assert fields() == ("total", "orthogonal", 8192)
    assert fields("paper") == ("per_env", "orthogonal", 16_000_000)
    assert fields("paper", steps_counted="total") == ("total", "orthogonal", 16_000_000)


def test_each_point_of_a_grid_has_its_own_mean_and_bounds(capsys):
    flags = ["--seeds", "2", "--lam", "0.1,2", "--reward-scale", "1,3"]
    assert main([*CLI, *flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(c["lam"], c["reward_scale"], c["runs"]) for c in found["cells"]] == [
        (0.1, 1, 2),
        (0.1, 3, 2),
        (2, 1, 2),
        (2, 3, 2),
    ]
    for index, cell in enumerate(found["cells"]):
        own = found["normalized"][2 * index : 2 * index + 2]
        assert cell["mean"] == pytest.approx(np.mean(own))
        assert cell["scores"] == own
        assert cell["interval"] is None  # two seeds
    assert found["return_bounds"] == [-1, 1]
    assert found["run_return_bounds"][:3] == [[-1, 1], [-1, 1], [-3, 3]]
    assert main([*CLI, *flags, "--quiet"]) == 0
    shown = capsys.readouterr().out
    assert "over seeds" in shown
    assert "two seeds: " in shown


def test_train_shows_a_table(capsys):
    assert main([*CLI, "--seeds", "4,2", "--quiet"]) == 0
    shown = capsys.readouterr().out
    for word in ("MDPO(entropy, kl) on Catch", "normalised", "greedy", "two runs: "):
        assert word in shown


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path, monkeypatch, capsys):
    def full(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("mirrorax.training.folder.tempfile.NamedTemporaryFile", full)
    monkeypatch.setattr("mirrorax.training.train", lambda **_: pytest.fail("trained"))
    assert main([*CLI, "--out", str(tmp_path / "new" / "deep")]) == 2
    assert capsys.readouterr().err.startswith("mirrorax: error: --out: cannot write into ")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_still_shown(folder, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mirrorax.files.replacing", full)
    out = tmp_path / "out"
    for arguments, field in (
        ([*CLI, "--seeds", "2", "--alpha", "0.05", "--json", "--out", str(out)], "out"),
        (["play", str(folder), "--json", "--gif", str(tmp_path / "a.gif")], "gif"),
    ):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert len(json.loads(captured.out)["returns"]) == 2
        assert captured.err.startswith(f"mirrorax: error: --{field}: cannot write ")
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("times", [1, 2])
def test_control_c_ends_training_with_one_line(times):
    """Once at a segment's end, or twice at any time, even where an exception would be lost."""
    code = f"""
import os, signal, sys, time
import mirrorax.training
from mirrorax.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # not so in the background
from mirrorax.mdpo.session import Session

advance = Session.advance

def interrupted(self, updates):
    for _ in range({times}):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("raised")
    if {times} == 2:
        time.sleep(500)
    advance(self, updates)

Session.advance = interrupted
sys.exit(main({[*CLI, "--seeds", "1", "--quiet"]!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mirrorax: interrupted\n")


def test_control_c_does_not_wait_for_what_does_not_return(tmp_path):
    """As a compilation that takes long; what was made for nothing is taken away."""
    code = f"""
import os, signal, sys, time
from mirrorax import cli
from mirrorax.cli import main
from mirrorax.mdpo.session import Session

signal.signal(signal.SIGINT, signal.default_int_handler)
cli.PATIENCE_SECONDS = 0.1

def stuck(self, updates):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)

Session.advance = stuck
sys.exit(main({[*CLI, "--seeds", "1", "--quiet", "--out", str(tmp_path / "new")]!r}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=500)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "mirrorax: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def _heeding_control_c():
    """As in the foreground; a shell lets its background jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeding_control_c")
def test_control_c_is_heard_by_whoever_heard_it_before():
    from mirrorax.cli import Stop

    with Stop() as stop:
        stop.check()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            stop.check()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        stop.check()


@pytest.mark.optimised
@pytest.mark.parametrize("env", ["CartPole", "Catch"])
def test_learning_curves_change_no_bit_of_a_run(env):
    """Neither those of `curve_points` nor, in the layout map, those of `eval_every`."""
    fields = {"seeds": 2, "steps": 16 * 40, "lanes": 4, "layout": "map", **TINY}
    plain = train(env, **fields)
    for recorded in ({"curve_points": 4}, {"eval_every": 10}):
        result = train(env, **fields, **recorded)
        assert result.curves["return"].shape == (2, 4)
        np.testing.assert_array_equal(result.policies, plain.policies)
        np.testing.assert_array_equal(result.returns, plain.returns)
        np.testing.assert_array_equal(result.greedy_returns, plain.greedy_returns)


def test_play_evaluates_and_records(folder, tmp_path, capsys):
    gif = tmp_path / "catch.gif"
    arguments = [str(folder), "--episodes", "5", "--gif", str(gif), "--run", "1", "--json"]
    assert main(["play", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert np.shape(found["returns"]) == np.shape(found["greedy_returns"]) == (2, 5)
    assert gif.read_bytes().startswith(b"GIF8")
    assert found["frames"] == 10
    with Image.open(gif) as pictures:
        durations = [frame.info["duration"] for frame in ImageSequence.Iterator(pictures)]
    assert durations == [250] * 9 + [1500]
    assert main(["play", str(folder)]) == 0
    assert "normalised" in capsys.readouterr().out


def table(shown, title):
    """Return the columns and the rows of a table that a command showed."""
    lines = iter(shown.splitlines())
    next(line for line in lines if line.strip() == title)
    rows = itertools.takewhile(bool, lines)  # up to an empty line
    names, *cells = (re.split(r" {2,}", row.strip()) for row in rows)
    return names, cells


def test_play_shows_what_tells_the_runs_apart_and_their_mean(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    axes = {
        "gamma": (0.9, 0.95),
        "reward_scale": (1, 2),
        "actor_lr": (0.001, 0.01),
        "critic_lr": (0.002, 0.02),
        "w": (0.25, 0.75),
    }
    flags = [
        text
        for name, values in axes.items()
        for text in (f"--{name.replace('_', '-')}", ",".join(map(str, values)))
    ]
    out = str(tmp_path / "out")
    learned = ["--alpha-schedule", "learned", "--seeds", "1", "--lanes", "32"]
    assert main([*CLI, *learned, *flags, "--quiet", "--out", out]) == 0
    trained = capsys.readouterr().out
    assert main(["play", out]) == 0
    shown = capsys.readouterr().out
    names, rows = table(shown, "Catch, 10 episodes each")
    order = ["w", "gamma", "reward_scale", "actor_lr", "critic_lr"]
    assert names == ["run", *order, "seed", "normalised", "greedy"]
    expected = itertools.product(*(axes[name] for name in order), [0])
    assert [tuple(map(float, row[1:7])) for row in rows] == list(expected)
    # What the two commands call the same is in the same columns.
    assert table(trained, "MDPO(entropy, kl) on Catch")[0][:7] == ["run", *order, "seed"]
    assert table(shown, "over seeds")[0][:6] == [*order, "runs"]
    assert main(["play", out, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [float(row[7]) for row in rows] == np.round(found["normalized"], 3).tolist()
    assert found["mean"] == pytest.approx(np.mean(found["normalized"]))
    assert found["interval"] == list(mean_interval(np.array(found["normalized"])))
    assert f"normalised return {found['mean']:.3f}  (" in shown
    assert "w (learned), lam 0.1 (constant), 320 steps" in shown
    assert [cell["mean"] for cell in found["cells"]] == found["normalized"]


def test_play_shows_no_column_of_what_all_runs_share(folder, capsys):
    assert main(["play", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert table(shown, "Catch, 10 episodes each")[0] == ["run", "seed", "normalised", "greedy"]
    assert "alpha 0.05 (constant), lam 0.1 (constant), 320 steps" in shown
    assert "over seeds" not in shown
    assert main(["play", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["interval"] is None  # two runs: their scores say all there is
    first, second = found["normalized"]
    assert f"(two runs: {first:.3f} and {second:.3f})" in shown


@pytest.mark.parametrize(
    "wrong", ["settings", "runs", "return_bounds", "policies", "fewer", "shape"]
)
def test_a_folder_that_is_not_of_train_is_refused(folder, tmp_path, wrong, capsys):
    from mirrorax.mdpo import checkpoint

    arrays, meta = checkpoint.load(folder / "policies.npz")
    match wrong:
        case "policies":
            arrays["policies"] = arrays["policies"].astype(np.float64)
        case "shape":
            arrays["policies"] = arrays["policies"][:, 1:]
        case "fewer":
            meta["runs"] = meta["runs"][1:]
        case _:
            meta[wrong] = ["nothing"]
    meta.pop("format")
    checkpoint.save(tmp_path / "policies.npz", arrays, meta)
    assert main(["play", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mirrorax: error: folder: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("name", ["CartPole", "Acrobot", "DeepSea(5)", "Catch(6x4)"])
def test_every_suite_environment_can_be_drawn(name):
    from mirrorax.envs.adapter import make
    from mirrorax.envs.render import draw

    env = make(name)
    state = env.reset(jnp.zeros(env.reset_words, jnp.uint32))
    image = np.asarray(draw(env, np.asarray(env.remember(state))))
    assert image.ndim == 3
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 2


def test_an_environment_without_a_drawing_says_so():
    from mirrorax.envs.render import draw

    with pytest.raises(UserError, match="cannot be drawn"):
        draw(Corridor(), np.zeros(1))
