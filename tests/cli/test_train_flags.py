"""Every field of a run is a flag and a key of a file; every flag but one has a default."""

from types import SimpleNamespace

import numpy as np
import pytest

import mirrorax
from mirrorax.cli import flags, main, parser_of, train
from mirrorax.runs.settings import STATIC, TRACED, RunValues, Settings, make_settings
from mirrorax.training import make_request

#: for each kind of field one that is not at its default, as typed and as it is meant
GIVEN = {
    "environment": ("DeepSea(9)", "DeepSea(9)"),
    "potential": ("lp(2)", "lp(2)"),
    "steps": ("123456", 123456),
    "steps_counted": ("per_env", "per_env"),
    "hidden": ("32,16", (32, 16)),
    "adam_eps": ("1e-8", 1e-8),
    "twin_critics": ("false", False),
    "tau": ("0.5", 0.5),
    "alpha_schedule": ("linear", "linear"),
    "eval_every": ("7", 7),
    "alpha": ("0.5", 0.5),
    "actor_lr": ("0.001", 0.001),
}


def request(words):
    """Return what the command line requests, checked."""
    return make_request(**train.gather(parser_of("train").parse_args(words)))


def value(made, name):
    """Return a setting, or the value of every run."""
    if name in STATIC:
        return getattr(made.chunk.settings, name)
    (found,) = {getattr(run, name) for run in made.chunk.runs}
    return found


def test_all_defaults_are_those_of_the_documentation():
    made = request(["--env", "Catch"])
    assert (made.chunk.settings.potential, made.chunk.settings.drift) == ("entropy", "kl")
    assert made.chunk.settings.steps == 10**6
    runs = [(run.alpha, run.lam, run.seed) for run in made.chunk.runs]
    assert runs == [(0.01, 0.1, s) for s in range(5)]


def test_every_field_has_a_flag_with_a_sentence():
    helps = {action.dest: action.help for action in parser_of("train")._actions}
    for name in (*STATIC, *TRACED):
        if name in ("environment", "seed", "plugins"):
            continue  # --env, --seeds, and what --plugin leads to
        assert helps[name].startswith(flags.MEANING[name])
    for model in (Settings, RunValues):
        assert set(flags.MEANING) >= set(model.model_fields) - {"plugins", "seed"}


@pytest.mark.parametrize("name", GIVEN)
def test_a_field_is_a_flag_and_a_key_of_a_file(name, tmp_path):
    typed, meant = GIVEN[name]
    field = "env" if name == "environment" else name
    base = [] if name == "environment" else ["--env", "Catch"]
    assert value(request([*base, flags.flag(field), typed]), name) == meant
    path = tmp_path / "given.toml"
    quoted = {bool: lambda v: str(v).lower(), str: repr, tuple: list}.get(type(meant), repr)(meant)
    environment = "" if name == "environment" else 'env = "Catch"\n'
    path.write_text(f"{environment}{field} = {quoted}\n")
    assert value(request(["--config", str(path)]), name) == meant


def test_several_values_span_a_grid_and_seeds_are_counted_or_named():
    made = request(["--env", "Catch", "--alpha", "0.1,0.2", "--lam", "0,1", "--seeds", "3,8"])
    runs = {(run.alpha, run.lam, run.seed) for run in made.chunk.runs}
    assert runs == {(a, b, s) for a in (0.1, 0.2) for b in (0.0, 1.0) for s in (3, 8)}
    assert [run.seed for run in request(["--env", "Catch", "--seeds", "7,"]).chunk.runs] == [7]


@pytest.mark.parametrize(
    ("typed", "name", "meant"),
    [("1e6", "steps", 10**6), ("1_000_000", "steps", 10**6), ("", "hidden", ())],
)
def test_whole_numbers_and_empty_lists_are_read_as_they_are_written(typed, name, meant):
    assert value(request(["--env", "Catch", flags.flag(name), typed]), name) == meant


def test_the_defaults_of_the_command_are_those_of_the_function(monkeypatch):
    seen = []

    def trained(request, **_):
        seen.append(request)
        raise SystemExit

    monkeypatch.setattr("mirrorax.training.train_request", trained)
    with pytest.raises(SystemExit):
        main(["train", "--env", "Catch", "--quiet"])
    with pytest.raises(SystemExit):
        mirrorax.train("Catch")
    assert seen[0].chunk.settings == seen[1].chunk.settings
    assert seen[0].chunk.runs == seen[1].chunk.runs


def test_the_bar_shows_returns_so_far_and_the_time_left(capsys):
    from rich.console import Console

    from mirrorax.callbacks import ProgressBar

    bar = ProgressBar()

    def shown():
        screen = Console(width=120, record=True, file=None)
        with screen.capture() as text:
            screen.print(bar._bar.get_renderable())
        return text.get()

    bar.on_start(make_settings(environment="Catch"), [])
    assert "Catch (compiling)" in shown()
    at = SimpleNamespace(updates_done=10, updates_total=40, returns=None)
    bar.on_segment(at)
    assert "25%" in shown()
    assert "return" not in shown()
    at.updates_done, at.returns = 20, np.array([1.0, 2.0])
    bar.on_segment(at)
    assert "50%" in shown()
    assert "return 1.5" in shown()
    assert ":" in shown().split("return 1.5")[1]  # hours, minutes and seconds
    bar.on_end(None)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("terminal", "progress", "shown"), [(1, None, 1), (0, None, 0), (1, False, 0)]
)
def test_a_bar_is_shown_in_a_terminal_unless_it_is_turned_off(
    terminal, progress, shown, monkeypatch
):
    bars = []
    monkeypatch.setattr("mirrorax.callbacks.ProgressBar.on_start", lambda self, *_: bars.append(1))
    monkeypatch.setattr("mirrorax.callbacks.ProgressBar.on_end", lambda *_: None)
    monkeypatch.setattr("sys.stderr.isatty", lambda: bool(terminal), raising=False)

    def train_chunk(*_, **__):
        raise InterruptedError  # it would train now

    monkeypatch.setattr("mirrorax.mdpo.session.train_chunk", train_chunk)
    with pytest.raises(InterruptedError):
        mirrorax.train("Catch", progress=progress)
    assert len(bars) == shown
