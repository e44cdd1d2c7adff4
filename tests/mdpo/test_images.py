"""Training on images: a convolution is chosen, learns, and is a setting like any other."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from specification import run_id, specification

import mirrorax
from mirrorax.envs.adapter import Environment, Step, integer
from mirrorax.errors import UserError
from mirrorax.mdpo.program import make_program
from mirrorax.runs.settings import RunValues, make_settings


@dataclass(frozen=True)
class Spot(Environment):
    """A spot on a board of 5 x 5; the action must name the channel that it is in. One step."""

    name = "Spot"
    num_actions, return_bounds, max_steps = 2, None, 1
    reset_words, step_words = 2, 0

    def reset(self, noise):
        return jnp.stack([integer(noise[0], 25), integer(noise[1], 2)])

    def step(self, state, action, noise):
        over = jnp.bool_(True)
        return Step(state, (action == state[1]).astype(jnp.float32), over, ~over)

    def remember(self, state):
        return state.astype(jnp.uint8)

    def observe(self, memory):
        place, channel = memory.astype(jnp.int32)
        board = (jnp.arange(25) == place)[:, None] & (jnp.arange(2) == channel)[None]
        return board.astype(jnp.float32).reshape(5, 5, 2)


def test_what_is_in_a_picture_is_learned_through_a_convolution():
    result = mirrorax.train(
        Spot(), steps=12_800, seeds=2, lanes=2, alpha=0.001, hidden=(16,), batch_size=128
    )
    program = make_program(result.settings, Spot())
    assert program.actor.shapes[0] == (16, 9 * 2)  # filters of 3 x 3 windows of two channels
    assert result.policies.shape == (2, program.actor.num_parameters)
    np.testing.assert_array_equal(result.greedy_returns, 1.0)
    assert result.bounds_source == "estimated"
    low, high = result.return_bounds
    # A random policy is right half of the time: 100 episodes, four standard errors.
    assert abs(low - 0.5) < 4 * 0.05
    assert high == 1.0
    assert result.to_dict()["bounds_source"] == "estimated"


def test_the_network_is_part_of_a_run_where_it_is_chosen():
    chosen = {
        kind: make_settings(environment="Breakout-MinAtar", network=kind)
        for kind in ("mlp", "conv")
    }
    chosen["auto"] = make_settings(environment="Breakout-MinAtar")
    ids = {kind: run_id(specification(s, RunValues())) for kind, s in chosen.items()}
    assert len(set(ids.values())) == 3
    shapes = {kind: make_program(settings).actor.shapes for kind, settings in chosen.items()}
    assert shapes["mlp"][0] == (64, 400)
    assert shapes["auto"] == shapes["conv"] != shapes["mlp"]
    before = {k: v for k, v in specification(chosen["auto"], RunValues()).items() if k != "network"}
    assert run_id(before) == ids["auto"]


def test_a_convolution_of_what_is_no_picture_is_one_line():
    with pytest.raises(UserError, match=r"network: 'conv' needs .* here they are 4"):
        mirrorax.train("CartPole", steps=256, seeds=1, network="conv")
