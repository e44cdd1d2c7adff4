"""Gymnasium's environments, stepped on the host through Gymnasium's own vector API.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from mirrorax.envs.adapter import Task
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

    def vector(self, count: int) -> Vector:
        """Make several, to be stepped together."""
        return Vector(self, count)

    def flat(self, seen: Any, count: int) -> Num[np.ndarray, "count memory"]:
        """Turn Gymnasium's observations into memories."""
        numbers = np.asarray(seen).reshape(count, -1)
        if self._labels is not None:  # type: ignore[attr-defined]
            numbers = numbers - self._first_label  # type: ignore[attr-defined]
        return numbers.astype(self.memory_dtype)

    def observe(self, memory: Num[Array, " memory"]) -> Float[Array, "*observation"]:
        """Return the observation of a memory: one-hot labels, bytes as fractions."""
        if self._labels is not None:  # type: ignore[attr-defined]
            places = jnp.arange(self._labels)  # type: ignore[attr-defined]
            return (places == memory[0].astype(jnp.int32)).astype(jnp.float32)
        numbers = memory.astype(jnp.float32).reshape(self.observation_shape)
        return numbers / 255 if self._bytes else numbers  # type: ignore[attr-defined]


@dataclass(frozen=True)
class HostStep:
    """What a step of several environments led to."""

    #: the memories of the states that the actions led to, final ones included
    after: Num[np.ndarray, "count memory"]
    #: the memories to go on from: the first of the next episode where one has ended
    memory: Num[np.ndarray, "count memory"]
    reward: Float[np.ndarray, " count"]
    terminated: Bool[np.ndarray, " count"]
    truncated: Bool[np.ndarray, " count"]


class Vector:
    """Several environments of one kind, in Gymnasium's `SyncVectorEnv`.

    They reset themselves in the step that ends an episode (`AutoresetMode.SAME_STEP`): what is
    returned is then the first observation of the next one, and the last of the ended one is in
    `info["final_obs"]`.
    """

    def __init__(self, env: Gymnasium, count: int) -> None:
        self._env, self._count = env, count
        vector = _gymnasium(env.name).vector
        self._vector = vector.SyncVectorEnv(
            [env.make] * count, autoreset_mode=vector.AutoresetMode.SAME_STEP
        )

    def reset(self, seeds: Sequence[int]) -> Num[np.ndarray, "count memory"]:
        """Start all episodes, each with its own seed, which also seeds those that follow."""
        with self._blamed("reset"):
            seen, _ = self._vector.reset(seed=[int(seed) for seed in seeds])
            return self._env.flat(seen, self._count)

    def step(self, actions: Int[np.ndarray, " count"]) -> HostStep:
        """Take one step in each."""
        first: int = self._env._first_action  # type: ignore[attr-defined]
        with self._blamed("step"):
            seen, reward, terminated, truncated, info = self._vector.step(actions + first)
        memory = self._env.flat(seen, self._count)
        after = memory
        done = terminated | truncated
        if done.any():
            after = memory.copy()
            for place in np.flatnonzero(done):
                after[place] = self._env.flat(info["final_obs"][place], 1)[0]
        return HostStep(after, memory, reward.astype(np.float32), terminated, truncated)

    def step_one(
        self, place: int, action: int | np.integer[Any]
    ) -> tuple[Num[np.ndarray, " memory"], float, bool]:
        """Take a step in one of them; return where it led, the reward, and whether it was the last.

        Nothing is reset: an episode that has ended is left alone until `reset`.
        """
        first: int = self._env._first_action  # type: ignore[attr-defined]
        with self._blamed("step"):
            seen, reward, terminated, truncated, _ = self._vector.envs[place].step(action + first)
            kind = self._vector.single_observation_space.dtype
            memory = self._env.flat(np.asarray(seen, kind), 1)[0]
            return memory, float(np.float32(reward)), bool(terminated or truncated)

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        """Say in one line what an environment raises: it may be a user's own."""
        try:
            yield
        except Exception as error:
            reason = in_one_line(error)
            raise UserError(f"environment: {self._env.name!r}: {method}: {reason}") from error

    def close(self) -> None:
        """Let go of the environments."""
        self._vector.close()
