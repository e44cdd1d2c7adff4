"""Checks of a user's own environment and schedule.

`check_contract` and `check_schedule` check shapes and dtypes before anything is compiled
(`jax.eval_shape`); nothing is computed. A mistake is one line that names the environment or
schedule, the method, and what was expected of it.

`check_environment` plays an environment with random actions and reports what shapes do not show:
rewards and observations that are not finite, episodes that do not end, bounds of returns that
cannot be right.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
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
    Task,
    make,
    observations,
    play_random,
    random_start,
)
from mirrorax.envs.host import Gymnasium
from mirrorax.errors import UserError, in_one_line
from mirrorax.formatting import check_whole
from mirrorax.mdpo.schedules import Clock, Schedule, Values

#: attribute -> the least it may be
_COUNTS = {
    "num_actions": 2,
    "max_steps": 1,
    "reset_words": 0,
    "step_words": 0,
}
_KINDS = ("float32", "uint8")
#: what is derived from the methods of an environment that the program steps
_DERIVED = ("memory_size", "memory_dtype", "observation_shape", "observation_size")


def check_contract(env: Task) -> None:
    """Refuse an environment whose attributes or methods do not fit together."""
    where = f"environment: {str(getattr(env, 'name', type(env).__name__))!r}"
    try:
        hash(env)
    except TypeError:
        raise UserError(
            f"{where} cannot be hashed; write it as a frozen dataclass with plain fields"
        ) from None
    if not isinstance(env, Environment):
        return  # the host steps it, and has looked at it
    for name in _DERIVED:
        if getattr(type(env), name) is not getattr(Environment, name):
            raise UserError(f"{where}: {name} is derived from its methods; remove it")
    _check_attributes(env, where)
    state = _with_words(where, env, "reset")
    after = _with_words(where, env, "step", state, _of(jnp.int32))
    if not isinstance(after, Step):
        raise UserError(
            f"{where}: step returns a {type(after).__name__}, "
            "expected a Step(state, reward, terminated, truncated)"
        )
    _same(f"{where}: step returns a state of", after.state, state, " as reset's")
    _same(f"{where}: step returns a reward of", after.reward, _of(jnp.float32))
    _same(f"{where}: step returns terminated of", after.terminated, _of(jnp.bool_))
    _same(f"{where}: step returns truncated of", after.truncated, _of(jnp.bool_))
    memory = _shapes(where, "remember", env.remember, state)
    is_array = isinstance(memory, jax.ShapeDtypeStruct)
    if not is_array or memory.ndim != 1 or memory.dtype.name not in _KINDS:
        raise UserError(
            f"{where}: remember returns {_spelled(memory)}, expected a vector of "
            f"{' or '.join(_KINDS)}"
        )
    if memory.dtype.name == "uint8" and env.num_actions > 64:
        raise UserError(f"{where}: more than 64 actions with one-byte memories")
    if memory.size == 0:
        raise UserError(f"{where}: remember returns nothing, expected at least one number")
    seen = _shapes(where, "observe", env.observe, memory)
    is_array = isinstance(seen, jax.ShapeDtypeStruct)
    if not is_array or seen.dtype != jnp.float32 or seen.size == 0:
        raise UserError(f"{where}: observe returns {_spelled(seen)}, expected an array of float32")
    _check_memory_bounds(env, where)


def check_schedule(field: str, schedule: Schedule) -> None:
    """Refuse a schedule whose methods do not fit together."""
    where = f"{field}: {type(schedule).__name__!r}"
    values = Values(*(_of(jnp.float32) for _ in Values._fields))
    clock = Clock(_of(jnp.int32), _of(jnp.int32))
    state = _shapes(where, "init", schedule.init, values)
    temperature = _shapes(where, "temperature", schedule.temperature, state, values, clock)
    _same(f"{where}: temperature returns", temperature, _of(jnp.float32))
    after = _shapes(where, "learn", schedule.learn, state, values, clock, _of(jnp.float32))
    _same(f"{where}: learn returns a state of", after, state, " as init's")


def _of(kind: Any, *shape: int) -> Any:
    """Return what stands for an array of this kind and shape."""
    return jax.ShapeDtypeStruct(shape, kind)  # type: ignore[no-untyped-call]


def _check_attributes(env: Environment, where: str) -> None:
    for name, least in _COUNTS.items():
        value = _attribute(env, where, name)
        try:
            count = operator.index(value)
        except TypeError:
            count = least - 1
        if isinstance(value, bool) or count < least:
            raise UserError(
                f"{where}: {name} is {value!r}, expected a whole number, at least {least}"
            )
    suite.check_bounds(_attribute(env, where, "return_bounds"), where)


def _check_memory_bounds(env: Environment, where: str) -> None:
    sides = _attribute(env, where, "memory_bounds")
    if sides is not None and not (
        isinstance(sides, tuple)
        and len(sides) == env.memory_size
        and all(type(side) is int and side >= 1 for side in sides)
    ):
        raise UserError(
            f"{where}: memory_bounds are {sides!r}, expected a tuple of {env.memory_size} "
            "whole numbers, at least 1: one for each entry of a memory"
        )


def _attribute(env: Environment, where: str, name: str) -> Any:
    try:
        return getattr(env, name)
    except AttributeError:
        raise UserError(f"{where} has no {name}") from None
    except Exception as error:  # a property of the user's may fail in any way
        raise UserError(f"{where}: {name}: {in_one_line(error)}") from None


def _shapes(where: str, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shapes of what a method returns."""
    try:
        return jax.eval_shape(function, *arguments)
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"{where}: {method}: {in_one_line(error)}") from None


def _with_words(where: str, env: Environment, method: str, *arguments: Any) -> Any:
    """Return the shapes of what a method returns that is given random words.

    Refuse one that reads more of them than it declares. jax gives the last word for an index beyond
    the end and says nothing; numpy raises.
    """
    name, function = f"{method}_words", getattr(env, method)
    count = getattr(env, name)
    shapes = _shapes(
        where, f"{method} (with {name} = {count})", function, *arguments, _of(jnp.uint32, count)
    )
    if not count:
        return shapes
    noise = np.zeros(count, np.uint32)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.eval_shape(lambda *rest: function(*rest, noise), *arguments)
    except IndexError as error:
        raise UserError(
            f"{where}: {method} reads beyond its {name} = {count} random words: "
            f"{in_one_line(error)}"
        ) from None
    except Exception:
        pass  # it wants a jax array, and has had one
    return shapes


def _same(what: str, shapes: Any, expected: Any, why: str = "") -> None:
    """Refuse shapes and kinds other than the expected ones."""
    if _kinds(shapes) != _kinds(expected):
        raise UserError(f"{what} {_spelled(shapes)}, expected {_spelled(expected)}{why}")


def _kinds(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return [(leaf.shape, leaf.dtype) for leaf in leaves], structure


def _spelled(tree: Any) -> str:
    """Write shapes as people do: float32[3], or a list of them."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    texts = []
    for path, leaf in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        texts.append(f"{name} {leaf.dtype}[{','.join(map(str, leaf.shape))}]".strip())
    return ", ".join(texts) or "nothing"


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
