"""Names of users' own: declared, imported, part of a run's identity."""

import argparse
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from specification import run_id, specification

import mirrorax
from mirrorax import plugins, registry
from mirrorax.analysis import landscapes
from mirrorax.cli import main
from mirrorax.cli import train as train_cli
from mirrorax.envs import adapter, suite
from mirrorax.errors import UserError
from mirrorax.runs import results
from mirrorax.runs.chunk import Outcome, make_chunk
from mirrorax.runs.settings import RunValues, Settings
from mirrorax.spec.study import expand, parse
from mirrorax.store import load
from mirrorax.store.store import Store
from mirrorax.sweep import worker
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engines.local import LocalEngine
from mirrorax.training import make_request

GOOD = """
import mirrorax

class Thing:
    return_bounds = (0.0, 2.0)
    def step(self): ...

mirrorax.register_environment("Thing", Thing)
mirrorax.register_potential("half", lambda p: 0.5 * (p * p).sum())
mirrorax.register_drift("far", lambda p, q: ((p - q) ** 2).sum())
mirrorax.register_schedule("waves", object())
"""
STUDY = 'pairs = [["entropy", "kl"]]\nalpha = 0.1\nlam = 1.0\nseeds = 1\n'


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that can be imported; forget it afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    written = []

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(dedent(text))
        sys.modules.pop(name, None)
        plugins._LOADED.pop(name, None)
        written.append(name)
        return name

    yield write
    for name in written:
        sys.modules.pop(name, None)


def test_a_plugin_is_part_of_the_identity_of_the_runs_that_use_it(module):
    before = run_id(specification(Settings(environment="Catch"), RunValues()))
    mirrorax.load_plugin(module("things_a", GOOD + '__version__ = "1.2"\n'))
    used = ("things_a==1.2",)
    assert Settings(environment="Thing").plugins == used
    assert Settings(environment="Catch", potential="half").plugins == used
    assert Settings(environment="Catch", drift="bregman(half)").plugins == used
    assert Settings(environment="Catch", drift="far").plugins == used
    assert Settings(environment="Catch", alpha_schedule="waves").plugins == used
    assert Settings(environment="Catch", lam_schedule="waves").plugins == used
    # A run that uses nothing of it is the run it was.
    assert Settings(environment="Catch").plugins == ()
    assert run_id(specification(Settings(environment="Catch"), RunValues())) == before
    first = run_id(specification(Settings(environment="Thing"), RunValues()))
    plugins._LOADED["things_a"] = plugins.Plugin("things_a", "1.3")
    assert run_id(specification(Settings(environment="Thing"), RunValues())) != first


def test_settings_know_that_they_were_made_with_another_version(module):
    plugins.load_plugin(module("things_b", GOOD + '__version__ = "2"\n'))
    assert Settings(environment="Thing", plugins=("things_b==2",)).plugins == ("things_b==2",)
    with pytest.raises(UserError, match=r"plugins: things_b==1 wanted.* of: things_b==2"):
        Settings(environment="Thing", plugins=("things_b==1",))
    with pytest.raises(UserError, match="version 3 of things_b is wanted, version 2 is here"):
        plugins.load_plugin("things_b==3")


def test_without_a_version_the_source_tells(module):
    first = plugins.load_plugin(module("things_c", "x = 1\n")).version
    assert first.startswith("sha256-")
    assert plugins.load_plugin(module("things_c", "x = 1\n")).version == first
    assert plugins.load_plugin(module("things_c", "x = 2\n")).version != first


