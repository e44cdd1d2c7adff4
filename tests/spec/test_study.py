"""A study file: what it expands to, in which order, and every complaint it can get."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from specification import specification_of

from mirrorax.errors import UserError
from mirrorax.spec.study import Study, expand, parse, read

SMALLEST = """
environments = ["CartPole", "Catch"]
pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
alpha = [0.0, 0.01, 0.1]
lam = [0.0, 0.1, 10.0]
seeds = 5
steps = 1_000_000
"""


def complaint(text):
    with pytest.raises(UserError) as caught:
        parse(text, where="s.toml")
    return str(caught.value)


def test_the_smallest_study_is_the_product_of_its_axes_in_order():
    runs = expand(parse(SMALLEST))
    pairs = [("entropy", "kl"), ("max", "bregman(max)")]
    expected = list(
        itertools.product(
            ["CartPole", "Catch"], pairs, [0.0, 0.01, 0.1], [0.0, 0.1, 10.0], range(5)
        )
    )
    assert len(runs) == len(expected) == 180
    for index, (environment, (potential, drift), alpha, lam, seed) in enumerate(expected):
        spec = specification_of(runs, index)
        assert spec["environment"] == environment
        assert (spec["potential"], spec["drift"]) == (potential, drift)
        assert (spec["alpha"], spec["lam"], spec["seed"]) == (alpha, lam, seed)
        assert spec["w"] is None
        assert spec["steps"] == 1_000_000
    assert len(set(runs.ids.tolist())) == 180


def test_learned_schedules_use_w_and_have_no_alpha():
    runs = expand(
        parse(
            'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
            'schedules = [["learned", "constant"], ["linear", "linear"]]\n'
            "alpha = [0.1, 0.2]\nw = [0.0, 0.5, 1.0]\nlam = [1]\nseeds = [7]\n"
        )
    )
    assert len(runs) == 5
    assert np.isnan(runs.values["alpha"][:3]).all()
    assert runs.values["w"][:3].tolist() == [0.0, 0.5, 1.0]
    assert runs.values["alpha"][3:].tolist() == [0.1, 0.2]
    assert np.isnan(runs.values["w"][3:]).all()
    assert set(runs.values["seed"].tolist()) == {7}


def test_ranges_are_rounded_so_that_no_platform_names_a_run_differently():
    study = parse(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\nseeds = 1\n'
        "alpha = { log = [0.001, 10.0], points = 5, plus = [0.0] }\n"
        "lam = { linear = [0.0, 0.3], points = 4 }\n"
    )
    assert study.blocks[0].alpha == (0.0, 0.001, 0.01, 0.1, 1.0, 10.0)
    assert study.blocks[0].lam == (0.0, 0.1, 0.2, 0.3)


def test_spellings_of_one_environment_or_pair_are_one_run():
    one = expand(parse(SMALLEST.replace('"CartPole"', '"CartPole-v1"')))
    two = expand(parse(SMALLEST))
    assert one.ids.tolist() == two.ids.tolist()


def test_blocks_inherit_and_a_shared_run_is_one_run():
    runs = expand(
        parse(
            'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\nlam = [1.0]\nseeds = 2\n'
            "[[blocks]]\nalpha = [0.1, 0.2]\n"
            "[[blocks]]\nalpha = [0.2, 0.3]\n"
            '[[blocks]]\nalpha = [0.1]\npairs = [["max", "kl"]]\n'
        )
    )
    assert runs.values["alpha"].tolist() == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.1, 0.1]
    assert len(runs.configurations) == 2


def test_reward_scales_are_traced_and_belong_to_the_environment():
    runs = expand(
        parse(
            'environments = [{ name = "CartPole", reward_scale = [0.5, 2] }, "Catch(20x10)"]\n'
            'pairs = [["entropy", "kl"]]\nalpha = 0.1\nlam = 1\nseeds = 1\n'
        )
    )
    assert runs.values["reward_scale"].tolist() == [0.5, 2.0, 1.0]
    assert len(runs.configurations) == 2


def test_a_preset_is_a_start_that_the_file_overrides():
    paper = parse('preset = "paper"\ninitialization = "uniform"\n' + SMALLEST)
    spec = specification_of(expand(paper), 0)
    assert spec["steps_counted"] == "per_env"
    assert spec["initialization"] == "uniform"


EVERY_MISTAKE = """
environments = ["CartPol", { name = "Catch", reward_scale = -1 }]
pairs = [["entrpy", "kl"], ["max"]]
alpha = [0.0, -0.01, 0.1, "x"]
lam = { log = [0.0, 10.0], points = 1 }
seeds = 0
steps = 1.5
hidden = [64, 0]
stepz = 3
activation = "gelu"
gamma = 1.0
twin_critics = "yes"
preset = "papre"

