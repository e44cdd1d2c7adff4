"""Temperatures over time."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.mdpo import schedules
from mirrorax.mdpo.program import make_program, make_values
from mirrorax.mdpo.schedules import Clock, Learned, LearnedDrift
from mirrorax.registry import register_schedule
from mirrorax.regularizers import drift, potential
from mirrorax.regularizers.drifts import reference_drift
from mirrorax.runs.settings import check_values


def values(**columns):
    return jax.tree.map(lambda x: x[0], make_values({k: [v] for k, v in columns.items()}, 1))


def clock(k, total=100):
    return Clock(jnp.int32(k), jnp.int32(total))


def test_constant_and_linear():
    v = values(alpha=0.4, lam=8.0)
    for schedule, start in (("alpha", 0.4), ("lam", 8.0)):
        constant, linear = schedules.Given(schedule, False), schedules.Given(schedule, True)
        for k in (0, 25, 99):
            assert float(constant.temperature((), v, clock(k))) == pytest.approx(start)
            expected = start * (1 - k / 100)
            assert float(linear.temperature((), v, clock(k))) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("annealed", [False, True])
def test_the_learned_temperature_descends_equation_8(annealed):
    low, high = potential("entropy").range(3)
    schedule = Learned(low, high, annealed, eps=1e-5)
    v = values(w=0.5, actor_lr=0.01)
    state = schedule.init(v)
    assert float(schedule.temperature(state, v, clock(0))) == 1.0
    for mean_h, k in ((-1.0, 0), (-0.1, 0), (-0.4, 60)):
        target = high - 0.5 * (1 - k / 100 * annealed) * (high - low)
        after = schedule.learn(state, v, clock(k), jnp.float32(mean_h))
        slope = jax.grad(lambda x, h, bar: -jnp.exp(x) * h + jnp.exp(x) * bar)(0.0, mean_h, target)
        # Adam's first step has the size of the learning rate, against the slope.
        if k == 0:
            expected = -0.01 * np.sign(float(slope))
            assert float(after.log_alpha) == pytest.approx(expected, rel=1e-2)
        assert float(after.adam.mu) == pytest.approx(0.1 * float(slope), rel=1e-4)


def test_a_learned_temperature_stays_within_its_bounds():
    v = values(w=1.0, actor_lr=1.0)
    low, high = potential("max").range(4)
    schedule = Learned(low, high, annealed=False, eps=1e-5)
    state = schedule.init(v)
    learn = jax.jit(schedule.learn)
    for k in range(60):
        state = learn(state, v, clock(k), jnp.float32(high))
    assert float(state.log_alpha) == schedules.LOG_ALPHA_BOUNDS[1]
    v = values(w=0.0, actor_lr=30.0)
    state = schedule.learn(schedule.init(v), v, clock(0), jnp.float32(low))
    assert float(state.log_alpha) == schedules.LOG_ALPHA_BOUNDS[0]


def test_the_two_references_of_a_target(small):
    tsallis = potential("tsallis(0.5)")
    alpha = schedules.make_alpha(
        small(alpha_schedule="learned"), tsallis.range(4), tsallis.bound(4)
    )
    assert (alpha.low, alpha.high) == pytest.approx((-2 * (2 - 1), 0.0))
    settings = small(alpha_schedule="learned_linear", target_reference="bound")
    alpha = schedules.make_alpha(settings, tsallis.range(4), tsallis.bound(4))
    assert (alpha.low, alpha.high) == pytest.approx((-4 / 2, 0.0))
    assert schedules.target_range((0.25, 1.0), 1.0, "bound") == (0.0, 1.0)
    entropy = potential("entropy")
    assert schedules.target_range(entropy.range(3), entropy.bound(3), "bound") == pytest.approx(
        (-math.log(3), 0.0)
    )


@pytest.mark.parametrize("annealed", [False, True])
def test_the_learned_lambda_ascends_its_dual(annealed):
    schedule = LearnedDrift(reference_drift(drift("kl"), 3), annealed, eps=1e-5)
    v = values(v=0.2, actor_lr=0.01)
    state = schedule.init(v)
    assert float(schedule.temperature(state, v, clock(0))) == 1.0
    for mean_drift in (0.5, 0.01):
        for k in (0, 60):
            target = 0.2 * (1 - k / 100 * annealed) * schedule.reference
            after = schedule.learn(state, v, clock(k), jnp.float32(mean_drift))
            # Adam's first step has the size of the learning rate: up if the drift is too large.
            expected = 0.01 * np.sign(mean_drift - target)
            assert float(after.log_lam) == pytest.approx(expected, rel=1e-2)
            slope = jax.grad(lambda x, d, t: jnp.exp(x) * (t - d))(0.0, mean_drift, target)
            assert float(after.adam.mu) == pytest.approx(
                0.1 * float(slope) / schedule.reference, rel=1e-4
            )


def test_a_learned_lambda_meets_its_target():
    """Where the drift falls with the square of lambda, as that of a small step does."""
    schedule = LearnedDrift(0.5, False, eps=1e-5)
    v = values(v=0.1, actor_lr=0.02)
    state = schedule.init(v)

    @jax.jit
    def step(state, k):
        lam = schedule.temperature(state, v, clock(k, 2000))
        return schedule.learn(state, v, clock(k, 2000), 3.0 / lam**2), lam

    for k in range(1500):
        state, lam = step(state, k)
    assert 3.0 / float(lam) ** 2 == pytest.approx(0.1 * 0.5, rel=0.05)


def test_a_learned_lambda_stays_within_its_bounds():
    v = values(v=0.0, actor_lr=30.0)
    schedule = LearnedDrift(1.0, False, eps=1e-5)
    state = schedule.learn(schedule.init(v), v, clock(0), jnp.float32(1.0))
    assert float(state.log_lam) == schedules.LOG_LAM_BOUNDS[1]


def test_weights_stand_in_place_of_learned_temperatures(small):
    both = small(alpha_schedule="learned", lam_schedule="learned_linear")
    run = check_values(both, {"w": 0.5, "v": 0.1})
    assert (run.alpha, run.lam, run.w, run.v) == (None, None, 0.5, 0.1)
    with pytest.raises(UserError, match="v: required by lam_schedule = 'learned_linear'"):
        check_values(both, {"w": 0.5})
    with pytest.raises(UserError, match=r"lam: 1.0 given, .* give v in \[0, 1\]"):
        check_values(both, {"w": 0.5, "v": 0.1, "lam": 1.0})
    with pytest.raises(UserError, match=r"v: 0\.1 given, but lam_schedule = 'constant'"):
        check_values(small(), {"v": 0.1})
    with pytest.raises(UserError, match="zero has 0 for half a step"):
        make_program(small(lam_schedule="learned", drift="zero"))


@dataclass(frozen=True)
class Cosine(schedules.Schedule):
    part: float = 1.0

    def init(self, values):
        return ()

    def temperature(self, state, values, clock):
        return self.part * values.alpha * 0.5 * (1 + jnp.cos(jnp.pi * clock.progress))

    def learn(self, state, values, clock, mean_h):
        return state


def test_a_schedule_of_ones_own(small):
    register_schedule("my_cosine", Cosine)
    register_schedule("my_wrong", 3)
    own = schedules.make_alpha(small(alpha_schedule="my_cosine"), (0, 1), 1)
    assert float(own.temperature((), values(alpha=2.0), clock(50))) == pytest.approx(1.0)
    slow = small(alpha_schedule="my_cosine( part = 0.5 )")
    assert slow.alpha_schedule == "my_cosine(part=0.5)"
    own = schedules.make_alpha(slow, (0, 1), 1)
    assert float(own.temperature((), values(alpha=2.0), clock(50))) == pytest.approx(0.5)
    with pytest.raises(UserError, match="not a Schedule"):
        schedules.make_lam(small(lam_schedule="my_wrong"))
    for wrong in (
        "my_cosine(half=2)",
        "my_cosine(part='a')",
        "my_cosine(part=[2])",
        "os:sep",
        "no",
    ):
        with pytest.raises(UserError, match="lam_schedule: "):
            small(lam_schedule=wrong)


@pytest.mark.parametrize(
    ("schedule", "given", "message"),
    [
        ("learned", {"alpha": 0.1}, "^alpha: "),
        ("learned", {}, "^w: "),
        ("learned", {"w": 1.5}, "^w: "),
        ("constant", {"w": 0.5}, "^w: "),
        ("constant", {"alpha": None}, "^alpha: "),
        ("linear", {"alpha": -0.1}, "^alpha: "),
        ("constant", {"lam": float("nan")}, "^lam: "),
        ("constant", {"gamma": 1.0}, "^gamma: "),
    ],
)
def test_values_that_do_not_fit_the_schedule_are_refused(small, schedule, given, message):
    with pytest.raises(UserError, match=message):
        check_values(small(alpha_schedule=schedule), given)