def test_a_name_with_values_in_brackets_makes_the_environment(module):
    text = """
    import mirrorax

    class Long:
        def __init__(self, length=3):
            self.return_bounds = (0.0, float(length))
        def step(self): ...

    mirrorax.register_environment("Long", Long)
    """
    plugins.load_plugin(module("things_d", text))
    assert suite.load("Long").return_bounds == (0.0, 3.0)
    assert suite.load("Long(length=9)").return_bounds == (0.0, 9.0)
    assert suite.environment("Long( length = 9 )").name == "Long(length=9)"
    assert "Long" in suite.names()
    with pytest.raises(UserError, match="named plain values"):
        suite.environment("Long(9)")
    with pytest.raises(UserError, match="Long has no 'lenght' \\(did you mean 'length'\\?\\)"):
        suite.load("Long(lenght=9)")
    with pytest.raises(UserError, match=r"cannot make .*: ValueError: .*things_d\.py, line"):
        suite.load("Long(length='a')")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("length='9'", "length = '9': expected int"),
        ("length=True", "length = True: expected int"),
        ("length=2.5", "length = 2.5: expected int"),
        ("speed='fast'", "speed = 'fast': expected float"),
        ("more=1", "has no 'more'.*; allowed: length, speed"),
        ("length=print", "named plain values"),
        ("length=[1]", "named plain values"),
        ("length=1, length=2", "each once"),
        ("length=1e999", "named plain values"),
        ("length=" + "9" * 500 + "(", "named plain values"),
        ("**{}", "named plain values"),
    ],
)
def test_values_in_brackets_are_literals_of_declared_fields(module, values, reason):
    text = """
    from dataclasses import dataclass
    import mirrorax

    @dataclass(frozen=True)
    class Typed:
        length: int = 3
        speed: float = 1.0
        return_bounds = (0.0, 1.0)
        def step(self): ...

    mirrorax.register_environment("Typed", Typed)
    """
    plugins.load_plugin(module("things_t", text))
    assert suite.load("Typed(length=4, speed=2)").speed == 2
    with pytest.raises(UserError, match=reason):
        suite.environment(f"Typed({values})")


def test_what_an_environment_lacks_is_named(module):
    text = """
    import mirrorax

    class Bare:
        def step(self): ...

    mirrorax.register_environment("Bare", Bare)
    """
    plugins.load_plugin(module("things_bare", text))
    with pytest.raises(UserError, match="'Bare' has no return_bounds: \\(low, high\\)"):
        suite.load("Bare")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError.*things_e.py, line 1"),
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("def f(:\n", "SyntaxError"),
        ("__version__ = 'a b'\n", "not a short word"),
        ("import mirrorax\nmirrorax.register_environment('a b', 1)\n", "'a b' is not allowed"),
        ("import mirrorax\nmirrorax.register_environment('Catch', 1)\n", "taken by mirrorax"),
        ("import mirrorax\nmirrorax.register_schedule('linear', 1)\n", "taken by mirrorax"),
        ("import mirrorax\nmirrorax.register_potential('max', sum)\n", "taken by mirrorax"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_one_line(module, text, reason):
    name = module("things_e", text)
    with pytest.raises(UserError, match=reason) as error:
        plugins.load_plugin(name)
    assert "\n" not in str(error.value)
    assert "things_e" in str(error.value)
    assert "things_e" not in plugins._LOADED


@pytest.mark.parametrize("text", ["", "no module", "os;x", 3])
def test_what_is_no_module_is_not_imported(text):
    with pytest.raises(UserError, match="is not the name of a module"):
        plugins.load_plugin(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("things_f.py", "give the name of a module: --plugin things_f"),
        ("./things_f.py", "give the name of a module: --plugin things_f"),
        ("../x", "--plugin x from the folder .."),
        ("a/b.py", "--plugin b from the folder a"),
        ("thing_f", "there is no module 'thing_f' (did you mean 'things_f'?)"),
        ("zzz.yyy", "there is no module 'zzz.yyy'; it is looked for among installed packages"),
    ],
)
def test_a_path_or_a_typing_error_is_told_which_module_is_meant(module, text, said):
    module("things_f", "")
    with pytest.raises(UserError) as error:
        plugins.load_plugin(text)
    assert said in str(error.value)


