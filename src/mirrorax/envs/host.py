"""Gymnasium's environments, stepped on the host one by one.

`gymnasium:LunarLander-v3` names one by Gymnasium's id, with its version; named plain values in
brackets go to `gymnasium.make`. Actions must be discrete. An observation is remembered as it is:

- a `Box` flat, as float32, or as bytes where it holds bytes (which are seen divided by 255);
- a `Discrete` as its number, which is seen one-hot;
- anything else that Gymnasium can flatten, flattened by Gymnasium.

The compiled program never steps such an environment: `mirrorax.mdpo.host` does.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from mirrorax.envs.adapter import Step, Task
from mirrorax.errors import UserError, in_one_line, nearest

#: An episode without a limit of its own is cut here when a policy is evaluated.
LONGEST_EPISODE = 10_000


def _gymnasium(name: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise UserError(
            f"environment: {name!r} needs Gymnasium; install it with: "
            "pip install 'mirrorax[gymnasium]'"
        ) from None
    return gymnasium


@dataclass(frozen=True)
class Gymnasium(Task):
    """One of Gymnasium's environments, by its id."""

    id: str
    arguments: tuple[tuple[str, Any], ...] = ()
    return_bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        env = self.make()
        actions, seen = env.action_space, env.observation_space
        spaces = _gymnasium(self.name).spaces
        if not isinstance(actions, spaces.Discrete):
            raise UserError(
                f"environment: {self.name!r} has actions {actions}; only discrete ones work"
            )
        labels = int(seen.n) if isinstance(seen, spaces.Discrete) else None
        if labels:
            shape, memory, small = (labels,), 1, labels <= 256
        else:
            shape = tuple(seen.shape) or (1,)
            memory, small = math.prod(shape), seen.dtype in (np.uint8, np.bool_)
            small = small or (seen.dtype == np.int8 and np.min(seen.low) >= 0)
        limit = env.spec.max_episode_steps if env.spec is not None else None
        # The one way to set derived fields of a frozen dataclass.
        for field, value in {
            "num_actions": int(actions.n),
            "observation_shape": shape,
            "memory_size": memory,
            "memory_dtype": "uint8" if small else "float32",
            "max_steps": int(limit or LONGEST_EPISODE),
            "_first_action": int(actions.start),
            "_labels": labels,
            "_first_label": int(seen.start) if labels is not None else 0,
            "_bytes": seen.dtype == np.uint8 and labels is None and np.max(seen.high) > 1,
        }.items():
            object.__setattr__(self, field, value)
        env.close()

    @property
    def name(self) -> str:  # type: ignore[override]
        """The suite's name."""
        values = ", ".join(f"{name}={value!r}" for name, value in self.arguments)
        return f"gymnasium:{self.id}" + (f"({values})" if values else "")

    def make(self, **more: Any) -> Any:
        """Make one environment, its observations flat where Gymnasium has to flatten them."""
        gymnasium = _gymnasium(self.name)
        if self.id not in gymnasium.registry:  # a name selects what is registered, and no more
            guess = nearest(self.id, gymnasium.registry, 0.7)
            hint = f" (did you mean {guess!r}?)" if guess else ""
            raise UserError(
                f"environment: Gymnasium has no {self.id!r} in its registry{hint}; what is not "
                "Gymnasium's own needs its module: --plugin MODULE"
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Gymnasium warns of what its ids may become
                env = gymnasium.make(self.id, **{**dict(self.arguments), **more})
                plain = (gymnasium.spaces.Box, gymnasium.spaces.Discrete)
                if not isinstance(env.observation_space, plain):
                    env = gymnasium.wrappers.FlattenObservation(env)
                    if not isinstance(env.observation_space, gymnasium.spaces.Box):
                        raise TypeError("its observations have no fixed size")
        except Exception as error:  # whatever an environment raises when it is made
            reason = in_one_line(error)
            raise UserError(f"environment: Gymnasium cannot make {self.name!r}: {reason}") from None
        return env

    def flat(self, seen: Any) -> Num[np.ndarray, " memory"]:
        """Turn one of Gymnasium's observations into a memory."""
        numbers = np.asarray(seen).reshape(self.memory_size)
        if self._labels is not None:  # type: ignore[attr-defined]
            numbers = numbers - self._first_label  # type: ignore[attr-defined]
        return numbers.astype(self.memory_dtype)

    def remember(self, state: Num[Array, " memory"]) -> Num[Array, " memory"]:
        """Return the state, which is a memory already."""
        return state

    def observe(self, memory: Num[Array, " memory"]) -> Float[Array, "*observation"]:
        """Return the observation of a memory: one-hot labels, bytes as fractions."""
        if self._labels is not None:  # type: ignore[attr-defined]
            places = jnp.arange(self._labels)  # type: ignore[attr-defined]
            return (places == memory[0].astype(jnp.int32)).astype(jnp.float32)
        numbers = memory.astype(jnp.float32).reshape(self.observation_shape)
        return numbers / 255 if self._bytes else numbers  # type: ignore[attr-defined]


class Hosted:
    """One environment of a kind, seen through memories. It never resets itself."""

    def __init__(self, task: Gymnasium, **more: Any) -> None:
        self._task, self._env = task, task.make(**more)
        self._kind = self._env.observation_space.dtype

    def reset(self, seed: int | None = None) -> Num[np.ndarray, " memory"]:
        """Start an episode. A seed also decides the episodes that follow without one."""
        with self._blamed("reset"):
            return self._remembered(self._env.reset(seed=seed)[0])

    def step(self, action: int | np.integer[Any]) -> Step:
        """Take one step; its state is a memory."""
        first: int = self._task._first_action  # type: ignore[attr-defined]
        with self._blamed("step"):
            seen, reward, terminated, truncated, _ = self._env.step(action + first)
            paid, ends = float(np.float32(reward)), (bool(terminated), bool(truncated))
            return Step(self._remembered(seen), paid, *ends)  # type: ignore[arg-type]

    def render(self) -> Any:
        """Return the picture of the present state, as Gymnasium renders it."""
        return self._env.render()

    def close(self) -> None:
        """Let go of the environment."""
        self._env.close()

    def _remembered(self, seen: Any) -> Num[np.ndarray, " memory"]:
        return self._task.flat(np.asarray(seen, self._kind))

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        """Say in one line what an environment raises: it may be a user's own."""
        try:
            yield
        except Exception as error:
            reason = in_one_line(error)
            raise UserError(f"environment: {self._task.name!r}: {method}: {reason}") from error
