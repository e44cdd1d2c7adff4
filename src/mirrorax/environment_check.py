"""Play a user's environment with random actions and report what is wrong with it.

`mirrorax.mdpo.contract` checks shapes before anything is compiled. This module checks what shapes
do not show: rewards and observations that are not finite, episodes that do not end, bounds of
returns that cannot be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

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
from mirrorax.formatting import check_whole
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
    #: entries of a memory that were not whole numbers within `memory_bounds`
    bad_memory: Bool[Array, "episodes memory"]


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
    episodes = check_whole("episodes", episodes, 1, 10_000)
    seed = check_whole("seed", seed, 0, 2**32 - 1)
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
    bounds = jnp.asarray(env.memory_bounds or jnp.inf).reshape(1, -1)

    def look(seen: _Seen, state: Any, running: Array) -> _Seen:
        memory = jax.vmap(env.remember)(state)
        unseen = ~jnp.isfinite(observations(env, memory)).all(axis=0)
        entries = memory.astype(jnp.float32)
        bad = ~((entries >= 0) & (entries < bounds) & (entries == jnp.floor(entries)))
        return seen._replace(
            bad_observation=seen.bad_observation | (running & unseen),
            bad_memory=seen.bad_memory | (running[:, None] & bad),
        )

    def observer(seen: _Seen, after: Step, running: Array, t: Array) -> _Seen:
        seen = seen._replace(
            length=seen.length + running,
            bad_reward=seen.bad_reward | (running & ~jnp.isfinite(after.reward)),
        )
        return look(seen, after.state, running)

    start = random_start(env, key, episodes)
    no, lengths = jnp.zeros(episodes, bool), jnp.zeros(episodes, jnp.int32)
    seen = _Seen(lengths, no, no, jnp.zeros((episodes, env.memory_size), bool))
    return play_random(env, key, start, episodes, observer, look(seen, start, ~no))


def _problems(env: Environment, played: Played, episodes: int) -> Iterator[str]:
    seen = played.kept

    def of(which: Any) -> str:
        return f"in {int(which.sum())} of {episodes} episodes"

    if seen.bad_reward.any():
        yield f"step returns a reward that is not finite {of(seen.bad_reward)}"
    if seen.bad_observation.any():
        yield f"observe returns what is not finite {of(seen.bad_observation)}"
    if played.running.any():
        yield (
            f"step says neither terminated nor truncated within max_steps = {env.max_steps} "
            f"{of(played.running)}: say truncated then, for training does not count steps"
        )
    mean = float(played.total.mean())
    if env.return_bounds is not None and np.isfinite(mean):
        low, high = env.return_bounds
        score = suite.normalize(mean, (low, high))
        if not -1 <= score <= 1:  # a random policy may earn a little less than what counts as 0
            yield (
                f"random actions have a mean return of {mean:.4g}, which return_bounds = "
                f"({low:g}, {high:g}) make a score of {score:.3g}"
            )
    if env.memory_bounds is not None and seen.bad_memory.any():
        entry = int(np.argmax(seen.bad_memory.any(axis=0)))
        yield (
            f"entry {entry} of a memory is not always a whole number from 0 and below "
            f"memory_bounds = {env.memory_bounds!r}"
        )
