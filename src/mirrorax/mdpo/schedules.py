"""Temperatures over the course of training: alpha_k and lambda_k, chosen independently.

A schedule is three small functions. It keeps a state (possibly empty), says the temperature of
update k, and may learn from the mean of h over the update's batch under the policy pi_k (from the
mean drift of the update, if its `observes` is "drift"). A new
built-in is such a class and an entry of `SCHEDULES`. One of your own is registered under a name:

    @dataclass(frozen=True)
    class Cosine(Schedule):
        def init(self, values):
            return ()

        def temperature(self, state, values, clock):
            return values.alpha * 0.5 * (1 + jnp.cos(jnp.pi * clock.progress))

        def learn(self, state, values, clock, mean_h):
            return state

    mirrorax.register_schedule("cosine", Cosine())

Importing this module does not import jax: `mirrorax.runs.settings` reads the names in it.
"""

from __future__ import annotations

import abc
from collections import namedtuple
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, final

from jaxtyping import Float, Int

from mirrorax import registry
from mirrorax.errors import UserError
from mirrorax.mdpo.networks import descend
from mirrorax.registry import BuiltIn

if TYPE_CHECKING:
    import jax.numpy as jnp
    import optax
    from jaxtyping import Array

    from mirrorax.runs.settings import Settings
else:
    jnp, optax, Array = registry.LazyModule("jax.numpy"), registry.LazyModule("optax"), Any

#: exp of these bounds is the smallest and the largest learned alpha. With w = 1 only the uniform
#: policy meets the target, and alpha would grow without end; with w = 0 it would vanish.
LOG_ALPHA_BOUNDS = (-20.0, 5.0)
#: The same of a learned lambda. The grids that are usual for lambda reach further up.
LOG_LAM_BOUNDS = (-20.0, 12.0)


class Values(NamedTuple):
    """The traced values of a run, as arrays (see `mirrorax.runs.settings.RunValues`)."""

    alpha: Float[Array, "*lanes"]
    lam: Float[Array, "*lanes"]
    w: Float[Array, "*lanes"]
    actor_lr: Float[Array, "*lanes"]
    critic_lr: Float[Array, "*lanes"]
    gamma: Float[Array, "*lanes"]
    reward_scale: Float[Array, "*lanes"]
    v: Float[Array, "*lanes"]


class Clock(NamedTuple):
    """Where training stands: update k, counted from 0, of `total`."""

    k: Int[Array, ""]
    total: Int[Array, ""]

    @property
    def progress(self) -> Float[Array, ""]:
        """k / K in [0, 1)."""
        return self.k.astype(jnp.float32) / self.total.astype(jnp.float32)


class Schedule(abc.ABC):
    """The contract of a schedule; all three are pure functions for one run."""

    #: what `learn` is given: the mean of `h` (pi_k), or of the `drift` D(pi_{k+1}, pi_k)
    observes: ClassVar[Literal["h", "drift"]] = "h"

    @abc.abstractmethod
    def init(self, values: Values) -> Any:
        """Return the state before the first update: a pytree of arrays, or ()."""

    @abc.abstractmethod
    def temperature(self, state: Any, values: Values, clock: Clock) -> Float[Array, ""]:
        """Return the temperature used in update k."""

    @abc.abstractmethod
    def learn(self, state: Any, values: Values, clock: Clock, mean_h: Float[Array, ""]) -> Any:
        """Return the state for update k + 1, given the mean of h(pi_k) over the batch."""


@final
@dataclass(frozen=True)
class Given(Schedule):
    """The run's own temperature throughout, or, annealed, in a straight line to zero.

    Annealed it is value (1 - k / K). The schedule keeps nothing and learns nothing.
    """

    field: Literal["alpha", "lam"]
    annealed: bool

    def init(self, values: Values) -> Any:
        """Keep nothing."""
        return ()

    def temperature(self, state: Any, values: Values, clock: Clock) -> Float[Array, ""]:
        """Return the run's value, times what is left of training where it is annealed."""
        value: Array = getattr(values, self.field)
        return value * (1 - clock.progress) if self.annealed else value

    def learn(self, state: Any, values: Values, clock: Clock, mean_h: Float[Array, ""]) -> Any:
        """Learn nothing."""
        return state


#: The logarithm of a learned temperature, which starts at 0, and Adam's state for it.
LearnedAlpha = namedtuple("LearnedAlpha", ("log_alpha", "adam"))
LearnedLam = namedtuple("LearnedLam", ("log_lam", "adam"))


