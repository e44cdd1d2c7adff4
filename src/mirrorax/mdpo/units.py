"""The unit in which temperatures are given.

A mirror step does not change if rewards, alpha and lambda are all multiplied by c. So a pair of
temperatures means something only beside the size of the rewards. `temperature_units` says beside
what it is given:

`reward`        alpha and lambda as they are.
`return_range`  times the distance between the returns that count as 0 and 1 in this environment,
                with its rewards as they are scaled.
`q_spread`      times the running mean of how far the Q-values of one state lie apart,
                u = E_s[max_a Q(s, a) - min_a Q(s, a)]. On-policy there is no Q of all actions:
                u is the running mean, over the rollouts before, of the root mean square advantage.

Normalised advantages have the unit 1 already: then no unit multiplies the temperatures of the
actor's objective, only alpha in regularised rewards.

Under `q_spread` the critics, too, are without units: they regress rewards divided by their running
root mean square S. Otherwise the size of the rewards would still show in what a network with fixed
initialisation and step sizes makes of them. So nothing in the learner sees the size of rewards:
a run with all rewards multiplied by a power of two is the same run, bit for bit.

- S averages over all batches so far, so that it settles. It is 1 until a reward differs from 0.
- u is in units of S: an exponential average, corrected for its start, never below `FLOOR`. Without
  a floor the noise of untrained critics would count as much as their knowledge later.

In rewards the temperatures in effect are alpha u S and lambda u S. Curves record those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from mirrorax.errors import UserError

#: the weight of the past in the average of spreads
DECAY = 0.99
#: The smallest unit of `q_spread`, in units of the root mean square reward.
FLOOR = 0.1


@dataclass(frozen=True)
class ReturnRangeUnit:
    """Temperatures times the range of returns."""

    #: of unscaled rewards
    width: float

    def init(self) -> Any:
        """Keep nothing."""
        return ()

    def observe_rewards(self, state: Any, reward: Float[Array, " batch"]) -> Any:
        """Learn nothing."""
        return state

    def observe_spread(self, state: Any, spread: Float[Array, ""]) -> Any:
        """Learn nothing."""
        return state

    def size(self, state: Any, reward_scale: Float[Array, ""]) -> Float[Array, ""]:
        """Return the range of the returns of scaled rewards."""
        return jnp.float32(self.width) * reward_scale

    def divisor(self, state: Any) -> Float[Array, ""]:
        """Return 1."""
        return jnp.float32(1)


class SpreadState(NamedTuple):
    """What `q_spread` has seen: its own averages, kept with the learner and in checkpoints."""

    #: the mean square of rewards, and over how many batches
    square: Float[Array, ""]
    batches: Float[Array, ""]
    #: the decayed sum of spreads, and of their weights
    spread: Float[Array, ""]
    weight: Float[Array, ""]


@dataclass(frozen=True)
class SpreadUnit:
    """Temperatures times the running spread of the Q-values of a state."""

    def init(self) -> SpreadState:
        """Start without an observation."""
        return SpreadState(*(jnp.float32(0) for _ in SpreadState._fields))

    def observe_rewards(self, state: SpreadState, reward: Float[Array, " batch"]) -> SpreadState:
        """Average the rewards' squares over all batches."""
        batches = state.batches + 1
        square = state.square + (jnp.mean(jnp.square(reward)) - state.square) / batches
        return state._replace(square=square, batches=batches)

    def observe_spread(self, state: SpreadState, spread: Float[Array, ""]) -> SpreadState:
        """Average the spreads, the last ones most."""
        return state._replace(
            spread=DECAY * state.spread + (1 - DECAY) * spread,
            weight=DECAY * state.weight + (1 - DECAY),
        )

    def size(self, state: SpreadState, reward_scale: Float[Array, ""]) -> Float[Array, ""]:
        """Return u: the average of the spreads so far, at least the floor."""
        return jnp.maximum(state.spread / jnp.maximum(state.weight, 1 - DECAY), FLOOR)

    def divisor(self, state: SpreadState) -> Float[Array, ""]:
        """Return S: the root mean square of the rewards so far."""
        return jnp.where(state.square > 0, jnp.sqrt(state.square), 1.0)


def spread_of_q(q: Float[Array, "actions batch"]) -> Float[Array, ""]:
    """Return E_s[max_a Q(s, a) - min_a Q(s, a)], the spread of an off-policy batch."""
    return jnp.mean(jnp.max(q, axis=0) - jnp.min(q, axis=0))


def spread_of_advantages(advantage: Float[Array, " batch"]) -> Float[Array, ""]:
    """Return the root mean square of advantages, the spread of a rollout."""
    return jnp.sqrt(jnp.mean(jnp.square(advantage)))


#: A unit: pure functions for one run, which may keep a state in the learner.
Unit = ReturnRangeUnit | SpreadUnit


def make_unit(
    name: Literal["return_range", "q_spread"], bounds: tuple[float, float] | None
) -> Unit:
    """Return a unit by its name; `bounds` are the returns that count as 0 and 1, where known."""
    if name == "q_spread":
        return SpreadUnit()
    if bounds is None:
        raise UserError(
            "temperature_units: 'return_range' needs an environment whose bounds of returns are "
            "known; 'q_spread' does not"
        )
    low, high = bounds
    return ReturnRangeUnit(float(high) - float(low))
