"""Tsallis 0.5 with its sign turned: would such a slip explain rows I and K of Table 1?

The paper's h is -H_m with H_m(p) = sum(p - p^m) / (m - 1), which is convex. The sign can be wrong
in both places where h is used, in the critics' target alone (its value) or in the actor's loss
alone (its derivative). None is a reading of the paper; docs/reproduction.md compares them.

`mirrorax.register_potential` takes convex functions only, and these are not convex on purpose. So
they are potentials of their own, with the range of H_0.5 written down.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax

from mirrorax.regularizers import names
from mirrorax.regularizers.functions import FunctionPotential
from mirrorax.regularizers.potentials import Potential

M = 0.5


def entropy(p):
    return (p - p**M).sum() / (M - 1)


@dataclass(frozen=True)
class Turned(Potential):
    """A function of a probability vector that has the values of H_0.5 up to its sign."""

    name: str
    function: Any
    powers = None

    def range(self, num_actions: int) -> tuple[float, float]:
        largest = 2 * (math.sqrt(num_actions) - 1)
        return (-largest, 0.0) if self.name == "flipped_in_actor" else (0.0, largest)

    def bound(self, num_actions: int) -> float:
        return max(map(abs, self.range(num_actions)))

    def __str__(self) -> str:
        return self.name

    @property
    def _plain(self) -> FunctionPotential:
        return FunctionPotential(self.name, self.function)

    def _value(self, p):
        return self._plain._value(p)

    def _grad(self, p):
        return self._plain._grad(p)

    def _value_from_log(self, logp):
        return self._plain._value_from_log(logp)

    def _bregman(self, p, q, logp, logq):
        return self._plain._bregman(p, q, logp, logq)


def flipped_tsallis(p):
    return entropy(p)


def flipped_in_critic(p):
    return 2 * jax.lax.stop_gradient(entropy(p)) - entropy(p)


def flipped_in_actor(p):
    return entropy(p) - 2 * jax.lax.stop_gradient(entropy(p))


for each in (flipped_tsallis, flipped_in_critic, flipped_in_actor):
    names.register("potential", each.__name__, Turned(each.__name__, each), each)
