"""Ill-formed TOML and command lines, by the thousand: one line each, no traceback."""

import json
import random

import pytest
from fuzz import NASTY_TEXTS, Trap, amount, broken, check_clean, check_refused, commanded

import mirrorax.cli.train
import mirrorax.sweep.driver
import mirrorax.tabular
import mirrorax.tuning.tune
from mirrorax.cli import COMMANDS, parser_of
from mirrorax.errors import UserError
from mirrorax.runs.settings import STATIC, TRACED
from mirrorax.spec import study
from mirrorax.spec.form import AXES, FIXED

STUDY = """\
environments = ["CartPole", { name = "Catch(20x10)", reward_scale = [0.5, 2.0] }]
pairs = [["entropy", "kl"], ["max", "bregman(max)"]]
schedules = [["constant", "linear"], ["learned", "constant"]]
alpha = [0.0, 0.01, 0.1]
w = [0.5]
lam = { log = [1e-3, 10.0], points = 4, plus = [0.0] }
seeds = 5
steps = 1_000_000
hidden = [64, 64]
"""
CONFIG = """\
env = "Catch"
potential = "tsallis(0.5)"
drift = "bregman(lp(2))"
alpha = [0.01, 0.1]
lam = 1.0
seeds = [0, 1]
steps = 100_000
hidden = [64, 64]
lanes = 8
"""


@pytest.fixture
def trap(tmp_path, monkeypatch):
    set_up = Trap(tmp_path, monkeypatch)
    yield set_up
    set_up.check()


@pytest.fixture(autouse=True)
def _nothing_heavy(monkeypatch):
    """Stop where a sound command would begin to compute."""

    def stop(*_, **__):
        raise UserError("stopped before the work")

    monkeypatch.setattr(study, "MOST_RUNS", 3_000)
    monkeypatch.setattr(mirrorax.cli.train, "_train", stop)
    monkeypatch.setattr(mirrorax.tuning.tune, "run_search", stop)
    monkeypatch.setattr(mirrorax.sweep.driver, "Store", stop)
    monkeypatch.setattr(mirrorax.tabular, "solve", stop)


def value(rng, trap):
    """Write a value in TOML, likely a wrong one."""
    texts = [*NASTY_TEXTS, *trap.names]
    match rng.randrange(12):
        case 0:
            return "[" * (depth := rng.choice([1, 5, 20, 2_000])) + "]" * depth
        case 1:
            return rng.choice(["1e400", "-inf", "nan", "9" * 25, "-" + "9" * 400, "9" * 5_000])
        case 2:
            return rng.choice(["true", "0", "-1", "0.5", "2.5e-320", "1979-05-27T07:32:00Z"])
        case 3:
            return "{ " + f"name = {json.dumps(rng.choice(texts))}, reward_scale = 1e-46" + " }"
        case 4:
            inner = json.dumps(rng.choice(texts))
            return f"[[{inner}, {inner}]]"
        case 5:
            return "{ log = [1.0, 1e300], points = 99999999999999 }"
        case 6 | 7:
            return json.dumps([rng.choice(texts) for _ in range(rng.randint(0, 3))])
        case _:
            return json.dumps(rng.choice(texts))


def toml(base, keys, rng, trap):
    """Return a text that is likely wrong: a line replaced, characters changed, or all made up."""
    lines = base.splitlines()
    match rng.randrange(4):
        case 0:
            return broken(base, rng)
        case 1:
            key = rng.choice(keys)
            lines = [line for line in lines if not line.startswith(f"{key} ")]
            return "\n".join([*lines, f"{key} = {value(rng, trap)}"])
        case 2:
            dotted = ".".join("a" * rng.choice([2, 30, 3_000]))
            return "\n".join([*lines, f"{rng.choice(keys)}.{dotted} = 1"])
        case _:
            chosen = rng.sample(keys, 3)
            return "\n".join(f"{key} = {value(rng, trap)}" for key in chosen)


@pytest.mark.parametrize("kind", ["study", "config"])
def test_ill_formed_toml_is_one_line(kind, trap, tmp_path):
    rng = random.Random(f"toml {kind}")
    file = tmp_path / "fuzz.toml"
    for _ in range(amount(1_000, 60)):
        if kind == "study":
            keys = [*AXES, *FIXED, "name", "preset", "plugins", "blocks", "nothing"]
            text = toml(STUDY, keys, rng, trap)
            words = ["sweep", "plan", "fuzz.toml", "--store", "no-store"]
        else:
            keys = [
                *STATIC,
                *TRACED,
                "env",
                "seeds",
                "preset",
                "lanes",
                "layout",
                "plugins",
                "nothing",
            ]
            text = toml(CONFIG, keys, rng, trap)
            words = ["train", "--config", "fuzz.toml"]
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        code, out, err = commanded(words)
        check_clean(out, err, text)
        if code == 0:
            assert kind == "study", text
            continue
        assert code in (1, 2), text
        assert err.startswith("mirrorax: error: "), text
        # Several mistakes of one file are a line each, and so many at most.
        assert err.count("\n") <= 52, text
        assert kind == "study" or err.count("\n") == 1, text


def flags_of(command):
    """Return the flags of a command, of all its actions."""
    parser = parser_of(command)
    found = {"": parser}
    for action in parser._actions:
        if isinstance(action.choices, dict):
            found = dict(action.choices)
    endless = ("--watch", "--open", "--help", "-h")
    return {
        name: [each for a in one._actions for each in a.option_strings if each not in endless]
        for name, one in found.items()
    }


@pytest.mark.parametrize("command", [*COMMANDS, "none"])
def test_ill_formed_command_lines_are_one_line(command, trap, tmp_path):
    rng = random.Random(f"command {command}")
    actions = {"": []} if command == "none" else flags_of(command)
    (tmp_path / "study.toml").write_text(STUDY)
    texts = [*NASTY_TEXTS, *trap.names, "study.toml", "no-store", "1", "0.5", "Catch", "kl", "."]
    for _ in range(amount(182, 8)):
        name = rng.choice(list(actions))
        words = [] if command == "none" else [command, *([name] if name else [])]
        words += rng.choice([[], ["study.toml"], [rng.choice(texts)]])
        for _ in range(rng.randint(1, 4)):
            if actions[name] and rng.random() < 0.9:
                words.append(rng.choice(actions[name]))
            if rng.random() < 0.9:
                words.append(rng.choice(texts))
        words = [word for word in words if word not in ("-h", "--version", "help")]
        if "--plugin" in words or any(word.startswith("--plugin=") for word in words):
            continue  # that is how a user loads code
        if command == "doctor":
            words.append("--no-self-test")
        code, out, err = commanded(words)
        check_clean(out, err, words)
        if code != 0:
            assert code in (1, 2), (words, code)
            if words:
                assert err.count("\n") == 1 or command == "doctor", (words, err)
                assert err.startswith("mirrorax: ") or command == "doctor", (words, err)


def test_what_was_found_by_hand(trap):
    for words in (
        ["train", "--env", "Catch", "--potential", "tsallis(0.5"],
        ["train", "--env", "Catch", "--drift", "bregman(max"],
        ["solve", "--potential", "lp(2"],
        ["solve", "--drift", "bregman(" * 400],
        ["train", "--env", "Catch", "--lanes", "9" * 400],
        ["sweep", "plan", "study.toml", "--store", "s", "--lanes", "9" * 400],
        ["train", "--env", "x" * 36_000],
        ["train", "--env", "\x1b[2J"],
        *(["train", "--env", name] for name in trap.names),
        *(["train", "--env", "Catch", "--alpha-schedule", name] for name in trap.names),
    ):
        check_refused(words)
