"""A program: everything static about training, as one hashable object.

It is made from settings, or from settings and objects of the user's own in place of names. Two runs
with equal programs share one compilation, whatever their temperatures, seeds and length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, UInt32

from mirrorax.envs import adapter, suite
from mirrorax.errors import UserError
from mirrorax.mdpo import contract, schedules
from mirrorax.mdpo.machine import Sizes, available_bytes
from mirrorax.mdpo.networks import FlatNetwork, NetworkSpec, make_network, make_optimizer
from mirrorax.mdpo.schedules import Values
from mirrorax.mdpo.units import Unit, make_unit
from mirrorax.regularizers import (
    Drift,
    DriftFunctional,
    FrozenPolicy,
    Potential,
    To,
    any_drift,
    drift,
    potential,
)
from mirrorax.regularizers.drifts import reference_drift
from mirrorax.regularizers.names import parse_potential
from mirrorax.regularizers.reference import at_observations
from mirrorax.runs.chunk import complete_columns
from mirrorax.runs.settings import ALPHA_SCHEDULES, Settings

Layout = Literal["map", "vmap"]

#: lanes trained side by side: one fixed width per kind of device, because results depend on it
LANES = {"cpu": 32, "gpu": 256, "tpu": 256}


@dataclass(frozen=True)
class Program:
    """The static part of a run: settings, and the objects their names stand for."""

    settings: Settings
    env: adapter.Task
    potential: Potential
    drift: Drift | DriftFunctional
    alpha_schedule: schedules.Schedule
    lam_schedule: schedules.Schedule
    unit: Unit | None = None  # temperatures are used as they are

    @property
    def environment(self) -> adapter.Environment:
        """The environment, where the compiled program steps it."""
        assert isinstance(self.env, adapter.Environment)
        return self.env

    @cached_property
    def actor(self) -> FlatNetwork:
        """The policy's network: observation to logits."""
        return self._network(self.env.num_actions, self.settings.actor_gain)

    @cached_property
    def critic(self) -> FlatNetwork:
        """A critic's network: observation to one value per action; on-policy, to one value."""
        outputs = 1 if self.settings.on_policy else self.env.num_actions
        return self._network(outputs, self.settings.critic_gain)

    def _network(self, outputs: int, gain: float) -> FlatNetwork:
        settings, env = self.settings, self.env
        spec = NetworkSpec(
            observation=env.observation_shape,
            outputs=outputs,
            hidden=settings.hidden,
            activation=settings.activation,
            initialization=settings.initialization,
            gain=gain,
        )
        return make_network(settings.network, spec)

    @cached_property
    def optimizer(self) -> optax.GradientTransformation:
        """What turns a gradient into a direction, for the actor and for the critics."""
        return make_optimizer(self.settings)

    @property
    def num_critics(self) -> int:
        """Two, or one."""
        return 2 if self.settings.twin_critics and not self.settings.on_policy else 1

    def potential_at(self, x: Float[Array, "obs batch"]) -> Potential:
        """Return h in the states of a batch; only one with a saved policy differs among states."""
        return at_observations(self.potential, x) if self.settings.reference else self.potential

    @property
    def first_policy(self) -> Float[np.ndarray, " p"] | None:
        """The parameters that a run starts from: a saved reference's, if its network is the same.

        None where they are drawn.
        """
        mu = getattr(self.potential, "mu", None)
        if not isinstance(mu, FrozenPolicy) or mu.network.shapes != self.actor.shapes:
            return None
        return np.frombuffer(mu.parameters, np.float32)

    @property
    def words_per_step(self) -> int:
        """Random words of one environment in one step: the action's, `step`'s and `reset`'s."""
        return 1 + self.env.step_words + self.env.reset_words

    @property
    def words_per_batches(self) -> int:
        """Random words that choose the batches of one update: one for each transition.

        On-policy these are the words that shuffle the rollout, for each epoch.
        """
        settings = self.settings
        if settings.on_policy:
            epochs = max(settings.actor_epochs, settings.critic_epochs)
            return epochs * settings.steps_per_update
        return settings.batches_per_update * settings.batch_size

    @property
    def table_rounds(self) -> int | None:
        """In how many rounds, as wide as a rollout's step, the actor is asked at every memory.

        None where a table of the answers would be no less work than asking at every step.
        """
        if self.env.memory_bounds is None:
            return None
        rounds = -(-math.prod(self.env.memory_bounds) // self.settings.num_envs)
        return rounds if rounds < self.settings.rollout_length else None

    @property
    def num_memories(self) -> int | None:
        """The number of memories, if a batch has more transitions.

        An update then asks its networks once at every memory. None elsewhere, and on a GPU, which
        adds up gradients in an order that changes: runs would not repeat bit for bit.
        """
        if self.env.memory_bounds is None or jax.default_backend() != "cpu":
            return None
        count = math.prod(self.env.memory_bounds)
        return count if count < self.settings.batch_size else None

    @property
    def with_curves(self) -> bool:
        """Whether an update reports what it saw."""
        return self.settings.eval_every > 0


def make_program(
    settings: Settings,
    env: adapter.Task | None = None,
    h: Potential | None = None,
    d: Drift | DriftFunctional | None = None,
) -> Program:
    """Build the program of some settings; objects given here stand in for the names."""
    own = env is not None or suite.environment(settings.environment).family == "own"
    env = adapter.make(settings.environment) if env is None else env
    if own:
        contract.check_contract(env)
    if h is None:
        h = _to_saved_policy(settings, env) if settings.reference else potential(settings.potential)
    if d is None:
        d = any_drift(settings.drift) if settings.on_policy else drift(settings.drift)
    actions = env.num_actions
    # The length of a run, how often and how long it is evaluated are no part of the program.
    fixed = {"steps": settings.steps_per_update, "eval_every": min(settings.eval_every, 1)}
    value_range = h.range(actions)
    if settings.learned_alpha and not math.isfinite(value_range[1]):
        raise UserError(
            f"alpha_schedule: {settings.alpha_schedule!r} needs a potential with a largest value; "
            f"{str(h)!r} has none"
        )
    alpha = schedules.make_alpha(settings, value_range, h.bound(actions))
    # Where lambda is learned, weight v = 1 stands for this drift; the settings have no other there.
    scale = reference_drift(d, actions) if settings.learned_lam and isinstance(d, Drift) else 1.0
    lam = schedules.make_lam(settings, scale)
    for name, schedule in (("alpha_schedule", alpha), ("lam_schedule", lam)):
        if getattr(settings, name) not in ALPHA_SCHEDULES:  # the user's own
            contract.check_schedule(name, schedule)
    program = Program(
        settings=settings.model_copy(update={**fixed, "eval_episodes": 1}),
        env=env,
        potential=h,
        drift=d,
        alpha_schedule=alpha,
        lam_schedule=lam,
        unit=None
        if settings.temperature_units == "reward"
        else make_unit(settings.temperature_units, env.return_bounds),
    )
    _ = program.actor, program.optimizer  # mistakes in them show here, not while training
    return program


def _to_saved_policy(settings: Settings, env: adapter.Task) -> Potential:
    """Return the potential to(policy, d) of a saved policy that sees and does the same."""
    from mirrorax.mdpo import references

    policy, origin = references.find(settings.reference)
    other = adapter.make(origin.environment)
    sizes = [(task.observation_shape, task.num_actions) for task in (other, env)]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"reference: a policy for {other.name} cannot act in {env.name}: observations and "
            f"actions are {sizes[0]} and {sizes[1]}"
        )
    _, distance = parse_potential(settings.potential).arguments
    return To(policy, drift(str(distance)))


