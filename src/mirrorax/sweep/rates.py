"""How long a run takes: a shipped table, scaled by what the store has seen.

The time of a run on one core is modelled as

    updates * (steps per update * step_seconds[family] + update_seconds[family] * relative work)

The table was measured on one core of a cloud machine. Where the store holds finished runs the model
is scaled by what they took: per environment if it was seen, over all otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs.results import Results
from mirrorax.runs.settings import Settings
from mirrorax.sweep.measure import known_sizes

#: What compiling a configuration takes on one core.
COMPILE_SECONDS = 12.0


class Cost(NamedTuple):
    """What the runs of a family of environments cost."""

    #: seconds per million steps at which the policy is computed
    steps: float
    #: milliseconds of an update with the default settings
    update: float
    #: operations of the policy for one observation, with the default settings
    flops: int
    #: seconds per million steps at which the policy is looked up in a table of all states
    looked_up: float = 0.0


TABLE = {
    "CartPole": Cost(0.25, 1.17, 9_090),
    "Acrobot": Cost(0.42, 1.08, 9_475),
    "Catch": Cost(0.45, 1.54, 15_107, 0.05),
    "DeepSea": Cost(0.47, 1.54, 16_770, 0.03),
}
_OTHER = Cost(1.0, 1.9, 16_770)
#: environments that are stepped in Python
_HOSTED = Cost(22.0, 1.9, 16_770)


def modelled_seconds(settings: Settings) -> float:
    """Return what a run should take on one core, by the shipped table."""
    family = suite.environment(settings.environment).family
    cost = _HOSTED if family == "gymnasium" else TABLE.get(family, _OTHER)
    computed = computed_steps(settings)
    looked_up = settings.steps_per_update - computed
    rollout = (computed * cost.steps + looked_up * cost.looked_up) / 1e6
    return settings.updates * (rollout + cost.update / 1e3 * _relative_work(settings, cost))


def _relative_work(settings: Settings, cost: Cost) -> float:
    """Return the work of one update, relative to the default settings.

    A network whose size is not known counts as the default one.
    """
    critics = 2 if settings.twin_critics else 1
    passes = (settings.actor_epochs + critics * settings.critic_epochs) / 4
    observations = settings.batches_per_update * settings.batch_size / 512
    sizes = known_sizes(settings)
    return passes * observations * (1.0 if sizes is None else sizes.flops / cost.flops)


def computed_steps(settings: Settings) -> int:
    """Return at how many states the policy is computed in a rollout.

    At every step, or once for every state of a board that has fewer; the rest is looked up.
    """
    match suite.environment(settings.environment).size:
        case (rows, columns):  # Catch: two columns and a row
            states = rows * columns * columns
        case (size,):  # DeepSea: a row, perhaps below the last, and a column
            states = (size + 1) * size
        case _:
            return settings.steps_per_update
    return min(-(-states // settings.num_envs) * settings.num_envs, settings.steps_per_update)


@dataclass(frozen=True)
class Rates:
    """How long runs take here, relative to the shipped table."""

    source: str = "the shipped table"
    overall: float = 1.0
    by_environment: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[Settings, float] = field(default_factory=dict)  # seconds per run

    def seconds(self, settings: Settings) -> float:
        """Return the expected seconds of one run's share of a worker."""
        if settings in self.measured:
            return self.measured[settings]
        factor = self.by_environment.get(settings.environment, self.overall)
        return modelled_seconds(settings) * factor

    def guessed(self, settings: Settings) -> bool:
        """Whether this environment was measured neither here nor for the table."""
        if settings in self.measured or settings.environment in self.by_environment:
            return False
        return suite.environment(settings.environment).family not in TABLE


def observed(results: Results) -> Rates:
    """Scale the shipped table by the finished runs of a store."""
    actual: dict[str, float] = {}
    model: dict[str, float] = {}
    runs = 0
    for (settings, _), (median, count) in results.median_seconds().items():
        name = settings.environment
        try:
            modelled = modelled_seconds(settings)
        except UserError:
            continue  # a name of a plugin that is not loaded: nothing here needs its rate
        actual[name] = actual.get(name, 0.0) + count * median
        model[name] = model.get(name, 0.0) + count * modelled
        runs += count
    if not runs:
        return Rates()
    return Rates(
        source=f"{runs:,} finished runs in the store",
        overall=sum(actual.values()) / sum(model.values()),
        by_environment={name: actual[name] / model[name] for name in actual},
    )
