"""CartPole and Acrobot, written for the trainer's contract.

The same transitions as gymnax 1.0.1 up to rounding (checked step by step in the tests). What is
saved is time: sine and cosine together from one polynomial, no random numbers in a step, and in
Acrobot the trigonometry of the last observation is used again for the next step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from mirrorax.envs import suite
from mirrorax.envs.adapter import Environment, Noise, Step

# pi / 2 as a sum of two short numbers, whose products with a small whole number are exact in
# float32, and a rest.
_HALF_PI_1 = round(math.pi / 2 * 2**11) / 2**11
_HALF_PI_2 = round((math.pi / 2 - _HALF_PI_1) * 2**23) / 2**23
_HALF_PI_3 = math.pi / 2 - _HALF_PI_1 - _HALF_PI_2


def sincos(
    x: Float[Array, "*shape"],
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return (sin x, cos x) in float32, for |x| up to a few hundred.

    Vectorised, and five to ten times as fast as the two library functions: x is reduced to
    [-pi/4, pi/4] by whole multiples of pi/2, then the two Taylor polynomials are exact to rounding.
    """
    turns = jnp.round(x * (2 / math.pi))
    r = ((x - turns * _HALF_PI_1) - turns * _HALF_PI_2) - turns * _HALF_PI_3
    r2 = r * r
    odd = 1 / 120 + r2 * (-1 / 5040 + r2 * (1 / 362880))
    sine = r + r * r2 * (-1 / 6 + r2 * odd)
    even = 1 / 24 + r2 * (-1 / 720 + r2 * (1 / 40320 + r2 * (-1 / 3628800)))
    cosine = 1 + r2 * (-1 / 2 + r2 * even)
    quadrant = turns.astype(jnp.int32)
    swap = (quadrant & 1) == 1
    s, c = jnp.where(swap, cosine, sine), jnp.where(swap, sine, cosine)
    return (
        jnp.where((quadrant & 2) == 2, -s, s),
        jnp.where(((quadrant + 1) & 2) == 2, -c, c),
    )


def _four_uniform(words: UInt32[Array, "2"], size: float) -> tuple[Float[Array, ""], ...]:
    """Return four uniform numbers in [-size, size), each from one half of a word."""
    halves = [words[0] >> 16, words[0] & 0xFFFF, words[1] >> 16, words[1] & 0xFFFF]
    return tuple((half.astype(jnp.float32) + 0.5) * (size / 2**15) - size for half in halves)


class CartPoleState(NamedTuple):
    """Position and speed of the cart, angle of the pole and its speed, steps so far."""

    x: Float[Array, ""]
    x_dot: Float[Array, ""]
    theta: Float[Array, ""]
    theta_dot: Float[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True)
class CartPole(Environment):
    """Balance a pole on a cart by pushing it left or right; one point a step, at most 500."""

    name = "CartPole"
    num_actions = 2
    return_bounds = suite.environment("CartPole").bounds
    max_steps = 500
    reset_words = 2

    def reset(self, noise: Noise) -> CartPoleState:
        """Start near the upright rest position, each coordinate uniform in +-0.05."""
        x, x_dot, theta, theta_dot = _four_uniform(noise, 0.05)
        return CartPoleState(x, x_dot, theta, theta_dot, jnp.int32(0))

    def step(self, state: CartPoleState, action: Int[Array, ""], noise: Noise) -> Step:
        """Push with +-10 N for 0.02 s (explicit Euler)."""
        del noise
        x, x_dot, theta, theta_dot, time = state
        force = jnp.where(action == 1, 10.0, -10.0)
        sine, cosine = sincos(theta)
        # Masses 1.0 and 0.1, half length 0.5, gravity 9.8.
        push = (force + 0.05 * theta_dot**2 * sine) / 1.1
        theta_acc = (9.8 * sine - cosine * push) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
        x_acc = push - 0.05 * theta_acc * cosine / 1.1
        x = x + 0.02 * x_dot
        theta = theta + 0.02 * theta_dot
        after = CartPoleState(
            x, x_dot + 0.02 * x_acc, theta, theta_dot + 0.02 * theta_acc, time + 1
        )
        fallen = (jnp.abs(x) > 2.4) | (jnp.abs(theta) > 12 * 2 * math.pi / 360)
        return Step(after, jnp.ones_like(x), fallen, after.time >= self.max_steps)

    def remember(self, state: CartPoleState) -> Float[Array, "4"]:
        """Return the four coordinates."""
        return jnp.stack(state[:4])

    def observe(self, memory: Float[Array, "4"]) -> Float[Array, "4"]:
        """Return the memory, which is the observation."""
        return memory