[[blocks]]
w = [0.5, 2]
schedules = [["learnt", "constant"]]
"""


def test_every_mistake_is_reported_at_once_with_its_path_value_and_what_is_allowed():
    message = complaint(EVERY_MISTAKE)
    lines = message.splitlines()
    expected = {
        "environments[0]": ("'CartPol'", "CartPole"),
        "environments[1].reward_scale[0]": ("-1", "greater than 0"),
        "pairs[0][0]": ("'entrpy'", "entropy"),
        "pairs[1]": ("['max']", "two names"),
        "alpha[1]": ("-0.01", "greater than or equal to 0"),
        "alpha[3]": ("'x'", "number"),
        "lam.log": ("[0.0, 10.0]", "starts above 0"),
        "lam.points": ("1", "greater than or equal to 2"),
        "seeds": ("0", "between 1 and"),
        "steps": ("1.5", "integer"),
        "hidden[1]": ("0", "greater than or equal to 1"),
        "stepz": ("3", "'steps'"),
        "activation": ("'gelu'", "'tanh' or 'relu'"),
        "gamma": ("1.0", "less than 1"),
        "twin_critics": ("'yes'", "boolean"),
        "preset": ("'papre'", "default, paper"),
        "blocks[0].w[1]": ("2", "less than or equal to 1"),
        "blocks[0].schedules[0][0]": ("'learnt'", "learned"),
    }
    assert lines[0] == f"s.toml: {len(expected)} mistakes:"
    assert len(lines) == len(expected) + 1
    for path, (value, allowed) in expected.items():
        line = next(line for line in lines[1:] if line.strip().startswith(path + ": "))
        assert value in line
        assert allowed in line


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("alpha = = 3", ("not TOML", "line 1")),
        ("", ("environments: required", "pairs: required", "lam: required", "alpha: required")),
        (SMALLEST + "w = [0.5]", ("w:", "learned")),
        (SMALLEST + 'alpha_schedule = "learned"', ("alpha:", "w: required")),
        (SMALLEST + 'environment = "CartPole"', ("environment:", "environments")),
        (SMALLEST + "reward_scale = 2.0", ("reward_scale:", "environments")),
        (SMALLEST.replace("1_000_000", "1" + "0" * 30), ("steps", "does not fit into 64 bits")),
        (SMALLEST.replace("1_000_000", "1" + "0" * 18), ("steps", "less than or equal to")),
        (SMALLEST + "tau" + ".a" * 3000 + " = 1", ("tau", "nested too deeply")),
        (SMALLEST + "tau = " + "[" * 3000 + "]" * 3000, ("nested too deeply",)),
        (SMALLEST + "tau = 1" + "0" * 5000, ("not TOML",)),
        (SMALLEST.replace("1_000_000", "9_000_000_000_000_000"), ("steps", "at most 2147483647")),
        (SMALLEST + "hidden = [64, 1_000_000]", ("hidden[1]", "less than or equal to 65536")),
        (SMALLEST + "num_envs = 10_000_000_000", ("num_envs", "less than or equal to 2147483647")),
        (SMALLEST + "eval_every = 10_000_000_000", ("eval_every", "less than or equal to")),
        (SMALLEST + "num_envs = 10", ("env_steps_per_update", "multiple of num_envs")),
        (SMALLEST.replace("0.01", "0.1"), ("alpha:", "0.1 is given twice")),
        (SMALLEST.replace("seeds = 5", "seeds = [1, 1]"), ("seeds:", "1 is given twice")),
        (
            SMALLEST.replace("0.01", "1e-50"),
            ("alpha[1]: 1e-50: must be at least 1.17549e-38",),
        ),
        (SMALLEST.replace("10.0", "1e39"), ("lam[2]: 1e+39: must be at most 3.40282e+38",)),
        (
            SMALLEST.replace("0.01", "0.100000000001"),
            ("alpha: ", "0.100000000001 and 0.1 are one number in float32"),
        ),
        (
            SMALLEST.replace("lam = [0.0, 0.1, 10.0]", "lam = { log = [1e-45, 1.0], points = 2 }"),
            ("lam", "1e-45 must be at least 1.17549e-38"),
        ),
        (
            SMALLEST.replace(
                "lam = [0.0, 0.1, 10.0]", "lam = { linear = [1.0, 1.00000001], points = 2 }"
            ),
            ("lam", "1.0 and 1.00000001 are one number in float32"),
        ),
        (SMALLEST + "gamma = 0.999999999\n", ("gamma: 0.999999999: must be at most 0.99999994",)),
        (SMALLEST + "actor_lr = 1e-46\n", ("actor_lr: 1e-46: must be at least 1.17549e-38",)),
        (SMALLEST + "critic_lr = 1e39\n", ("critic_lr: 1e+39: must be at most 3.40282e+38",)),
        (
            SMALLEST.replace('"Catch"', '{ name = "Catch", reward_scale = 1e-46 }'),
            ("reward_scale", "1e-46: must be at least 1.17549e-38"),
        ),
        (
            SMALLEST.replace('"Catch"', '{ name = "Catch", reward_scale = [2.0, 2.000000001] }'),
            ("reward_scale", "2.0 and 2.000000001 are one number in float32"),
        ),
        (
            SMALLEST.replace('"Catch"', '"Catch", { name = "Catch", reward_scale = 1.000000001 }'),
            ("environments:", "given twice"),
        ),
        (SMALLEST.replace('"Catch"', '"CartPole-v1"'), ("environments:", "given twice")),
        (SMALLEST.replace("seeds = 5", "seeds = true"), ("seeds:",)),
        (
            SMALLEST.replace("seeds = 5", "seeds = 100_000\nlam = 3").replace(
                "lam = [0.0, 0.1, 10.0]", ""
            ),
            (),
        ),
        (SMALLEST + "[[blocks]]\nseeds = 3\nlam = 1\n", ("seeds:", "every block replaces it")),
        (SMALLEST.replace("0.01", "nan"), ("alpha[1]", "finite")),
        (SMALLEST + "blocks = 3", ("blocks: 3", "[[blocks]]")),
        (SMALLEST + "blocks = []", ("blocks:", "at least one")),
        (SMALLEST + 'name = "a\\u0000b"', ("name:",)),
    ],
)
def test_one_mistake_is_one_line_that_names_it(text, parts):
    if not parts:
        assert parse(text).blocks[0].size == 2 * 2 * 3 * 100_000
        return
    message = complaint(text)
    assert message.startswith("s.toml:")
    for part in parts:
        assert part in message


def test_a_study_of_too_many_runs_is_refused():
    grid = "{ linear = [0.0, 1.0], points = 5000 }"
    message = complaint(
        'environments = ["CartPole"]\npairs = [["entropy", "kl"]]\n'
        f"alpha = {grid}\nlam = {grid}\nseeds = 5\n"
    )
    assert "125,000,000 runs" in message


def test_files_that_are_no_study(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        read(tmp_path / "absent.toml")
    with pytest.raises(UserError, match="cannot read"):
        read(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        read(binary)
    deep = tmp_path / "deep.toml"
    deep.write_text("alpha = " + "[" * 100_000)
    with pytest.raises(UserError):
        read(deep)


def test_reading_and_expanding_imports_no_jax():
    code = (
        "import sys\n"
        "from mirrorax.spec.study import parse\n"
        "from mirrorax.spec.study import expand\n"
        f"expand(parse({SMALLEST!r}))\n"
        "print([name for name in ('jax', 'gymnax', 'pyarrow') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_studies_in_the_documentation_are_valid():
    page = Path(__file__).parents[2] / "docs" / "sweeps.md"
    shown = re.findall(r"```toml\n(.*?)```", page.read_text(), flags=re.DOTALL)
    assert [len(expand(parse(text))) for text in shown] == [180, 2000]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"environments": "Catch"}, "environments: 'Catch': must be a list"),
        ({"alpha": []}, "alpha: (): must not be empty"),
        ({"lambda": [1.0]}, "lambda: [1.0]: no such key; use lam"),
        ({"lr": 0.1}, "lr: 0.1: no such key; use actor_lr and critic_lr"),
    ],
)
def test_a_mistake_in_python_is_answered_with_what_was_meant(field, message):
    fields = {"environments": ["Catch"], "pairs": [["entropy", "kl"]], "alpha": [0.1], "lam": [1.0]}
    with pytest.raises(UserError, match=re.escape(message)):
        Study.of(**{**fields, "seeds": 1, **field})


def test_what_is_no_study_is_named():
    with pytest.raises(UserError, match="study: 3 is not a Study, nor the path of a TOML file"):
        read(3)
