"""What a run costs: seconds and bytes, from what the store has seen or from a shipped table.

The time of a run on one core is modelled as

    steps * step_seconds[family] + updates * update_seconds[family] * relative size of an update

less for the steps of a board whose policy is looked up, with the table measured on one core of a
cloud machine. Where the store holds finished runs the model is scaled by what they took: per
environment if it was seen, over all otherwise.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.runs.settings import Settings

#: family -> (seconds per million environment steps, milliseconds per update of the default size)
TABLE = {
    "CartPole": (0.25, 1.17),
    "Acrobot": (0.42, 1.08),
    "Catch": (0.45, 1.54),
    "DeepSea": (0.47, 1.54),
}
#: what stays of the first where the policy is looked up in a table
_LOOKED_UP = {"Catch": 0.05, "DeepSea": 0.03}
_OTHER = (1.0, 1.9)
#: the same where the environment is stepped in Python
_HOST = (22.0, 1.9)

#: family -> floats in one observation, for environments whose size is not in their name
_OBSERVATION = {"CartPole": 4, "Acrobot": 6}
_OTHER_OBSERVATION = 64
#: family -> floats in one observation of the size the table was measured with
_USUAL_OBSERVATION = {"CartPole": 4, "Acrobot": 6, "Catch": 50, "DeepSea": 64}

#: What compiling a configuration takes on one core.
COMPILE_SECONDS = 12.0

#: Bytes of one stored transition of the suite's environments, at most: they store states, not
#: observations.
_SUITE_TRANSITION = 40

#: A worker's memory before its first lane: interpreter, jax, compiled programs.
BASE_BYTES = 550_000_000
#: Leave this share of the free memory to others.
_USABLE = 0.85

#: The columns `observed` needs.
COLUMNS = (
    "environment",
    "steps",
    "steps_counted",
    "env_steps_per_update",
    "num_envs",
    "batch_size",
    "batches_per_update",
    "buffer_size",
    "buffer_counted",
    "actor_epochs",
    "critic_epochs",
    "wall_seconds",
    "status",
)


@dataclass(frozen=True)
class _Own:
    """What a user's own environment says of its sizes."""

    observation: int
    shape: tuple[int, ...]
    transition: int  # bytes in the replay buffer


def _own(settings: Settings) -> _Own | None:
    """Ask a user's own environment, whose module is imported; None if it is not one."""
    if suite.environment(settings.environment).family != "own":
        return None
    return _asked(settings.environment, settings.plugins)


@lru_cache(maxsize=256)
def _asked(name: str, plugins: tuple[str, ...]) -> _Own | None:
    del plugins  # another version is another environment
    try:
        made = suite.load(name)
        from mirrorax.mdpo import transitions  # which needs jax, as the environment does

        return _Own(
            observation=int(made.observation_size),
            shape=tuple(made.observation_shape),
            transition=transitions.width(made) * np.dtype(made.memory_dtype).itemsize,
        )
    except Exception:  # a mistake in it is told when it is trained
        return None


def observation_size(settings: Settings) -> int:
    """Return the number of floats in one observation."""
    if (own := _own(settings)) is not None:
        return own.observation
    spec = suite.environment(settings.environment)
    if spec.shape:
        return math.prod(spec.shape)
    size = 1
    for side in spec.size * (2 if spec.family == "DeepSea" else 1):
        size *= side
    return size if spec.size else _OBSERVATION.get(spec.family, _OTHER_OBSERVATION)


def _convolution(settings: Settings) -> tuple[int, int, int] | None:
    """Return (places, filters, entries of a window) where a network begins with a convolution."""
    own = _own(settings)
    shape = suite.environment(settings.environment).shape if own is None else own.shape
    if settings.network == "mlp" or len(shape) != 3 or min(shape[:2]) < 3:
        return None
    return (shape[0] - 2) * (shape[1] - 2), 16, 9 * shape[2]


def _perceptron(settings: Settings) -> tuple[int, ...]:
    """Return the widths of the layers after the convolution, if there is one."""
    convolution = _convolution(settings)
    inputs = observation_size(settings)
    if convolution is not None:
        inputs = convolution[0] * convolution[1]
    return inputs, *settings.hidden, 4


def _products(widths: tuple[int, ...]) -> int:
    return sum(a * b for a, b in itertools.pairwise(widths))