def default_lanes() -> int:
    """Return the lane width of the device at hand."""
    return LANES.get(jax.default_backend(), LANES["cpu"])


def default_layout() -> Layout:
    """Return the faster layout: lane by lane on a CPU (caches), all at once elsewhere."""
    return "map" if jax.default_backend() == "cpu" else "vmap"


def make_values(columns: Mapping[str, Sequence[Any] | np.ndarray], count: int) -> Values:
    """Turn columns of traced values into arrays; a missing column has its default."""
    full = complete_columns(columns, count)
    # A temperature that another one replaces (NaN) is never read: any number will do.
    arrays = (np.nan_to_num(full[name], nan=0.0) for name in Values._fields)
    return Values(*(jnp.asarray(array, jnp.float32) for array in arrays))


def as_keys(keys: UInt32[np.ndarray, "runs 2"]) -> jax.Array:
    """Turn pairs of words into jax keys."""
    return jax.random.wrap_key_data(jnp.asarray(keys, jnp.uint32), impl="threefry2x32")


def program_sizes(program: Program) -> Sizes:
    """Return the sizes of a program, by tracing it; nothing is computed or compiled."""
    from mirrorax.mdpo import replay
    from mirrorax.mdpo.update import init_learner

    settings, env = program.settings, program.env
    row = replay.width(env) * np.dtype(env.memory_dtype).itemsize
    values = jax.tree.map(lambda x: x[0], make_values({}, 1))

    def floats(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, np.float32)  # type: ignore[no-untyped-call]

    actor = floats(program.actor.num_parameters)
    critics = floats(program.num_critics, program.critic.num_parameters)
    learner = jax.eval_shape(partial(init_learner, program), actor, critics, values)

    batch = floats(env.observation_size, settings.batch_size)
    cost = jax.jit(program.actor).lower(actor, batch).cost_analysis() or {}
    parts = (
        settings.replay_slots * settings.num_envs * row,
        sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner)),
        int(cost.get("bytes accessed", 0)),  # about what an update keeps of a batch
    )
    return Sizes(sum(parts))


def check_memory(program: Program, lanes: int) -> None:
    """Refuse lanes that this machine cannot hold, before the system kills the process."""
    need, free = program_sizes(program).worker_bytes(lanes), available_bytes()
    if need > free:
        raise UserError(
            f"lanes: {lanes} lanes with buffer_size = {program.settings.buffer_size} need about "
            f"{need / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
        )
