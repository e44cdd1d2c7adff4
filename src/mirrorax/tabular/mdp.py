"""A finite MDP as arrays, validated, and builders for the ones that theory and tests use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from mirrorax.errors import UserError

_TOLERANCE = 1e-9
_LARGEST = 4  # GB of transitions that a builder makes


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP, or a batch of MDPs of one size on leading axes.

    Attributes:
        transitions: p(s' | s, a), shape [..., states, actions, states]; rows sum to one.
        rewards: the expected reward r(s, a), shape [..., states, actions].
        gamma: the discount factor, in [0, 1).
        initial: the distribution of the first state, shape [..., states]; uniform if not given.
        terminal: states where an episode has ended, shape [..., states]: their value is zero, and
            what their rows of `transitions` and `rewards` say is ignored. None if not given.
        observations: what an agent sees of each state, shape [states, size], where there is such.
        name: how to call it in tables and on plots.
    """

    transitions: Float64[np.ndarray, "*batch states actions states"]
    rewards: Float64[np.ndarray, "*batch states actions"]
    gamma: float
    initial: Float64[np.ndarray, "*batch states"] = None  # type: ignore[assignment]
    terminal: Bool[np.ndarray, "*batch states"] = None  # type: ignore[assignment]
    observations: Float64[np.ndarray, "states size"] | None = None
    name: str = "mdp"

    def __post_init__(self) -> None:
        def put(attribute: str, value: Any) -> None:
            object.__setattr__(self, attribute, value)

        # Probabilities in single precision sum to one only as well as that: they are normalised.
        single = getattr(self.transitions, "dtype", None) in (np.float32, np.float16)
        put("transitions", _array("transitions", self.transitions))
        if single:
            total = self.transitions.sum(-1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                close = np.abs(total - 1) <= 1e-6
                put("transitions", np.where(close, self.transitions / total, self.transitions))
        put("rewards", _array("rewards", self.rewards))
        shape = self.transitions.shape
        if len(shape) < 3 or shape[-1] != shape[-3] or 0 in shape:
            raise UserError(
                f"transitions: shape {shape} is not allowed: [..., states, actions, states]"
            )
        if self.rewards.shape != shape[:-1]:
            raise UserError(
                f"rewards: shape {self.rewards.shape} is not allowed: with transitions of shape "
                f"{shape} it must be {shape[:-1]}"
            )
        put("gamma", _discount(self.gamma))
        states = shape[-1]
        uniform = np.full((*shape[:-3], states), 1 / states)
        put("initial", uniform if self.initial is None else _array("initial", self.initial))
        none = np.zeros((*shape[:-3], states), bool)
        put("terminal", none if self.terminal is None else np.asarray(self.terminal, bool))
        for name in ("initial", "terminal"):
            if getattr(self, name).shape != uniform.shape:
                raise UserError(
                    f"{name}: shape {getattr(self, name).shape} is not allowed: it must be "
                    f"{uniform.shape}"
                )
        self._check_numbers()

    def _check_numbers(self) -> None:
        p = self.transitions
        total = p.sum(-1)
        bad = ~((p >= 0).all(-1) & (np.abs(total - 1) <= _TOLERANCE))
        if bad.any():
            at = np.argwhere(bad)[0]
            row = p[tuple(at)]
            what = (
                f"has the entry {row[~(row >= 0)][0]}"
                if not (row >= 0).all()
                else f"sums to {total[tuple(at)]}"
            )
            raise UserError(
                f"transitions: {_place(at)}: the row {what}; "
                "each row must be non-negative and sum to one"
            )
        if not np.isfinite(self.rewards).all():
            at = np.argwhere(~np.isfinite(self.rewards))[0]
            raise UserError(
                f"rewards: {_place(at)}: {self.rewards[tuple(at)]} is not allowed: a finite number"
            )
        start = self.initial
        if not ((start >= 0).all() and (np.abs(start.sum(-1) - 1) <= _TOLERANCE).all()):
            raise UserError("initial: must be non-negative and sum to one")

    @property
    def num_states(self) -> int:
        """The number of states."""
        return self.transitions.shape[-1]

    @property
    def num_actions(self) -> int:
        """The number of actions."""
        return self.transitions.shape[-2]

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: () for one MDP."""
        return self.transitions.shape[:-3]

    @cached_property
    def alive(self) -> Float64[np.ndarray, "*batch states"]:
        """1 where an episode goes on, 0 where it has ended."""
        return np.where(self.terminal, 0.0, 1.0)

    @cached_property
    def ends(self) -> bool:
        """Whether any state is terminal."""
        return bool(self.terminal.any())

    @cached_property
    def matrix(self) -> Float64[np.ndarray, "*batch pairs states"]:
        """The transitions as one matrix per MDP, for products with values."""
        states, actions = self.num_states, self.num_actions
        return self.transitions.reshape(*self.batch, states * actions, states)


def _array(field: str, value: Any) -> Any:
    try:
        return np.asarray(value, float)
    except (TypeError, ValueError):
        raise UserError(f"{field}: must be an array of numbers") from None


def _discount(gamma: Any) -> float:
    number = np.asarray(gamma)
    if number.shape or number.dtype.kind not in "fiu" or not 0 <= number < 1:
        raise UserError(f"gamma: {gamma!r} is not allowed: a number in [0, 1)")
    return float(number)


def random_generator(seed: Any) -> np.random.Generator:
    """Return the generator of a seed, or the generator given."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise UserError(
            f"seed: {seed!r} is not allowed: a whole number >= 0 or a numpy Generator"
        ) from None