class AcrobotState(NamedTuple):
    """Two angles, two speeds, steps so far; and the sines and cosines of the angles."""

    theta1: Float[Array, ""]
    theta2: Float[Array, ""]
    speed1: Float[Array, ""]
    speed2: Float[Array, ""]
    time: Int[Array, ""]
    sine1: Float[Array, ""]
    cosine1: Float[Array, ""]
    sine2: Float[Array, ""]
    cosine2: Float[Array, ""]


def _wrap(angle: Float[Array, ""]) -> Float[Array, ""]:
    """Bring an angle into [-pi, pi)."""
    return angle - 2 * math.pi * jnp.floor((angle + math.pi) / (2 * math.pi))


def _accelerations(
    torque: Float[Array, ""],
    speed1: Float[Array, ""],
    speed2: Float[Array, ""],
    trig: tuple[Float[Array, ""], ...],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the angular accelerations: the 'book' equations, unit masses, lengths and inertias."""
    s1, c1, s2, c2 = trig
    # Centres of mass at 0.5, g = 9.8.
    d1 = 3.5 + c2
    d2 = 1.25 + 0.5 * c2
    phi2 = 4.9 * (s1 * c2 + c1 * s2)  # cos(a - pi/2) = sin(a)
    phi1 = -0.5 * speed2 * s2 * (speed2 + 2 * speed1) + 14.7 * s1 + phi2
    ratio = d2 / d1
    acc2 = (torque + ratio * phi1 - 0.5 * speed1 * speed1 * s2 - phi2) / (1.25 - d2 * ratio)
    return -(d2 * acc2 + phi1) / d1, acc2


@dataclass(frozen=True)
class Acrobot(Environment):
    """Swing a two-link pendulum above a line with torque at the middle joint; -1 a step."""

    name = "Acrobot"
    num_actions = 3  # torque -1, 0, +1
    return_bounds = suite.environment("Acrobot").bounds
    max_steps = 500
    reset_words = 2

    def reset(self, noise: Noise) -> AcrobotState:
        """Start hanging down, each coordinate uniform in +-0.1."""
        theta1, theta2, speed1, speed2 = _four_uniform(noise, 0.1)
        (s1, c1), (s2, c2) = sincos(theta1), sincos(theta2)
        return AcrobotState(theta1, theta2, speed1, speed2, jnp.int32(0), s1, c1, s2, c2)

    def step(self, state: AcrobotState, action: Int[Array, ""], noise: Noise) -> Step:
        """Apply the torque for 0.2 s (one step of the classical Runge-Kutta method)."""
        del noise
        torque = (action - 1).astype(jnp.float32)

        t1, t2, v1, v2 = state[:4]
        # k_i = (speeds, accelerations) at the four points of the method.
        trig = (state.sine1, state.cosine1, state.sine2, state.cosine2)
        k = (v1, v2, *_accelerations(torque, v1, v2, trig))
        total = k
        for dt, weight in ((0.1, 2.0), (0.1, 2.0), (0.2, 1.0)):
            speed1, speed2 = v1 + dt * k[2], v2 + dt * k[3]
            trig = (*sincos(t1 + dt * k[0]), *sincos(t2 + dt * k[1]))
            k = (speed1, speed2, *_accelerations(torque, speed1, speed2, trig))
            total = tuple(a + weight * b for a, b in zip(total, k, strict=True))  # type: ignore[assignment]
        theta1 = _wrap(t1 + 0.2 / 6 * total[0])
        theta2 = _wrap(t2 + 0.2 / 6 * total[1])
        speed1 = jnp.clip(v1 + 0.2 / 6 * total[2], -4 * math.pi, 4 * math.pi)
        speed2 = jnp.clip(v2 + 0.2 / 6 * total[3], -9 * math.pi, 9 * math.pi)
        (s1, c1), (s2, c2) = sincos(theta1), sincos(theta2)
        time = state.time + 1
        raised = -c1 - (c1 * c2 - s1 * s2) > 1.0
        after = AcrobotState(theta1, theta2, speed1, speed2, time, s1, c1, s2, c2)
        return Step(after, jnp.where(raised, 0.0, -1.0), raised, time >= self.max_steps)

    def remember(self, state: AcrobotState) -> Float[Array, "6"]:
        """Return the observation."""
        parts = [state.cosine1, state.sine1, state.cosine2, state.sine2, state.speed1, state.speed2]
        return jnp.stack(parts)

    def observe(self, memory: Float[Array, "6"]) -> Float[Array, "6"]:
        """Return the memory, which is the observation."""
        return memory