def test_who_registers_nothing_of_a_kind_is_told(module, monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    monkeypatch.setattr(plugins, "_LOADED", {})
    with pytest.raises(UserError, match="potentials of your own need their module: --plugin"):
        mirrorax.potential("zzzzz")
    plugins.load_plugin(module("things_g", ""))
    with pytest.raises(UserError, match="no environment is registered by things_g"):
        suite.environment("Zebra")


def test_one_name_means_one_thing(module):
    plugins.load_plugin(module("things_f", GOOD))
    with pytest.raises(UserError, match=r"environment name: 'Thing' is taken by things_f:Thing"):
        plugins.load_plugin(module("things_g", GOOD))
    plugins.load_plugin(module("things_f", GOOD))  # no conflict


def test_two_lambdas_or_two_objects_under_one_name_are_two_things(module):
    start = "import mirrorax, dataclasses\n"
    lambdas = 'mirrorax.register_schedule("l", lambda k: 1)\n'
    plugins.load_plugin(module("things_l", start + lambdas))
    with pytest.raises(
        UserError, match=r"schedule name: 'l' is taken by things_l:<lambda> \(line 2"
    ):
        plugins.load_plugin(module("things_l", start + lambdas + lambdas))
    objects = """
        @dataclasses.dataclass
        class Bridge:
            planks: int
            def step(self): ...
        mirrorax.register_environment("Bridge4", Bridge(4))
        """
    plugins.load_plugin(module("things_o", start + dedent(objects)))
    plugins.load_plugin(module("things_o", start + dedent(objects)))  # no conflict
    more = '\nmirrorax.register_environment("Bridge4", Bridge(9))\n'
    with pytest.raises(UserError, match="environment name: 'Bridge4' is taken by things_o:Bridge"):
        plugins.load_plugin(module("things_o", start + dedent(objects) + more))


def test_a_configuration_of_train_names_its_plugins_with_or_without_a_version(module):
    name = module("things_c", GOOD)
    for text in (name, f"{name}=={plugins.load_plugin(name).version}"):
        Path("c.toml").write_text(f'env = "Catch"\npotential = "half"\nplugins = ["{text}"]\n')
        arguments = argparse.Namespace(config="c.toml", preset=None, plugin=[])
        request = make_request(**train_cli.gather(arguments))
        assert request.chunk.settings.plugins == (f"{name}=={plugins.load_plugin(name).version}",)
    Path("c.toml").write_text(f'env = "Catch"\npotential = "half"\nplugins = ["{name}==0.0"]\n')
    with pytest.raises(UserError, match=r"version 0\.0 of things_c is wanted"):
        train_cli.gather(argparse.Namespace(config="c.toml", preset=None, plugin=[]))


def test_another_version_changes_the_ids_of_the_block_that_uses_it(module):
    big = "[[blocks]]\nenvironments = ['Catch']\nseeds = 60\n"
    text = (
        'plugins = ["things_v"]\npairs = [["entropy", "kl"]]\nalpha = 0.1\nlam = 1.0\n'
        f"{big}[[blocks]]\nenvironments = ['Catch']\npairs = [['half', 'kl']]\nseeds = 10\n"
        f"{big.replace('Catch', 'DeepSea')}"
    )
    plugins.load_plugin(module("things_v", '__version__ = "1"\n' + GOOD))
    first = expand(parse(text))
    plugins.load_plugin(module("things_v", '__version__ = "2"\n' + GOOD))
    assert (first.ids != expand(parse(text)).ids).sum() == 10


def test_an_export_of_a_study_needs_its_plugins(module, tmp_path, capsys):
    name = module("things_x", GOOD)
    study = f'plugins = ["{name}"]\nenvironments = ["Catch"]\n{STUDY.replace("entropy", "half")}'
    Path("s.toml").write_text(study)
    with Store(tmp_path / "store"):
        pass
    sys.path[:] = [place for place in sys.path if place != str(tmp_path)]
    words = ["sweep", "export", "--store", "store", "--study", "s.toml", "--to", "out.csv"]
    assert main(words) == 2
    assert f"s.toml: its plugins are not loaded: {name}" in capsys.readouterr().err
    assert name not in sys.modules
    assert main([*words, "--plugin", name]) == 0
    assert capsys.readouterr().out == "0 runs written to out.csv\n"


def test_a_study_declares_plugins_and_loads_none(module):
    name, other = module("things_h", GOOD), module("things_k", "")
    study = f'plugins = ["{name}", "{other}"]\nenvironments = ["Thing"]\n' + STUDY
    with pytest.raises(UserError) as error:
        parse(study)
    assert "add --plugin things_h --plugin things_k " in str(error.value)
    assert "\n" not in str(error.value)
    assert not {name, other} & set(sys.modules)
    plugins.load_plugin(other)
    plugins.load_plugin(name)
    (settings,) = expand(parse(study)).configurations
    assert settings.plugins == (str(plugins._LOADED[name]),)
    for wrong in ('plugins = "x"', "plugins = [3]", 'plugins = ["absent_module"]'):
        with pytest.raises(UserError, match="plugin") as error:
            parse(wrong + '\nenvironments = ["Catch"]\n' + STUDY)
        assert "\n" not in str(error.value)


def test_installed_packages_register_theirs_when_a_name_is_not_known(module, tmp_path):
    module("things_i", GOOD)
    info = tmp_path / "things_i-4.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: things-i\nVersion: 4.5\n")
    (info / "entry_points.txt").write_text("[mirrorax.plugins]\nthings = things_i\n")
    plugins._SEARCHED.clear()
    Settings(environment="Catch")
    assert "things_i" not in sys.modules  # nothing asked for it
    assert Settings(environment="Thing").plugins == ("things_i==4.5",)
    plugins._SEARCHED.clear()
    assert Settings(environment="Catch", potential="half").plugins == ("things_i==4.5",)