def _place(at: Any) -> str:
    *batch, state, action = (int(i) for i in at)
    which = f"MDP {tuple(batch) if len(batch) > 1 else batch[0]}, " if batch else ""
    return f"{which}state {state}, action {action}"


def _at_least(name: str, value: int, least: int) -> None:
    if not isinstance(value, int | np.integer) or value < least:
        raise UserError(f"{name}: {value!r} is not allowed: a whole number >= {least}")


def _fits(states: int, actions: int, copies: int = 1) -> None:
    """Refuse what would not fit as dense arrays, before memory is asked for it."""
    gigabytes = 8 * copies * states * actions * states / 1e9
    if gigabytes > _LARGEST:
        raise UserError(
            f"mdp: {states} states x {actions} actions need {gigabytes:.0f} GB as dense arrays; "
            f"at most {_LARGEST} GB are allowed"
        )


def garnet(
    num_states: int = 20,
    num_actions: int = 4,
    *,
    branching: int = 3,
    gamma: float = 0.99,
    seed: int | np.random.Generator = 0,
    batch: tuple[int, ...] = (),
) -> MDP:
    """Build a random MDP (Garnet): every action leads to `branching` random states.

    The probabilities are the gaps between sorted uniform numbers, the rewards standard normal.
    """
    _at_least("num_states", num_states, 1)
    _at_least("num_actions", num_actions, 1)
    _at_least("branching", branching, 1)
    if branching > num_states:
        raise UserError(f"branching: {branching} is not allowed: 1 to {num_states}, the states")
    _fits(num_states, num_actions, int(np.prod(batch)))
    generator = random_generator(seed)
    shape = (*batch, num_states, num_actions)
    targets = np.argsort(generator.random((*shape, num_states)), axis=-1)[..., :branching]
    cuts = np.sort(generator.random((*shape, branching - 1)), axis=-1)
    zero, one = np.zeros((*shape, 1)), np.ones((*shape, 1))
    weights = np.diff(np.concatenate([zero, cuts, one], axis=-1), axis=-1)
    transitions = np.zeros((*shape, num_states))
    np.put_along_axis(transitions, targets, weights, axis=-1)
    rewards = generator.standard_normal(shape)
    return MDP(transitions, rewards, gamma, name=f"garnet {num_states} x {num_actions}")


