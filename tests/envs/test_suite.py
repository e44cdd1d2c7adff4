"""Environments by name, without jax."""

import subprocess
import sys

import pytest

from mirrorax import plugins, registry
from mirrorax.envs import suite
from mirrorax.errors import UserError


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("CartPole-v1", "CartPole"),
        ("Acrobot", "Acrobot"),
        ("Catch-bsuite", "Catch"),
        ("Catch(10x5)", "Catch"),
        (" Catch( 20 x 10 ) ", "Catch(20x10)"),
        ("DeepSea(8)", "DeepSea"),
        ("DeepSea-bsuite(16)", "DeepSea(16)"),
        ("MountainCar-v0", "MountainCar-v0"),
    ],
)
def test_every_spelling_has_one_name(spelling, canonical):
    assert suite.environment(spelling).name == canonical
    assert suite.environment(canonical).name == canonical


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("CartPole", (0, 500)),
        ("Acrobot", (-500, -75)),
        ("Catch(30x15)", (-1, 1)),
        ("DeepSea(4)", (0, 1)),
    ],
)
def test_the_papers_bounds_scale_with_rewards_and_nothing_is_clipped(name, bounds):
    spec = suite.environment(name)
    assert spec.bounds == bounds
    low, high = 3.0 * bounds[0], 3.0 * bounds[1]
    assert suite.normalize(low, bounds, 3.0) == 0
    assert suite.normalize(high, bounds, 3.0) == 1
    assert suite.normalize(high + (high - low), bounds, 3.0) == 2


@pytest.mark.parametrize(
    "name",
    ["", "Cartpol", "Catch(3)", "Catch(1x5)", "Catch(10x5", "DeepSea(8x8)", "CartPole(4)", 7],
)
def test_a_wrong_name_is_one_clear_line(name):
    with pytest.raises(UserError, match=r"^environment: ") as caught:
        suite.environment(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Zebra", "environments of your own need their module: --plugin MODULE"),
        ("LunarLander-v3", "if it is one of Gymnasium's, write gymnasium:LunarLander-v3"),
        ("CartPole-v2", "did you mean 'CartPole-v1'?"),
        ("MountainCar", "did you mean 'MountainCar-v0'?"),
    ],
)
def test_a_name_that_is_not_known_gets_the_advice_that_fits_it(name, advice, monkeypatch):
    monkeypatch.setattr(plugins, "_LOADED", {})
    monkeypatch.setattr(registry, "_REGISTERED", {})
    with pytest.raises(suite.UnknownEnvironment) as caught:
        suite.environment(name)
    said = str(caught.value)
    assert advice in said
    assert said.index(advice) < said.index("allowed: ")  # before the long list
    assert ("plugin" in said) == (name == "Zebra")


@pytest.mark.parametrize("name", ["os:system(command='true')", "no_such_package:thing", "a.b:C"])
def test_an_import_path_is_no_name(name):
    with pytest.raises(suite.UnknownEnvironment, match="a name does not import code: register it"):
        suite.environment(name)


def test_suite_and_config_import_neither_jax_nor_gymnax():
    code = (
        "import sys; import mirrorax.envs.suite, mirrorax.runs.settings, mirrorax.cli.train, "
        "mirrorax.cli.play; assert not {'jax', 'gymnax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
