"""The one contract every environment is seen through, and `make`, which finds one by name.

An environment is written for a single episode and a single step; the trainer adds the batch axes.
It never resets itself: `step` says whether the episode was *terminated* (the task ended: nothing
follows) or *truncated* (time ran out: the value of the next state still counts), and the trainer
starts the next episode.

All randomness comes in as `noise`, an array of 32-bit random words, so that the trainer can draw
the numbers of a whole rollout at once. `uniform` and `integer` turn words into numbers, `key` makes
a jax key of two of them.

What is kept of a state in the replay buffer is its `remember`, a short vector of float32 or uint8,
and the observation is a function of that memory: a board of 50 cells can be remembered as the three
bytes it is computed from. Sizes and kinds are derived from what the methods return.

`examples/my_environment.py` is a complete one, and docs/environments.md explains each line. Pass
an environment as `mirrorax.train(env=Corridor())`, or give it a name:
`mirrorax.register_environment("Corridor", Corridor)` (see `mirrorax.registry`).
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Num, UInt32

from mirrorax.envs import suite
from mirrorax.errors import UserError

State = Any  # a pytree of arrays, the environment's own business
Noise = UInt32[Array, " words"]


class Step(NamedTuple):
    """The outcome of one step. Both flags may be true; termination then counts."""

    state: State
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]

    @property
    def ended(self) -> Bool[Array, ""]:
        """Whether it was the last step of its episode."""
        return self.terminated | self.truncated


class Task(abc.ABC):
    """What the trainer knows of any environment, stepped by jax or on the host. Hashable."""

    name: str
    num_actions: int
    #: (low, high): the returns that count as 0 and 1; None where nobody knows them: then they are
    #: estimated from a random policy and the best return seen
    return_bounds: tuple[float, float] | None
    #: no episode is longer
    max_steps: int
    #: length and kind of a memory
    memory_size: int
    memory_dtype: Literal["float32", "uint8"]
    #: the shape of an observation: rows, columns and channels are seen through a convolution
    observation_shape: tuple[int, ...]
    #: where every entry of a memory is a whole number from 0 up to a small bound: these bounds.
    #: A long rollout then looks its logits up in a table of all memories, and an update with a
    #: large batch asks its networks once at every memory. An entry that reaches its bound would
    #: be looked up in the wrong place, and nothing would say so.
    memory_bounds: tuple[int, ...] | None = None
    #: random words that `reset` and `step` want; none where the host steps it
    reset_words: int = 0
    step_words: int = 0

    @property
    def observation_size(self) -> int:
        """The number of entries of an observation."""
        return math.prod(self.observation_shape)

    @abc.abstractmethod
    def remember(self, state: State) -> Num[Array, " memory"]:
        """Return what the replay buffer keeps of a state."""

    @abc.abstractmethod
    def observe(self, memory: Num[Array, " memory"]) -> Float[Array, "*observation"]:
        """Return the observation of a remembered state."""


class Environment(Task):
    """An environment that the compiled program steps."""

    @abc.abstractmethod
    def reset(self, noise: Noise) -> State:
        """Draw the first state of an episode."""

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, ""], noise: Noise) -> Step:
        """Take one step."""

    @property
    def memory_size(self) -> int:  # type: ignore[override]
        """The number of entries of what `remember` returns."""
        return derived_shapes(self)[0].size

    @property
    def memory_dtype(self) -> Literal["float32", "uint8"]:  # type: ignore[override]
        """The kind of what `remember` returns."""
        return derived_shapes(self)[0].dtype.name

    @property
    def observation_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of what `observe` returns."""
        return derived_shapes(self)[1].shape


@lru_cache(maxsize=256)
def derived_shapes(env: Environment) -> tuple[Any, Any]:
    """Return what stands for a memory and for an observation, without computing them."""
    noise = jax.ShapeDtypeStruct((env.reset_words,), jnp.uint32)  # type: ignore[no-untyped-call]
    memory = jax.eval_shape(lambda words: env.remember(env.reset(words)), noise)
    return memory, jax.eval_shape(env.observe, memory)


def observations(
    task: Task, memories: Num[Array, "batch memory"]
) -> Float[Array, "observation batch"]:
    """Return the observations of memories, flat, as columns."""
    return jax.vmap(lambda memory: task.observe(memory).ravel(), out_axes=-1)(memories)


