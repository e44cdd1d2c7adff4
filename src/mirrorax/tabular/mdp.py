"""A finite MDP as arrays, validated, and builders for the ones that theory and tests use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from mirrorax.errors import UserError, shown
from mirrorax.formatting import Shown, check_whole
from mirrorax.tabular.inputs import numbers, random_generator

_TOLERANCE = 1e-9
_LARGEST = 4  # GB: the largest array of transitions that a builder makes


@dataclass(frozen=True, eq=False, repr=False)
class MDP(Shown):
    """A finite MDP, or a batch of MDPs of one size on leading axes.

    Attributes:
        transitions: p(s' | s, a), shape [..., states, actions, states]; rows sum to one.
        rewards: the expected reward r(s, a), shape [..., states, actions].
        gamma: the discount factor, in [0, 1).
        initial: the distribution of the first state, shape [..., states]; uniform if not given.
        terminal: states where an episode has ended, shape [..., states]: their value is zero, and
            their rows of `transitions` and `rewards` are ignored. No state if not given.
        observations: what an agent observes in each state, shape [states, size], or None.
        name: its name in tables and on plots.
    """

    transitions: Float64[np.ndarray, "*batch states actions states"]
    rewards: Float64[np.ndarray, "*batch states actions"]
    gamma: float
    initial: Float64[np.ndarray, "*batch states"] = None  # type: ignore[assignment]
    terminal: Bool[np.ndarray, "*batch states"] = None  # type: ignore[assignment]
    observations: Float64[np.ndarray, "states size"] | None = None
    name: str = "mdp"

    def __post_init__(self) -> None:
        transitions = numbers("transitions", self.transitions)
        # Rows in single precision sum to one only up to its rounding: they are normalised.
        if getattr(self.transitions, "dtype", None) in (np.float32, np.float16):
            total = transitions.sum(-1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                close = np.abs(total - 1) <= 1e-6
                transitions = np.where(close, transitions / total, transitions)
        shape = transitions.shape
        if len(shape) < 3 or shape[-1] != shape[-3] or 0 in shape:
            raise UserError(
                f"transitions: shape {shape} is not allowed: [..., states, actions, states]"
            )
        states = (*shape[:-3], shape[-1])
        start = np.full(states, 1 / shape[-1]) if self.initial is None else self.initial
        end = np.zeros(states) if self.terminal is None else self.terminal
        fields = {
            "transitions": (transitions, shape),
            "rewards": (numbers("rewards", self.rewards), shape[:-1]),
            "gamma": (_discount(self.gamma), ()),
            "initial": (numbers("initial", start), states),
            "terminal": (np.asarray(end, bool), states),
        }
        for name, (value, expected) in fields.items():
            if np.shape(value) != expected:
                raise UserError(
                    f"{name}: shape {np.shape(value)} is not allowed: with transitions of shape "
                    f"{shape} it must be {expected}"
                )
            object.__setattr__(self, name, value)
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
    def matrix(self) -> Float64[np.ndarray, "*batch pairs states"]:
        """The transitions as one matrix per MDP, for products with values."""
        states, actions = self.num_states, self.num_actions
        return self.transitions.reshape(*self.batch, states * actions, states)


def check_mdp(mdp: object) -> None:
    """Refuse what is not an `MDP`."""
    if not isinstance(mdp, MDP):
        raise UserError(f"mdp: {shown(mdp)} is not an MDP, such as mirrorax.tabular.deepsea(8)")


def _discount(gamma: Any) -> float:
    number = np.asarray(gamma)
    if number.shape or number.dtype.kind not in "fiu" or not 0 <= number < 1:
        raise UserError(f"gamma: {gamma!r} is not allowed: a number in [0, 1)")
    return float(number)


def _place(at: Any) -> str:
    *batch, state, action = (int(i) for i in at)
    which = f"MDP {tuple(batch) if len(batch) > 1 else batch[0]}, " if batch else ""
    return f"{which}state {state}, action {action}"


def _fits(states: int, actions: int, copies: int = 1) -> None:
    """Refuse an MDP that is too large for dense arrays, before memory is allocated."""
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
    check_whole("num_states", num_states, 1)
    check_whole("num_actions", num_actions, 1)
    check_whole("branching", branching, 1)
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

    The first state is the left end. There each step to the left pays 0.1; at the right end each
    step to the right pays 1: a small reward that is near against a large one that is far.
    """
    check_whole("length", length, 2)
    if not 0 <= slip < 1:
        raise UserError(f"slip: {slip} is not allowed: a number in [0, 1)")
    _fits(length, 2)
    transitions = np.zeros((length, 2, length))
    rewards = np.zeros((length, 2))
    states = np.arange(length)
    left, right = np.maximum(states - 1, 0), np.minimum(states + 1, length - 1)
    for action, (ahead, behind) in enumerate([(left, right), (right, left)]):
        transitions[states, action, ahead] = 1 - slip
        transitions[states, action, behind] = slip
    rewards[0, 0], rewards[-1, 1] = 0.1, 1.0
    return MDP(transitions, rewards, gamma, initial=np.eye(length)[0], name=f"chain {length}")


def _episode(
    following: Int[np.ndarray, "states actions"],
    rewards: Float64[np.ndarray, "states actions"],
    start: Float64[np.ndarray, "states"],
    seen: Float64[np.ndarray, "states size"],
    gamma: float,
    name: str,
) -> MDP:
    """Build an MDP with the next states `following`; the state after the last one is terminal."""
    states, actions = rewards.shape
    transitions = np.zeros((states + 1, actions, states + 1))
    transitions[np.arange(states)[:, None], np.arange(actions), following] = 1
    transitions[-1, :, -1] = 1
    more = [np.concatenate([x, np.zeros_like(x[:1])]) for x in (rewards, start, seen)]
    return MDP(transitions, more[0], gamma, more[1], np.arange(states + 1) == states, more[2], name)


def deepsea(size: int = 8, *, gamma: float = 0.99) -> MDP:
    """Build DeepSea, the same environment as in training: action 1 always moves right.

    State row * size + column, then one terminal state. Each move right costs 0.01 / size, and a
    move right in the last column pays 1. The best return is 0.99, by moving right in every row.
    """
    check_whole("size", size, 2)
    states = size * size
    _fits(states + 1, 2)
    row, column = np.divmod(np.arange(states), size)
    moved = np.clip(column[:, None] + [-1, 1], 0, size - 1)
    following = np.minimum((row[:, None] + 1) * size + moved, states)
    right = (column == size - 1) - 0.01 / size
    rewards = np.stack([np.zeros(states), right], axis=-1)
    seen = np.eye(states)
    return _episode(following, rewards, seen[0], seen, gamma, f"DeepSea {size}")


def catch(rows: int = 10, columns: int = 5, *, gamma: float = 0.99) -> MDP:
    """Build Catch, the same environment as in training: a falling ball, a paddle on the last row.

    Actions 0, 1, 2 move the paddle left, not at all, right. State
    (ball_row * columns + ball_column) * columns + paddle, for the rows above the paddle's, then one
    terminal state. Reaching the last row pays 1 if the paddle is below the ball, else -1.
    """
    check_whole("rows", rows, 2)
    check_whole("columns", columns, 1)
    states = (rows - 1) * columns * columns
    _fits(states + 1, 3)
    y, x, paddle = (a.ravel() for a in np.indices((rows - 1, columns, columns)))
    moved = np.clip(paddle[:, None] + [-1, 0, 1], 0, columns - 1)
    following = np.minimum(((y + 1) * columns + x)[:, None] * columns + moved, states)
    caught = np.where(moved == x[:, None], 1.0, -1.0)
    rewards = np.where((y == rows - 2)[:, None], caught, 0.0)
    start = np.where((y == 0) & (paddle == columns // 2), 1 / columns, 0.0)
    board = np.zeros((states, rows, columns))
    board[np.arange(states), y, x] = board[np.arange(states), -1, paddle] = 1
    seen = board.reshape(states, -1)
    return _episode(following, rewards, start, seen, gamma, f"Catch {rows} x {columns}")
