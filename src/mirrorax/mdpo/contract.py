"""Checks of a user's own environment and schedule, before anything is compiled.

Only shapes and dtypes are checked (`jax.eval_shape`); nothing is computed. A mistake is one line
that names the environment or schedule, the method, and what was expected of it.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mirrorax.envs import suite
from mirrorax.envs.adapter import Environment, Step, Task
from mirrorax.errors import UserError, in_one_line
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


def check_environment(env: Task) -> None:
    """Refuse an environment whose attributes or methods do not fit together."""
    where = f"environment: {_called(env)!r}"
    try:
        hash(env)
    except TypeError:
        raise UserError(
            f"{where} cannot be hashed; write it as a frozen dataclass with plain fields"
        ) from None
    _check_environment(env, where)


@lru_cache(maxsize=64)
def _check_environment(env: Task, where: str) -> None:
    if not isinstance(env, Environment):
        return  # the host steps it, and has looked at it
    for name in _DERIVED:
        if getattr(type(env), name) is not getattr(Environment, name):
            raise UserError(f"{where}: {name} is derived from its methods; remove it")
    _check_attributes(env, where)
    noise = _of((env.reset_words,), jnp.uint32)
    state = _shapes(where, "reset", env.reset, noise, words=("reset_words", env.reset_words))
    action = _of((), jnp.int32)
    noise = _of((env.step_words,), jnp.uint32)
    words = ("step_words", env.step_words)
    after = _shapes(where, "step", env.step, state, action, noise, words=words)
    if not isinstance(after, Step):
        raise UserError(
            f"{where}: step returns a {type(after).__name__}, "
            "expected a Step(state, reward, terminated, truncated)"
        )
    _same(f"{where}: step returns a state of", after.state, state, "as reset's")
    flag = _of((), jnp.bool_)
    _same(f"{where}: step returns a reward of", after.reward, _float32(), "")
    _same(f"{where}: step returns terminated of", after.terminated, flag, "")
    _same(f"{where}: step returns truncated of", after.truncated, flag, "")
    memory = _shapes(where, "remember", env.remember, state)
    if not _is_array(memory) or memory.ndim != 1 or memory.dtype.name not in _KINDS:
        raise UserError(
            f"{where}: remember returns {_spelled(memory)}, expected a vector of "
            f"{' or '.join(_KINDS)}"
        )
    if memory.dtype.name == "uint8" and env.num_actions > 64:
        raise UserError(f"{where}: more than 64 actions with one-byte memories")
    if memory.size == 0:
        raise UserError(f"{where}: remember returns nothing, expected at least one number")
    seen = _shapes(where, "observe", env.observe, memory)
    if not _is_array(seen) or seen.dtype != jnp.float32 or seen.size == 0:
        raise UserError(f"{where}: observe returns {_spelled(seen)}, expected an array of float32")
    _check_memory_bounds(env, where)


def _is_array(tree: Any) -> bool:
    return isinstance(tree, jax.ShapeDtypeStruct)


def check_schedule(field: str, schedule: Schedule) -> None:
    """Refuse a schedule whose methods do not fit together."""
    where = f"{field}: {type(schedule).__name__!r}"
    values = Values(*(_float32() for _ in Values._fields))
    count = _of((), jnp.int32)
    clock = Clock(count, count)
    state = _shapes(where, "init", schedule.init, values)
    temperature = _shapes(where, "temperature", schedule.temperature, state, values, clock)
    _same(f"{where}: temperature returns", temperature, _float32(), "")
    after = _shapes(where, "learn", schedule.learn, state, values, clock, _float32())
    _same(f"{where}: learn returns a state of", after, state, "as init's")


def _called(env: Task) -> str:
    return str(getattr(env, "name", type(env).__name__))


def _of(shape: tuple[int, ...], kind: Any) -> Any:
    """Return what stands for an array of this shape and kind."""
    return jax.ShapeDtypeStruct(shape, kind)  # type: ignore[no-untyped-call]


def _float32(*shape: int) -> Any:
    return _of(shape, jnp.float32)


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


def _shapes(
    where: str,
    method: str,
    function: Callable[..., Any],
    *arguments: Any,
    words: tuple[str, int] | None = None,
) -> Any:
    """Return the shapes of what a method returns."""
    note = f" (with {words[0]} = {words[1]})" if words else ""
    try:
        shapes = jax.eval_shape(function, *arguments)
    except Exception as error:  # code of the user's may fail in any way
        raise UserError(f"{where}: {method}{note}: {in_one_line(error)}") from None
    if words and words[1]:
        _check_words(where, method, function, arguments[:-1], *words)
    return shapes


def _check_words(
    where: str,
    method: str,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    name: str,
    count: int,
) -> None:
    """Refuse a method that reads more random words than it declares.

    jax gives the last word for an index beyond the end and says nothing; numpy raises.
    """
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
        return  # it wants a jax array, and has had one


def _same(what: str, shapes: Any, expected: Any, why: str) -> None:
    """Refuse shapes and kinds other than the expected ones."""
    if _kinds(shapes) != _kinds(expected):
        why = f" {why}" if why else ""
        raise UserError(f"{what} {_spelled(shapes)}, expected {_spelled(expected)}{why}")


def _kinds(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return [(leaf.shape, leaf.dtype) for leaf in leaves], structure


def _spelled(tree: Any) -> str:
    """Write shapes as people do: float32[3], or a list of them."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths]
    texts = []
    for name, leaf in named:
        text = f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
        texts.append(f"{name} {text}" if name else text)
    return ", ".join(texts) if texts else "nothing"
