"""An environment of one's own: a corridor with a reward at its right end.

mirrorax train --plugin my_environment --env "Corridor(length=9)" --steps 50000
"""

from dataclasses import dataclass

import jax.numpy as jnp

import mirrorax
from mirrorax.envs.adapter import Environment, Step

__version__ = "1.0"  # part of the identity of every run in this environment


@dataclass(frozen=True)
class Corridor(Environment):
    """Go left (action 0) or right (action 1); the right end pays 1 and ends the task."""

    length: int = 6
    name = "Corridor"
    num_actions, return_bounds, max_steps = 2, (0.0, 1.0), 30

    def reset(self, noise):
        return {"place": jnp.int32(0), "time": jnp.int32(0)}

    def step(self, state, action, noise):
        place = jnp.maximum(state["place"] + 2 * action - 1, 0)
        time = state["time"] + 1
        reached = place == self.length - 1
        after = {"place": place, "time": time}
        return Step(after, reached.astype(jnp.float32), reached, time >= self.max_steps)

    def remember(self, state):
        return state["place"][None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(self.length) == memory[0]).astype(jnp.float32)


mirrorax.register_environment("Corridor", Corridor)
