"""A user's own environment or schedule that does not fit together is refused with one line."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import mirrorax
from mirrorax.envs.adapter import Environment, Gymnax, Step, integer, make
from mirrorax.errors import UserError
from mirrorax.mdpo import train as training
from mirrorax.mdpo.contract import check_contract, check_schedule
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.schedules import Schedule
from mirrorax.mdpo.session import Session
from mirrorax.runs.chunk import make_chunk
from mirrorax.training import train


@dataclass(frozen=True)
class Walk(Environment):
    """A walk of five steps, each right or wrong by a coin."""

    name = "Walk"
    num_actions, return_bounds, max_steps = 2, (0.0, 5.0), 5
    reset_words, step_words = 1, 2

    def reset(self, noise):
        return {"side": integer(noise[0], 2), "time": jnp.int32(0)}

    def step(self, state, action, noise):
        paid = (action == state["side"]).astype(jnp.float32)
        time = state["time"] + 1
        after = {"side": integer(noise[0] ^ noise[1], 2), "time": time}
        return Step(after, paid, jnp.bool_(False), time >= self.max_steps)

    def remember(self, state):
        return jnp.stack([state["side"], state["time"]]).astype(jnp.uint8)

    def observe(self, memory):
        return jnp.concatenate([memory, memory[:1]]).astype(jnp.float32)


def broken(**parts):
    """Make a walk with some parts replaced."""
    return dataclass(frozen=True)(type("Broken", (Walk,), parts))()


def stepping(**parts):
    """Replace parts of what a step returns."""

    def step(self, state, action, noise):
        return Walk.step(self, state, action, noise)._replace(**parts)

    return {"step": step}


def test_what_fits_is_taken():
    check_contract(Walk())
    # numpy's whole numbers are whole numbers.
    check_contract(broken(num_actions=np.int64(2)))
    for name in ("CartPole", "Acrobot", "Catch(4x3)", "DeepSea(3)"):
        check_contract(make(name))
    check_contract(Gymnax("CartPole-v1", (0.0, 500.0)))


def no_state(self, state, action, noise):
    return Walk.step(self, state, action, noise)._replace(state={"time": state["time"]})


def failing(self, *_):
    raise ZeroDivisionError("by me")


ATTRIBUTES = {
    "num_actions is 1, expected a whole number, at least 2": {"num_actions": 1},
    "num_actions is True, ": {"num_actions": True},
    "max_steps is 0, ": {"max_steps": 0},
    "step_words is 'two', ": {"step_words": "two"},
    "max_steps: ZeroDivisionError: by me": {"max_steps": property(failing)},
    "memory_size is derived from its methods; remove it": {"memory_size": 2},
    "more than 64 actions": {"num_actions": 65},
    "memory_bounds are (4,), expected a tuple of 2 whole": {"memory_bounds": (4,)},
    "memory_bounds are (4, 2.5), expected a tuple of 2 whole": {"memory_bounds": (4, 2.5)},
    "return_bounds are (1.0, 1.0), expected (low, high)": {"return_bounds": (1.0, 1.0)},
    "return_bounds are (0.0, inf), ": {"return_bounds": (0.0, float("inf"))},
}
METHODS = {
    "reset (with reset_words = 0): IndexError": {"reset_words": 0},
    "step reads beyond its step_words = 1 random words: IndexError": {"step_words": 1},
    "reset (with reset_words = 1): ZeroDivisionError: by me": {"reset": failing},
    "step returns a tuple, expected a Step(": {"step": lambda self, s, a, n: (s, 0.0, True, True)},
    "step returns a state of time int32[], expected side int32[], time int32[] as reset's": {
        "step": no_state
    },
    "step returns a state of side float32[], time int32[], expected side int32[]": stepping(
        state={"side": jnp.float32(0), "time": jnp.int32(0)}
    ),
    "step returns a reward of float32[1], expected float32[]": stepping(reward=jnp.zeros(1)),
    "step returns a reward of int32[], expected float32[]": stepping(reward=jnp.int32(1)),
    "step returns terminated of int32[], expected bool[]": stepping(terminated=jnp.int32(0)),
    "step returns truncated of float32[], expected bool[]": stepping(truncated=jnp.float32(0)),
    "remember returns int32[], expected a vector": {"remember": lambda self, s: s["side"]},
    "remember returns int32[1], expected a vector of float32 or uint8": {
        "remember": lambda self, state: state["side"][None]
    },
    "observe returns uint8[2], expected an array": {"observe": lambda self, memory: memory},
    "observe returns nothing, expected an array": {"observe": lambda self, memory: None},
}


@pytest.mark.parametrize(("message", "parts"), (ATTRIBUTES | METHODS).items())
def test_an_environment_that_does_not_fit_together_is_refused(small, message, parts):
    with pytest.raises(UserError) as caught:
        make_program(small(), broken(**parts))
    assert str(caught.value).startswith(f"environment: 'Walk': {message}")
    assert "\n" not in str(caught.value)


def test_what_cannot_be_hashed_or_is_not_there_is_named(small):
    # What @dataclass without frozen=True makes of it.
    loose = type("Loose", (Walk,), {"__hash__": None})()
    with pytest.raises(UserError, match=r"^environment: 'Walk' cannot be hashed; .*frozen"):
        make_program(small(), loose)

    class Nameless(Environment):
        reset = step = remember = observe = failing

    with pytest.raises(UserError, match=r"^environment: 'Nameless' has no num_actions$"):
        make_program(small(), Nameless())


def test_it_is_found_through_train_and_from_the_command_line(tmp_path, capsys):
    from mirrorax.cli import main

    with pytest.raises(UserError, match=r"^environment: 'Walk': observe returns"):
        train(broken(observe=lambda self, memory: memory), seeds=1)
    mirrorax.register_environment("BrokenWalk", lambda: broken(step_words=1))
    out = tmp_path / "out"
    assert main(["train", "--env", "BrokenWalk", "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mirrorax: error: ")
    assert "step reads beyond its step_words = 1" in captured.err
    assert captured.err.count("\n") == 1


@dataclass(frozen=True)
class Halving(Schedule):
    """Half of what is left at every update: a schedule with a state of Python's numbers."""

    def init(self, values):
        return {"factor": 1.0, "first": values.alpha, "again": values.alpha}

    def temperature(self, state, values, clock):
        return state["first"] * state["factor"]

    def learn(self, state, values, clock, mean_h):
        return {**state, "factor": state["factor"] * 0.5}


