"""Play a user's environment with random actions and report what is wrong with it.

`mirrorax.mdpo.contract` checks shapes before anything is compiled. This module checks what shapes
do not show: rewards and observations that are not finite, episodes that do not end, bounds of
returns that cannot be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mirrorax.envs import suite
from mirrorax.envs.adapter import (
    Environment,
    Played,
    Step,
    make,
    observations,
    play_random,
    random_start,
)
from mirrorax.envs.host import Gymnasium
from mirrorax.errors import UserError
from mirrorax.mdpo.contract import check_environment as check_contract


@dataclass(frozen=True)
class EnvironmentCheck:
    """The outcome: true if nothing is wrong; printed, it says what was seen."""

    subject: str
    problems: tuple[str, ...]
    episodes: int
    #: of a policy that chooses every action with equal probability
    mean_return: float
    mean_length: float

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.problems:
            return f"{self.subject}: " + "; ".join(self.problems)
        return (
            f"{self.subject}: nothing is wrong in {self.episodes} episodes of random actions, of "
            f"{self.mean_length:.3g} steps and a return of {self.mean_return:.3g} on average"
        )

    __repr__ = __str__


class _Seen(NamedTuple):
    """What was seen of each episode."""

    length: Int[Array, " episodes"]
    bad_reward: Bool[Array, " episodes"]
    bad_observation: Bool[Array, " episodes"]
    largest: Float[Array, "episodes memory"]
    #: an entry of a memory that is below 0 or not whole
    odd_memory: Bool[Array, "episodes memory"]


def check_environment(
    environment: Environment | str, *, episodes: int = 100, seed: int = 0
) -> EnvironmentCheck:
    """Play an environment with random actions and say what is wrong with it, if anything is.

    Methods that do not fit together raise the `UserError` that training would raise. What only
    playing shows is in the result: rewards or observations that are not finite, episodes that go
    on after `max_steps`, a random policy that `return_bounds` give a score above 1 or below -1,
    memories beyond `memory_bounds`.

    Args:
        environment: an `Environment`, or a name.
        episodes: how many episodes of random actions, 1 to 10,000.
        seed: seed of the actions, 0 to 2^32 - 1.

    Returns:
        A check that is true if nothing is wrong; printed, it says what was seen.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or not 1 <= episodes <= 10_000:
        raise UserError(f"episodes: {episodes!r} is not allowed: a whole number from 1 to 10,000")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise UserError(f"seed: {seed!r} is not allowed: a whole number from 0 to 2^32 - 1")
    env = make(environment) if isinstance(environment, str) else environment
    if isinstance(env, Gymnasium):
        raise UserError(
            f"environment: {env.name!r} is stepped by Gymnasium, which has a check of its own: "
            "gymnasium.utils.env_checker.check_env"
        )
    if not isinstance(env, Environment):
        raise UserError(f"environment: {env!r} is neither a name nor an Environment")
    check_contract(env)
    played = jax.tree.map(np.asarray, _play(env, episodes, seed))
    return EnvironmentCheck(
        subject=env.name,
        problems=tuple(_problems(env, played, episodes)),
        episodes=episodes,
        mean_return=float(played.total.mean()),
        mean_length=float(played.kept.length.mean()),
    )


@partial(jax.jit, static_argnames=("env", "episodes"))
def _play(env: Environment, episodes: int, seed: int) -> Played:
    """Play random episodes; what is kept of them is a `_Seen`."""
    key = jax.random.key(seed)

    def look(seen: _Seen, state: Any, running: Array) -> _Seen:
        memory = jax.vmap(env.remember)(state)
        unseen = ~jnp.isfinite(observations(env, memory)).all(axis=0)
        entries = memory.astype(jnp.float32)
        odd = ~((entries >= 0) & (entries == jnp.floor(entries)))
        largest = jnp.maximum(seen.largest, entries)
        return seen._replace(
            bad_observation=seen.bad_observation | (running & unseen),
            largest=jnp.where(running[:, None], largest, seen.largest),
            odd_memory=seen.odd_memory | (running[:, None] & odd),
        )

    def observer(seen: _Seen, after: Step, running: Array, t: Array) -> _Seen:
        seen = seen._replace(
            length=seen.length + running,
            bad_reward=seen.bad_reward | (running & ~jnp.isfinite(after.reward)),
        )
        return look(seen, after.state, running)

    start = random_start(env, key, episodes)
    no, each_entry = jnp.zeros(episodes, bool), (episodes, env.memory_size)
    lengths = jnp.zeros(episodes, jnp.int32)
    seen = _Seen(lengths, no, no, jnp.full(each_entry, -jnp.inf), jnp.zeros(each_entry, bool))
    return play_random(env, key, start, episodes, observer, look(seen, start, ~no))


def _problems(env: Environment, played: Played, episodes: int) -> list[str]:
    problems, seen = [], played.kept

    def of(which: Any) -> str:
        return f"in {int(which.sum())} of {episodes} episodes"

    if seen.bad_reward.any():
        problems.append(f"step returns a reward that is not finite {of(seen.bad_reward)}")
    if seen.bad_observation.any():
        problems.append(f"observe returns what is not finite {of(seen.bad_observation)}")
    if played.running.any():
        problems.append(
            f"step says neither terminated nor truncated within max_steps = {env.max_steps} "
            f"{of(played.running)}: say truncated then, for training does not count steps"
        )
    mean = float(played.total.mean())
    if env.return_bounds is not None and np.isfinite(mean):
        low, high = env.return_bounds
        score = suite.normalize(mean, (low, high))
        if not -1 <= score <= 1:  # a random policy may earn a little less than what counts as 0
            problems.append(
                f"random actions have a mean return of {mean:.4g}, which return_bounds = "
                f"({low:g}, {high:g}) make a score of {score:.3g}"
            )
    if env.memory_bounds is not None:
        beyond = seen.largest >= np.asarray(env.memory_bounds)
        if beyond.any():
            entry = int(np.argmax(beyond.any(axis=0)))
            problems.append(
                f"entry {entry} of a memory reaches {seen.largest[:, entry].max():g}, beyond "
                f"memory_bounds = {env.memory_bounds!r}"
            )
        if seen.odd_memory.any():
            entry = int(np.argmax(seen.odd_memory.any(axis=0)))
            problems.append(
                f"entry {entry} of a memory is not always a whole number from 0, as memory_bounds "
                f"= {env.memory_bounds!r} say"
            )
    return problems
