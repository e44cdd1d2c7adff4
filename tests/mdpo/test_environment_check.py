"""`check_environment`: what only playing an environment shows."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import pytest

import mirrorax
from mirrorax.envs.adapter import Environment, Step, integer, uniform
from mirrorax.errors import UserError


@dataclass(frozen=True)
class Walk(Environment):
    """Three steps along a line of five places from a random one; each pays 1. `fault` spoils it."""

    fault: str = ""
    name = "Walk"
    num_actions, max_steps = 2, 3
    reset_words = step_words = 1

    @property
    def return_bounds(self):
        return {"bounds": (0.0, 2.0), "unknown": None}.get(self.fault, (0.0, 3.0))

    @property
    def memory_bounds(self):
        return (5, 3) if self.fault == "memory" else (5, 4)

    def reset(self, noise):
        return {"place": integer(noise[0], 5), "time": jnp.int32(0)}

    def step(self, state, action, noise):
        place = jnp.clip(state["place"] + 2 * action - 1, 0, 4)
        time = state["time"] + 1
        rare = uniform(noise[0]) < 0.05
        broken = jnp.float32(jnp.nan if self.fault == "reward" else 1.0)
        reward = jnp.where(rare, broken, 1.0)
        over = jnp.bool_(False) if self.fault == "endless" else time >= 3
        return Step({"place": place, "time": time}, reward, jnp.bool_(False), over)

    def remember(self, state):
        place = {"negative": state["place"] - 1, "half": state["place"] / 2}.get(self.fault)
        place = state["place"] if place is None else place
        kind = "float32" if self.fault in ("negative", "half") else "uint8"
        return jnp.stack([place, state["time"]]).astype(kind)

    def observe(self, memory):
        seen = memory.astype(jnp.float32)
        return 1.0 / (seen - 4) if self.fault == "observation" else seen


def test_nothing_is_wrong_and_what_was_seen_is_told():
    found = mirrorax.check_environment(Walk())
    assert found
    assert (found.mean_return, found.mean_length) == (3.0, 3.0)
    assert str(found) == (
        "Walk: nothing is wrong in 100 episodes of random actions, of 3 steps and a return of 3 on "
        "average"
    )
    assert mirrorax.check_environment(Walk("unknown"))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("reward", "step returns a reward that is not finite in "),
        ("observation", "observe returns what is not finite in "),
        ("endless", "neither terminated nor truncated within max_steps = 3 in 100 of 100 episodes"),
        ("bounds", "a mean return of 3, which return_bounds = (0, 2) make a score of 1.5"),
        (
            "memory",
            "entry 1 of a memory is not always a whole number from 0 and below memory_bounds",
        ),
        (
            "negative",
            "entry 0 of a memory is not always a whole number from 0 and below memory_bounds",
        ),
        ("half", "entry 0 of a memory is not always a whole number from 0 and below memory_bounds"),
    ],
)
def test_each_fault_is_found_and_is_the_only_one(fault, said):
    found = mirrorax.check_environment(Walk(fault))
    assert not found
    (problem,) = found.problems
    assert said in problem


@pytest.mark.parametrize("name", ["CartPole", "Catch", "DeepSea", "Acrobot"])
def test_nothing_is_wrong_with_those_of_the_paper(name):
    assert mirrorax.check_environment(name, episodes=20)


def test_what_cannot_be_played_is_one_line():
    for wrong, said in (
        ("gymnasium:CartPole-v1", "gymnasium.utils.env_checker.check_env"),
        (3, "neither a name nor an Environment"),
        ("Cach", "did you mean 'Catch'"),
    ):
        with pytest.raises(UserError, match=said):
            mirrorax.check_environment(wrong)
    with pytest.raises(UserError, match="episodes: 0 is not allowed"):
        mirrorax.check_environment("Catch", episodes=0)


@pytest.mark.parametrize("seed", [-1, 2**32, "a", 1.0, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(UserError, match=r"^seed: .* is not (allowed: 0 to|a whole)"):
        mirrorax.check_environment(Walk(), seed=seed)
