"""What the compiled program cannot hold is refused before anything is compiled."""

import pytest

import mirrorax
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.mdpo.config import make_settings
from mirrorax.mdpo.program import make_program


def test_a_position_in_the_replay_is_an_int32():
    most = 2**31 - 1
    kept = make_settings(environment="Catch", steps=16 * (most - 15))
    assert kept.updates * kept.rollout_length <= most
    with pytest.raises(UserError, match=r"steps: .* in each environment; at most 2147483647"):
        make_settings(environment="Catch", steps=2**36)


def test_a_row_is_remembered_as_a_byte():
    assert suite.environment("DeepSea(255)").size == (255,)
    with pytest.raises(UserError, match="between 2 and 255"):
        suite.environment("DeepSea(256)")


def test_a_network_that_does_not_fit_is_found_with_the_program():
    with pytest.raises(UserError, match="network"):
        make_program(make_settings(environment="Catch", network="conv"))


@pytest.mark.parametrize("points", ["x", 2.5, True, -1])
def test_curve_points_are_a_whole_number(points):
    with pytest.raises(UserError, match="curve_points: "):
        mirrorax.train("Catch", steps=4096, curve_points=points)