class LearnedTemperature(Schedule):
    """A temperature that descends an objective J: its logarithm takes one step of Adam per update.

    The step has the actor's learning rate. The target in J has a weight: the run's, or what is left
    of it, weight (1 - k / K), where the target is annealed.
    """

    state: ClassVar[type[LearnedAlpha | LearnedLam]]
    #: the field of `Values` with the weight of the target
    weight: ClassVar[Literal["w", "v"]]
    #: of the logarithm
    bounds: ClassVar[tuple[float, float]]
    annealed: bool
    eps: float

    @abc.abstractmethod
    def slope(self, weight: Float[Array, ""], observed: Float[Array, ""]) -> Float[Array, ""]:
        """Return the derivative of J by the temperature."""

    @final
    def init(self, values: Values) -> Any:
        """Start at a temperature of 1."""
        zero = jnp.zeros_like(getattr(values, self.weight))
        return self.state(zero, optax.scale_by_adam().init(zero))

    @final
    def temperature(self, state: Any, values: Values, clock: Clock) -> Float[Array, ""]:
        """Return exp of the logarithm."""
        return jnp.exp(state[0])

    @final
    def learn(self, state: Any, values: Values, clock: Clock, mean_h: Float[Array, ""]) -> Any:
        """Take one step; `mean_h` is the mean of what the schedule observes."""
        weight = getattr(values, self.weight)
        if self.annealed:
            weight = weight * (1 - clock.progress)
        # d J / d log t = t d J / d t
        slope = jnp.exp(state[0]) * self.slope(weight, mean_h)
        adam = optax.scale_by_adam(eps=self.eps)
        logarithm, after = descend(adam, state[0], slope, state.adam, values.actor_lr)
        return self.state(jnp.clip(logarithm, *self.bounds), after)


@final
@dataclass(frozen=True)
class Learned(LearnedTemperature):
    """Alpha learned towards a target of h: equation (8) of the paper.

    minimise over alpha:  J(alpha) = E_s[-alpha h(pi_k(s)) + alpha h_bar]
    with  h_bar = high - w_k (high - low)
    """

    state, weight, bounds = LearnedAlpha, "w", LOG_ALPHA_BOUNDS
    low: float
    high: float
    annealed: bool
    eps: float

    def slope(self, weight: Float[Array, ""], observed: Float[Array, ""]) -> Float[Array, ""]:
        """Return h_bar - E h."""
        return self.high - weight * (self.high - self.low) - observed


@final
@dataclass(frozen=True)
class LearnedDrift(LearnedTemperature):
    """Lambda learned towards a target of the drift: dual ascent.

    minimise over lambda:  J(lambda) = lambda (v_k - E_s[D(pi_{k+1}(s), pi_k(s))] / D_ref)

    -J is the dual of the constraint  E_s[D(pi_{k+1}(s), pi_k(s))] <= v_k D_ref, in units of D_ref,
    the `reference_drift` of the drift. A drift above its target raises lambda.
    """

    observes: ClassVar[Literal["h", "drift"]] = "drift"
    state, weight, bounds = LearnedLam, "v", LOG_LAM_BOUNDS
    reference: float
    annealed: bool
    eps: float

    def slope(self, weight: Float[Array, ""], observed: Float[Array, ""]) -> Float[Array, ""]:
        """Return v - E D / D_ref."""
        return weight - observed / self.reference


def target_range(
    value_range: tuple[float, float], bound: float, reference: Literal["range", "bound"]
) -> tuple[float, float]:
    """Return (low, high), between which a learned temperature's target lies.

    `range`: the smallest and largest h on the simplex. `bound`: the appendix's bound on |h|, on the
    side or sides of zero where h has values.
    """
    low, high = value_range
    if reference == "range":
        return low, high
    return (-bound if low < 0 else 0.0), (bound if high > 0 else 0.0)


class ScheduleSpec(NamedTuple):
    """What a built-in schedule is built for."""

    #: the temperature that it schedules
    field: Literal["alpha", "lam"]
    #: the ends of the targets of h: those of weight w = 1 and w = 0
    low: float = 0.0
    high: float = 0.0
    #: Adam's eps
    eps: float = 1e-5
    #: the drift that weight v = 1 stands for
    reference: float = 1.0


def _learned(spec: ScheduleSpec, annealed: bool) -> Schedule:
    if spec.field == "alpha":
        return Learned(spec.low, spec.high, annealed, spec.eps)
    return LearnedDrift(spec.reference, annealed, spec.eps)


SCHEDULES = {
    "constant": BuiltIn(lambda spec: Given(spec.field, False), "stays as it is"),
    "linear": BuiltIn(lambda spec: Given(spec.field, True), "falls linearly to 0"),
    "learned": BuiltIn(
        lambda spec: _learned(spec, False),
        "found during training: alpha by a target of h (w), lam by one of the drift (v)",
        learned=True,
    ),
    "learned_linear": BuiltIn(
        lambda spec: _learned(spec, True),
        "as learned, while the target's weight, w or v, falls linearly to 0",
        learned=True,
    ),
}


def _make(field: str, name: str, spec: ScheduleSpec) -> Schedule:
    if name in SCHEDULES:
        schedule: Schedule = SCHEDULES[name].make(spec)
        return schedule
    schedule = registry.select("schedule", name, field)
    if not isinstance(schedule, Schedule):
        raise UserError(f"{field}: {name!r} is a {type(schedule).__name__}, not a Schedule")
    return schedule


def make_alpha(settings: Settings, value_range: tuple[float, float], bound: float) -> Schedule:
    """Return the settings' schedule of alpha, for an h with this range and bound."""
    low, high = target_range(value_range, bound, settings.target_reference)
    spec = ScheduleSpec("alpha", low, high, settings.adam_eps)
    return _make("alpha_schedule", settings.alpha_schedule, spec)


def make_lam(settings: Settings, reference: float = 1.0) -> Schedule:
    """Return the settings' schedule of lambda, for a drift with this reference."""
    spec = ScheduleSpec("lam", eps=settings.adam_eps, reference=reference)
    return _make("lam_schedule", settings.lam_schedule, spec)