def test_a_schedule_of_ones_own_may_have_a_state(small, some_keys):
    mirrorax.register_schedule("halving", Halving)
    settings = small(alpha_schedule="halving", eval_every=1, steps=16 * 3)
    before = training.segment._cache_size()
    session = Session(make_chunk(settings, {"alpha": [0.5, 2.0]}, 3, some_keys(2)))
    session.run()
    expected = np.array([[0.5], [2.0]]) * 0.5 ** np.arange(3)
    np.testing.assert_array_equal(session.curve_arrays()["alpha"], expected)
    assert training.segment._cache_size() == before + 1


@pytest.mark.parametrize(
    ("message", "parts"),
    {
        "init: ZeroDivisionError: by me": {"init": failing},
        "temperature returns float32[2], expected float32[]": {
            "temperature": lambda *_: jnp.zeros(2)
        },
        "temperature returns int32[], expected float32[]": {"temperature": lambda *_: 1},
        "learn returns a state of nothing, expected again float32[]": {"learn": lambda *_: ()},
    }.items(),
)
def test_a_schedule_that_does_not_fit_together_is_refused(message, parts):
    own = type("Own", (Halving,), parts)()
    with pytest.raises(UserError) as caught:
        check_schedule("alpha_schedule", own)
    assert str(caught.value).startswith(f"alpha_schedule: 'Own': {message}")


def test_a_schedule_that_cannot_be_made_is_named(small):
    mirrorax.register_schedule("broken", type("Broken", (Halving,), {"__init__": failing}))
    with pytest.raises(UserError, match=r"^lam_schedule: cannot make .*ZeroDivisionError: by me"):
        make_program(small(lam_schedule="broken"))