def test_a_worker_imports_the_plugins_of_its_driver_and_refuses_another_version(module):
    plugins.load_plugin(module("things_j", GOOD + '__version__ = "1"\n'))
    runs = expand(parse('environments = ["Thing"]\n' + STUDY))
    data = make_chunk(runs.configurations[0], runs.values, 1).to_bytes()
    seen = []

    def train(chunk, **_):
        seen.append(chunk.settings.plugins)
        return Outcome.failed(chunk, "not trained", {})

    sys.modules.pop("things_j")
    plugins._LOADED.clear()
    registry._REGISTERED.clear()
    worker.run_chunk(train, data, ["things_j==1"])
    assert seen == [("things_j==1",)]
    module("things_j", GOOD + '__version__ = "2"\n')
    registry._REGISTERED.clear()
    with pytest.raises(UserError, match="version 1 of things_j is wanted, version 2 is here"):
        worker.run_chunk(train, data, ["things_j==1"])
    # Settings are data: what they name is not loaded.
    sys.modules.pop("things_j")
    plugins._LOADED.clear()
    with pytest.raises(UserError, match="its plugins are not loaded: things_j"):
        worker.run_chunk(train, data, [])
    assert "things_j" not in sys.modules


def algorithms(*runs):
    """Return how many algorithms runs in these environments with these plugins are."""
    parts = []
    for environment, used in runs:
        plain = Settings(environment="Catch")
        settings = plain.model_copy(update={"environment": environment, "plugins": used})
        chunk = make_chunk(settings, {"seed": np.array([0])})
        score = np.ones((1, 1))
        outcome = Outcome(chunk, score, score, np.array([-1]), 1.0, (0.0, 1.0))
        parts.append(results.from_arrow(outcome.to_arrow()))
    return len(landscapes(results.concat(parts)))


def test_only_versions_of_one_plugin_tell_algorithms_apart():
    plain = [("Mine", ("a==1",)), ("Catch", ())]
    assert algorithms(*plain) == 1
    assert algorithms(*plain, ("Catch", ("h==1",)), ("Catch", ("h==2",))) == 3
    assert algorithms(("Mine", ("a==1",)), ("Mine", ("a==2",))) == 2


EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_examples_are_short():
    for path in EXAMPLES.glob("my_*.py"):
        code = [line for line in path.read_text().splitlines() if line.strip()]
        assert len(code) <= 40, path.name


OWN_GYMNASIUM = """
import gymnasium
import numpy as np

__version__ = "2.5"

class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=3):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.place = max(self.place + 2 * int(action) - 1, 0)
        end = self.place >= self.length
        return np.full(1, self.place / self.length, np.float32), float(end), end, False, {}

gymnasium.register("MxLine-v0", entry_point=Line, max_episode_steps=8)
gymnasium.register("MxLine-v1", entry_point="line_gym:Line", max_episode_steps=9)
"""


def test_ones_own_environment_of_gymnasium_is_swept_by_workers_that_import_its_plugin(
    module, tmp_path, monkeypatch
):
    import gymnasium

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    name = module("line_gym", OWN_GYMNASIUM)
    with pytest.raises(UserError, match=r"MxLine.*needs its module: --plugin MODULE"):
        adapter.make("gymnasium:MxLine-v0")
    plugins.load_plugin(name)
    study = parse(
        'plugins = ["line_gym"]\nenvironments = ["gymnasium:MxLine-v0(length=2)"]\nsteps = 24\n'
        "num_envs = 2\nenv_steps_per_update = 12\nbatch_size = 8\nbuffer_size = 100\n" + STUDY
    )
    try:
        for id_ in ("gymnasium:MxLine-v0", "gymnasium:MxLine-v1(length=9)"):
            assert Settings(environment=id_).plugins == ("line_gym==2.5",)
        assert Settings(environment="gymnasium:CartPole-v1").plugins == ()
        summary = run_study(
            study,
            tmp_path / "store",
            engine=lambda logs: LocalEngine(logs=logs, workers=1),
            lanes=1,
        )
    finally:
        for id_ in ("MxLine-v0", "MxLine-v1"):
            gymnasium.registry.pop(id_, None)
    assert (summary.done, summary.failed) == (1, 0)
    (row,) = load(tmp_path / "store", columns="all").to_pylist()
    assert row["plugins"] == [f"{name}==2.5"]
    assert set(row["greedy_returns"]) <= {0.0, 1.0}