def place_of(task: Task, memories: Num[Array, "batch memory"]) -> Int[Array, " batch"]:
    """Return the number of each memory in the list of all that the bounds of a task allow."""
    entries = tuple(memories.astype(jnp.int32).T)
    return jnp.ravel_multi_index(entries, task.memory_bounds or (), mode="clip")


def memories_at(task: Task, places: Int[Array, " batch"]) -> Num[Array, "batch memory"]:
    """Return the memories of these numbers."""
    entries = jnp.unravel_index(places, task.memory_bounds or ())
    return jnp.stack(entries, axis=-1).astype(task.memory_dtype)


def uniform(
    words: UInt32[Array, "*shape"], low: float = 0.0, high: float = 1.0
) -> Float[Array, "*shape"]:
    """Turn random words into uniform numbers in [low, high)."""
    # 24 bits are what a float32 in [0, 1) can hold evenly: low + (high - low) k / 2^24.
    return low + ((high - low) * 2.0**-24) * (words >> 8).astype(jnp.float32)


def integer(word: UInt32[Array, "*shape"], count: int) -> Int[Array, "*shape"]:
    """Turn a random word into a whole number in [0, count), count at most 2^16."""
    return (((word >> 16) * jnp.uint32(count)) >> 16).astype(jnp.int32)


def key(words: UInt32[Array, "2"]) -> Array:
    """Turn two random words into a jax key."""
    return jax.random.wrap_key_data(words, impl="threefry2x32")


@dataclass(frozen=True)
class Gymnax(Environment):
    """Any gymnax environment with discrete actions, by gymnax's name.

    Slower than an environment written for this contract, because gymnax draws its random numbers
    from a key at every step. `binary` says that observations are zeros and ones, of which one byte
    each is remembered.
    """

    name: str
    return_bounds: tuple[float, float] | None = None
    binary: bool = False

    reset_words = 2
    step_words = 2

    def __post_init__(self) -> None:
        import gymnax

        try:
            env, params = gymnax.make(self.name)
        except Exception as error:  # whatever gymnax raises, such as a download that failed
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UserError(f"environment: gymnax cannot make {self.name!r}: {reason}") from None
        space = env.action_space(params)
        if not hasattr(space, "n"):
            raise UserError(f"environment: {self.name!r} has no discrete actions")
        seen = jax.eval_shape(lambda k: env.reset_env(k, params)[0], jax.random.key(0))
        small = self.binary or seen.dtype in (jnp.bool_, jnp.uint8)
        # The one way to set derived fields of a frozen dataclass.
        for field, value in {
            "_env": env,
            "_params": params,
            "_shape": seen.shape or (1,),
            "_kind": "uint8" if small else "float32",
            "num_actions": int(space.n),
            "max_steps": int(params.max_steps_in_episode),
        }.items():
            object.__setattr__(self, field, value)

    def _flat(self, observation: Any) -> Any:
        return jnp.ravel(jnp.asarray(observation)).astype(self._kind)  # type: ignore[attr-defined]

    def reset(self, noise: Noise) -> State:
        """Call gymnax's `reset_env`."""
        observation, state = self._env.reset_env(key(noise), self._params)  # type: ignore[attr-defined]
        return {"inner": jax.tree.map(jnp.asarray, state), "seen": self._flat(observation)}

    def step(self, state: State, action: Int[Array, ""], noise: Noise) -> Step:
        """Call gymnax's `step_env` and its truncation rule; never its automatic reset."""
        env, params = self._env, self._params  # type: ignore[attr-defined]
        observation, inner, reward, terminated, _ = env.step_env(
            key(noise), state["inner"], action, params
        )
        inner = jax.tree.map(
            lambda new, old: jnp.asarray(new).astype(old.dtype), inner, state["inner"]
        )
        return Step(
            {"inner": inner, "seen": self._flat(observation)},
            jnp.asarray(reward, jnp.float32),
            jnp.asarray(terminated, bool),
            jnp.asarray(env.is_truncated(inner, params), bool),
        )

    def remember(self, state: State) -> Num[Array, " memory"]:
        """Return the flat observation."""
        seen: Array = state["seen"]
        return seen

    def observe(self, memory: Num[Array, " memory"]) -> Float[Array, "*observation"]:
        """Return the memory, which is the observation, in its shape."""
        return memory.astype(jnp.float32).reshape(self._shape)  # type: ignore[attr-defined]