def chain(length: int = 10, *, gamma: float = 0.99, slip: float = 0.1) -> MDP:
    """Build a chain: action 1 moves right, action 0 left; a move slips to the other side.

    Each step at the left end pays 0.1 for going left, and at the right end 1 for going right: the
    near small reward against the far large one. It starts at the left end.
    """
    _at_least("length", length, 2)
    if not 0 <= slip < 1:
        raise UserError(f"slip: {slip} is not allowed: a number in [0, 1)")
    _fits(length, 2)
    transitions = np.zeros((length, 2, length))
    rewards = np.zeros((length, 2))
    for state in range(length):
        left, right = max(state - 1, 0), min(state + 1, length - 1)
        transitions[state, 0, left] += 1 - slip
        transitions[state, 0, right] += slip
        transitions[state, 1, right] += 1 - slip
        transitions[state, 1, left] += slip
    rewards[0, 0], rewards[-1, 1] = 0.1, 1.0
    return MDP(transitions, rewards, gamma, initial=np.eye(length)[0], name=f"chain {length}")


def deepsea(size: int = 8, *, gamma: float = 0.99) -> MDP:
    """Build DeepSea, as the agents are trained on it: action 1 moves right, always.

    State row * size + column, then one terminal state. Each move right costs 0.01 / size, and the
    one from the last column pays 1: the best return is 0.99, by moving right in every row.
    """
    _at_least("size", size, 2)
    states, end = size * size + 1, size * size
    _fits(states, 2)
    transitions, rewards = np.zeros((states, 2, states)), np.zeros((states, 2))
    for row in range(size):
        for column in range(size):
            for action in (0, 1):
                moved = min(column + 1, size - 1) if action else max(column - 1, 0)
                following = (row + 1) * size + moved if row + 1 < size else end
                transitions[row * size + column, action, following] = 1
            treasure = 1.0 if column == size - 1 else 0.0
            rewards[row * size + column, 1] = treasure - 0.01 / size
    transitions[end, :, end] = 1
    start = np.eye(states)[0]
    seen = np.concatenate([np.eye(size * size), np.zeros((1, size * size))])
    return MDP(transitions, rewards, gamma, start, _only_last(states), seen, f"DeepSea {size}")


def _only_last(states: int) -> Bool[np.ndarray, "states"]:
    return np.arange(states) == states - 1


def catch(rows: int = 10, columns: int = 5, *, gamma: float = 0.99) -> MDP:
    """Build Catch, as the agents are trained on it: a falling ball, a paddle on the last row.

    Actions 0, 1, 2 move the paddle left, not at all, right. State
    (ball_row * columns + ball_column) * columns + paddle, for the rows above the paddle's, then one
    terminal state. Reaching the last row pays 1 if the paddle is below the ball, else -1.
    """
    _at_least("rows", rows, 2)
    _at_least("columns", columns, 1)
    end = (rows - 1) * columns * columns
    states = end + 1
    _fits(states, 3)
    transitions, rewards = np.zeros((states, 3, states)), np.zeros((states, 3))
    seen = np.zeros((states, rows, columns))

    def index(y: int, x: int, paddle: int) -> int:
        return (y * columns + x) * columns + paddle

    for y, x, paddle in np.ndindex(rows - 1, columns, columns):
        here = index(y, x, paddle)
        seen[here, y, x] = seen[here, rows - 1, paddle] = 1
        for action in range(3):
            moved = min(max(paddle + action - 1, 0), columns - 1)
            last = y + 1 == rows - 1
            transitions[here, action, end if last else index(y + 1, x, moved)] = 1
            rewards[here, action] = (1.0 if moved == x else -1.0) if last else 0.0
    transitions[end, :, end] = 1
    start = np.zeros(states)
    start[[index(0, x, columns // 2) for x in range(columns)]] = 1 / columns
    return MDP(
        transitions,
        rewards,
        gamma,
        start,
        _only_last(states),
        seen.reshape(states, -1),
        f"Catch {rows} x {columns}",
    )
