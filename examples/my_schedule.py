"""A schedule of one's own: alpha falls to zero along half a cosine.

mirrorax train --plugin my_schedule --env Catch --alpha-schedule cosine --alpha 0.1
"""

from dataclasses import dataclass

import jax.numpy as jnp

import mirrorax
from mirrorax.mdpo.schedules import Schedule

__version__ = "1.0"  # part of the identity of every run with this schedule


@dataclass(frozen=True)
class Cosine(Schedule):
    """alpha_k = alpha (1 + cos(pi k / K)) / 2."""

    def init(self, values):
        return ()  # it keeps nothing; a schedule that learns keeps arrays here

    def temperature(self, state, values, clock):
        return values.alpha * 0.5 * (1 + jnp.cos(jnp.pi * clock.progress))

    def learn(self, state, values, clock, mean_h):
        return state


mirrorax.register_schedule("cosine", Cosine())
