"""What the compiled program cannot hold is refused before anything is compiled."""

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import mirrorax
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.mdpo.program import make_program, make_values
from mirrorax.runs.settings import HIGHEST, RunValues, as_float32, make_settings
from mirrorax.training import plan_runs


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


LOWEST = float(np.finfo(np.float32).tiny)
TRACED = ("alpha", "lam", "w", "gamma", "reward_scale", "actor_lr", "critic_lr")


@given(value=st.floats(0, 3.4028234663852886e38))
@example(value=1 - 2.0**-25)
@example(value=np.nextafter(1 - 2.0**-25, 0))
@example(value=5e-46)
@example(value=1.1754943508222875e-38)
def test_a_number_is_rounded_as_numpy_and_the_compiled_program_round_it(value):
    assert as_float32(value) == float(np.float32(value))


@pytest.mark.parametrize("name", TRACED)
@given(value=st.floats(0, 1) | st.floats(0, allow_nan=False, allow_infinity=False))
@example(value=1e-50)
@example(value=1e-40)
@example(value=1e39)
@example(value=0.999999999)
@example(value=1 - 2.0**-25)
@example(value=float(np.nextafter(1 - 2.0**-25, 0)))
def test_what_is_taken_is_to_the_program_what_it_says(name, value):
    """Neither lost as 0, nor infinite, nor a discount of 1."""
    try:
        taken = getattr(RunValues(**{name: value}), name)
    except UserError:
        return
    seen = np.asarray(getattr(make_values({name: [taken]}, 1), name))[0]
    assert np.isfinite(seen)
    assert (seen == 0) == (taken == 0)
    if name == "gamma":
        assert seen < 1


@pytest.mark.parametrize("name", TRACED)
@given(unit=st.floats(LOWEST, 1 - 2.0**-24, width=32), large=st.floats(LOWEST, width=32))
@example(unit=LOWEST, large=HIGHEST)
@example(unit=1 - 2.0**-24, large=LOWEST)
def test_what_float32_holds_is_taken(name, unit, large):
    value = unit if name in ("w", "gamma") or not np.isfinite(large) else large
    assert getattr(RunValues(**{name: value}), name) == value


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.parametrize("value", [1e-50, 1e39, "gamma"])
def test_what_it_does_not_hold_is_refused_in_one_line(name, value):
    if value == "gamma":
        name, value = "gamma", 0.999999999
    with pytest.raises(UserError) as caught:
        RunValues(**{name: value})
    assert str(caught.value).startswith(f"{name}: must be ")
    assert str(caught.value).endswith(f" (got {value!r})")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", TRACED)
def test_two_values_of_a_grid_are_two_to_the_program(name):
    settings = make_settings(
        environment="Catch", alpha_schedule="learned" if name == "w" else "constant"
    )
    with pytest.raises(UserError) as caught:
        plan_runs(settings, {name: [0.2, 0.1, 0.1 + 1e-12]}, 2)
    assert str(caught.value) == (
        f"{name}: [0.2, 0.1, {0.1 + 1e-12!r}]: expected numbers that differ, in float32 as "
        "training computes"
    )
    # The nearest float32 is another number.
    after = struct.unpack("f", struct.pack("I", 1 + struct.unpack("I", struct.pack("f", 0.1))[0]))
    assert len(plan_runs(settings, {name: [0.2, 0.1, after[0]]}, 2)) == 6


@pytest.mark.parametrize("alpha", ["0.01", b"0.1", ["0.01", 0.01], [True], {}])
def test_a_grid_is_made_of_numbers(alpha):
    with pytest.raises(UserError, match=r"^alpha: .* is not a number"):
        plan_runs(make_settings(environment="Catch"), {"alpha": alpha}, 1)