def make(name: str) -> Task:
    """Return the environment a name stands for (see `mirrorax.envs.suite`)."""
    from mirrorax.envs import boards, physics

    spec = suite.environment(name)
    match spec.family:
        case "CartPole":
            return physics.CartPole()
        case "Acrobot":
            return physics.Acrobot()
        case "Catch":
            return boards.Catch(*spec.size)
        case "DeepSea":
            return boards.DeepSea(*spec.size)
        case "gymnax":
            return Gymnax(spec.name, spec.bounds, binary=spec.binary)
        case "gymnasium":
            from mirrorax.envs.host import Gymnasium

            task, arguments = suite.gymnasium_id(spec.name)
            return Gymnasium(task, tuple(arguments.items()), spec.bounds)
        case _:
            own = suite.load(spec.name)
            if not isinstance(own, Task):
                raise UserError(
                    f"environment: {spec.name!r} is a {type(own).__name__}, not an Environment"
                )
            return own


#: Episodes of the estimate of a random policy's return, and the seed of their random numbers: the
#: same on every machine.
EPISODES, _SEED = 100, 0

#: what is kept of every step: (kept so far, the step, which episodes were running, t) -> kept
Observer = Callable[[Any, Step, Array, Array], Any]


class Played(NamedTuple):
    """Episodes that were played side by side."""

    total: Float[Array, "*episodes"]
    #: episodes that had not ended after `max_steps`
    running: Bool[Array, "*episodes"]
    kept: Any


def play(
    max_steps: int,
    start: State,
    step: Callable[[State, Int[Array, ""]], Step],
    shape: tuple[int, ...],
    observer: Observer | None = None,
    kept: Any = (),
) -> Played:
    """Play episodes of this shape side by side until all have ended, or for `max_steps`.

    Args:
        max_steps: no episode is longer.
        start: the first states.
        step: takes step t, counted from 1, in every episode, ended ones included.
        shape: the axes of the episodes, such as (lanes, episodes).
        observer: what is kept of each step; the rewards of running episodes are always added up.
        kept: what is kept before the first step.
    """

    def going(carry: tuple[State, Played, Array]) -> Array:
        _, played, t = carry
        return jnp.any(played.running) & (t <= max_steps)

    def body(carry: tuple[State, Played, Array]) -> tuple[State, Played, Array]:
        state, (total, running, kept), t = carry
        after = step(state, t)
        total = total + jnp.where(running, after.reward, 0.0)
        if observer is not None:
            kept = observer(kept, after, running, t)
        running = running & ~after.ended
        return after.state, Played(total, running, kept), t + 1

    first = Played(jnp.zeros(shape), jnp.ones(shape, bool), kept)
    played: Played = jax.lax.while_loop(going, body, (start, first, jnp.int32(1)))[1]
    return played


def random_start(env: Environment, key: Array, episodes: int) -> State:
    """Draw the first states of some episodes."""
    return jax.vmap(env.reset)(_words(key, 0, (episodes, env.reset_words)))


def play_random(
    env: Environment,
    key: Array,
    start: State,
    episodes: int,
    observer: Observer | None = None,
    kept: Any = (),
) -> Played:
    """Play episodes with a policy that chooses every action with equal probability."""

    def step(state: State, t: Array) -> Step:
        words = _words(key, t, (episodes, 1 + env.step_words))
        actions = integer(words[:, 0], env.num_actions)
        return jax.vmap(env.step)(state, actions, words[:, 1:])

    return play(env.max_steps, start, step, (episodes,), observer, kept)


def _words(key: Array, t: Any, shape: tuple[int, ...]) -> Array:
    return jax.random.bits(jax.random.fold_in(key, t), shape)


@lru_cache(maxsize=64)
def random_return(env: Environment, episodes: int = EPISODES) -> float:
    """Return the mean return of a random policy: the lower bound of returns where none is known."""
    return float(jnp.mean(_random_returns(env, episodes)))


@partial(jax.jit, static_argnames=("env", "episodes"))
def _random_returns(env: Environment, episodes: int) -> Float[Array, " episodes"]:
    key = jax.random.key(_SEED)
    return play_random(env, key, random_start(env, key, episodes), episodes).total
