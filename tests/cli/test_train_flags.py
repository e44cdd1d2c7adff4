"""Every field of a run is a flag and a key of a file; every flag but one has a default."""

import argparse
from types import SimpleNamespace

import numpy as np
import pytest

from mirrorax.cli import main, train
from mirrorax.runs.settings import FIELDS, RunValues, make_settings
from mirrorax.training import GRID, plan_runs

#: for each field a value that is not the default, as typed and as it is meant
GIVEN = {
    "environment": ("DeepSea(9)", "DeepSea(9)"),
    "potential": ("lp(2)", "lp(2)"),
    "drift": ("squared_tv", "squared_tv"),
    "steps": ("123456", 123456),
    "num_envs": ("8", 8),
    "env_steps_per_update": ("128", 128),
    "steps_counted": ("per_env", "per_env"),
    "batch_size": ("64", 64),
    "buffer_size": ("50000", 50000),
    "actor_epochs": ("3", 3),
    "critic_epochs": ("2", 2),
    "hidden": ("32,16", (32, 16)),
    "activation": ("relu", "relu"),
    "network": ("mlp", "mlp"),
    "initialization": ("uniform", "uniform"),
    "adam_eps": ("1e-8", 1e-8),
    "anneal_learning_rate": ("true", True),
    "twin_critics": ("false", False),
    "critic_target": ("printed", "printed"),
    "clipping": ("joint", "joint"),
    "max_grad_norm": ("0.5", 0.5),
    "bootstrap_truncation": ("false", False),
    "actor_q": ("unregularized", "unregularized"),
    "tau": ("0.5", 0.5),
    "alpha_schedule": ("linear", "linear"),
    "lam_schedule": ("linear", "linear"),
    "target_reference": ("bound", "bound"),
    "eval_episodes": ("3", 3),
    "eval_every": ("7", 7),
    "batches_per_update": ("3", 3),
    "drift_from": ("update", "update"),
    "buffer_counted": ("per_env", "per_env"),
    "actor_gain": ("0.5", 0.5),
    "critic_gain": ("1.0", 1.0),
    "optimizer": ("sgd", "sgd"),
    "alpha": ("0.5", 0.5),
    "lam": ("0.6", 0.6),
    "w": ("0.7", 0.7),
    "seed": ("3,", None),
    "actor_lr": ("0.001", 0.001),
    "critic_lr": ("0.002", 0.002),
    "gamma": ("0.8", 0.8),
    "reward_scale": ("3.0", 3.0),
    "plugins": ("", None),
}


def asked(words):
    """Return what the command line asks `mirrorax.train` for."""
    parser = argparse.ArgumentParser()
    train.add_arguments(parser)
    return train._gather(parser.parse_args(words), {})


def test_all_defaults_are_those_of_the_documentation():
    request = asked(["--env", "Catch"])
    settings = make_settings(
        environment=request["env"],
        **{k: v for k, v in request.items() if k in FIELDS and FIELDS[k] == "static"},
    )
    assert (settings.potential, settings.drift, settings.steps) == ("entropy", "kl", 10**6)
    grid = {name: request.get(name) for name in GRID}
    runs = plan_runs(settings, grid, request.get("seeds", 5))
    assert [(run.alpha, run.lam, run.seed) for run in runs] == [(0.01, 0.1, s) for s in range(5)]


def test_those_of_the_command_are_those_of_the_function(monkeypatch):
    seen = []

    def trained(**request):
        seen.append(request)
        raise SystemExit

    monkeypatch.setattr("mirrorax.training.train", trained)
    monkeypatch.setattr("mirrorax.sweep.rates.check_memory", lambda *_: None)
    with pytest.raises(SystemExit):
        main(["train", "--env", "Catch", "--quiet"])
    (request,) = seen
    assert request["env"] == "Catch"
    for name in ("seeds", *GRID):
        assert name not in request  # the function's own default


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_a_flag_and_a_key_of_a_file(name, tmp_path):
    typed, meant = GIVEN[name]
    if name == "plugins":
        return  # found from --plugin, not chosen
    if name == "seed":
        assert asked(["--env", "Catch", "--seeds", "3,8"])["seeds"] == [3, 8]
        return
    field = "env" if name == "environment" else name
    default = RunValues if FIELDS[name] == "traced" else type(make_settings(environment="Catch"))
    assert meant != default.model_fields[name].default
    base = [] if name == "environment" else ["--env", "Catch"]
    assert asked([*base, f"--{field.replace('_', '-')}", typed])[field] == meant
    path = tmp_path / "given.toml"
    quoted = {bool: lambda v: str(v).lower(), str: repr, tuple: list}.get(type(meant), repr)(meant)
    environment = "" if name == "environment" else 'env = "Catch"\n'
    path.write_text(f"{environment}{field} = {quoted}\n")
    assert asked(["--config", str(path)])[field] == meant


def test_the_bar_shows_returns_so_far_and_the_time_left(capsys):
    from rich.console import Console

    from mirrorax.cli.live import Bar

    bar = Bar("Catch", hidden=False)

    def shown():
        screen = Console(width=120, record=True, file=None)
        with screen.capture() as text:
            screen.print(bar._bar.get_renderable())
        return text.get()

    with bar:
        assert "Catch (compiling)" in shown()
        at = SimpleNamespace(updates_done=10, updates_total=40, returns=None)
        bar(at)
        assert "25%" in shown()
        assert "return" not in shown()
        at.updates_done, at.returns = 20, np.array([1.0, 2.0])
        bar(at)
        assert "50%" in shown()
        assert "return 1.5" in shown()
        assert ":" in shown().split("return 1.5")[1]  # hours, minutes and seconds
    capsys.readouterr()