def _work(settings: Settings) -> float:
    """Return the multiplications of one update, relative to the default settings."""
    family = suite.environment(settings.environment).family
    usual = _USUAL_OBSERVATION.get(family, _OTHER_OBSERVATION)
    default = 4 * _products((usual, 64, 64, 4)) * 512
    critics = 2 if settings.twin_critics else 1
    passes = settings.actor_epochs + critics * settings.critic_epochs
    actual = _products(_perceptron(settings))
    convolution = _convolution(settings)
    if convolution is not None:
        actual += 2 * math.prod(convolution)  # cutting out the windows costs as much again
    return passes * actual * settings.batches_per_update * settings.batch_size / default


def asked(settings: Settings) -> int:
    """Return at how many states the network is asked for a rollout.

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


def modelled_seconds(settings: Settings) -> float:
    """Return what a run should take on one core, by the shipped table."""
    family = suite.environment(settings.environment).family
    per_million, per_update = _HOST if family == "gymnasium" else TABLE.get(family, _OTHER)
    looked_up = settings.steps_per_update - asked(settings)
    rollout = asked(settings) * per_million + looked_up * _LOOKED_UP.get(family, 0.0)
    return settings.updates * (rollout / 1e6 + per_update / 1e3 * _work(settings))


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
        """Whether nobody has measured this environment: not here, and not for the table."""
        if settings in self.measured or settings.environment in self.by_environment:
            return False
        return suite.environment(settings.environment).family not in TABLE


def observed(table: pa.Table) -> Rates:
    """Scale the shipped table by the finished runs of a store (a table with `COLUMNS`)."""
    done = table.filter(pc.equal(table["status"], "done"))
    if len(done) == 0:
        return Rates()
    keys = [name for name in COLUMNS if name not in ("wall_seconds", "status")]
    # The median: a worker that was paused, or had to share its core, says little of the others.
    grouped = done.group_by(keys).aggregate(
        [("wall_seconds", "approximate_median"), ("wall_seconds", "count")]
    )
    actual: dict[str, float] = {}
    model: dict[str, float] = {}
    for row in grouped.to_pylist():
        typical, weight = row["wall_seconds_approximate_median"], row["wall_seconds_count"]
        if typical is None:
            continue
        try:
            settings = Settings(**{name: row[name] for name in keys})
        except UserError:
            continue  # a name of a plugin that is not declared now: nothing here needs its rate
        name = settings.environment
        actual[name] = actual.get(name, 0.0) + weight * typical
        model[name] = model.get(name, 0.0) + weight * modelled_seconds(settings)
    if not actual:
        return Rates()
    return Rates(
        source=f"{len(done):,} finished runs in the store",
        overall=sum(actual.values()) / sum(model.values()),
        by_environment={name: actual[name] / model[name] for name in actual},
    )


def lane_bytes(settings: Settings) -> int:
    """Return the memory one lane needs: its replay buffer above all."""
    inputs = observation_size(settings)
    spec = suite.environment(settings.environment)
    transition = _SUITE_TRANSITION
    if spec.family not in TABLE:
        transition = 2 * inputs + 5 if spec.binary else 4 * (2 * inputs + 2)
    if (own := _own(settings)) is not None:
        transition = own.transition
    widths = _perceptron(settings)
    weights = sum(a * b + b for a, b in itertools.pairwise(widths))
    networks = 4 * weights * (3 + 3 * 2 + 2 + 1)  # actor, critics with Adam's moments; targets
    activations = 4 * settings.batch_size * (2 * inputs + 6 * sum(settings.hidden))
    convolution = _convolution(settings)
    if convolution is not None:
        places, filters, window = convolution
        activations += 4 * settings.batch_size * places * (3 * window + 6 * filters)
    kept = settings.replay_slots * settings.num_envs
    return kept * transition + networks + activations


def worker_bytes(settings: Settings, lanes: int) -> int:
    """Return the memory a worker needs at this lane width."""
    return BASE_BYTES + lanes * lane_bytes(settings)


def check_memory(settings: Settings, lanes: int, copies: int = 1) -> None:
    """Refuse lanes that this machine cannot hold, before the system ends the process for it."""
    need, free = worker_bytes(settings, copies * lanes), available_bytes()
    if need > free:
        raise UserError(
            f"lanes: {lanes} lanes with buffer_size = {settings.buffer_size} need about "
            f"{need / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
        )


def available_bytes() -> int:
    """Return the memory that is free for use on this machine, within the limits of its group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            free = min(free, int(limit) - used)
    except (OSError, ValueError):
        pass
    return max(free, 0)


def lanes_that_fit(settings: Settings, workers: int, available: int | None = None) -> int:
    """Return the largest lane width for which all workers fit in the free memory."""
    free = available_bytes() if available is None else available
    share = free * _USABLE / max(workers, 1)
    return max(int((share - BASE_BYTES) // lane_bytes(settings)), 0)
