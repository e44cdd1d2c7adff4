"""Catch and DeepSea, bsuite's two boards, written for the trainer's contract.

The same transitions as gymnax 1.0.1 (checked step by step in the tests), without its random numbers
at every step. A state is remembered as two or three bytes; the board is drawn from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt8

from mirrorax.envs import suite
from mirrorax.envs.adapter import Environment, Noise, Step, integer


class CatchState(NamedTuple):
    """Where the ball and the paddle are; the paddle stays in the last row."""

    ball_x: Int[Array, ""]
    ball_y: Int[Array, ""]
    paddle_x: Int[Array, ""]


@dataclass(frozen=True)
class Catch(Environment):
    """A ball falls one row a step; the paddle must be under it in the last row: +1 or -1."""

    rows: int = 10
    columns: int = 5

    num_actions = 3  # left, stay, right
    return_bounds = suite.environment("Catch").bounds
    reset_words = 1

    @property
    def name(self) -> str:  # type: ignore[override]
        """The suite's name for this size."""
        return suite.environment(f"Catch({self.rows}x{self.columns})").name

    @property
    def max_steps(self) -> int:  # type: ignore[override]
        """The ball needs this many steps to fall."""
        return self.rows - 1

    @property
    def memory_bounds(self) -> tuple[int, int, int]:  # type: ignore[override]
        """Of the ball's column, its row, and the paddle's column."""
        return self.columns, self.rows, self.columns

    def reset(self, noise: Noise) -> CatchState:
        """Put the ball in a random column of the first row, the paddle in the middle."""
        middle = jnp.int32(self.columns // 2)
        return CatchState(integer(noise[0], self.columns), jnp.int32(0), middle)

    def step(self, state: CatchState, action: Int[Array, ""], noise: Noise) -> Step:
        """Move the paddle, drop the ball."""
        del noise
        paddle = jnp.clip(state.paddle_x + action - 1, 0, self.columns - 1)
        ball_y = state.ball_y + 1
        terminated = ball_y == self.rows - 1
        reward = jnp.where(terminated, jnp.where(paddle == state.ball_x, 1.0, -1.0), 0.0)
        return Step(
            CatchState(state.ball_x, ball_y, paddle), reward, terminated, jnp.zeros_like(terminated)
        )

    def remember(self, state: CatchState) -> UInt8[Array, "3"]:
        """Return the three coordinates."""
        return jnp.stack([*state]).astype(jnp.uint8)

    def observe(self, memory: UInt8[Array, "3"]) -> Float[Array, " cells"]:
        """Return the board: one at the ball and at the paddle."""
        ball_x, ball_y, paddle_x = (memory[i].astype(jnp.int32) for i in range(3))
        cells = jnp.arange(self.rows * self.columns)
        ball = cells == ball_y * self.columns + ball_x
        paddle = cells == (self.rows - 1) * self.columns + paddle_x
        return (ball | paddle).astype(jnp.float32)


class DeepSeaState(NamedTuple):
    """The diver's place."""

    row: Int[Array, ""]
    column: Int[Array, ""]


@dataclass(frozen=True)
class DeepSea(Environment):
    """Dive `size` rows; only going right at every step finds the treasure, and each right costs.

    Action 1 always moves right (gymnax's `randomize_actions=False`), as in the paper. The largest
    return is 1 - 0.01 = 0.99.
    """

    size: int = 8

    num_actions = 2
    return_bounds = suite.environment("DeepSea").bounds

    @property
    def name(self) -> str:  # type: ignore[override]
        """The suite's name for this size."""
        return suite.environment(f"DeepSea({self.size})").name

    @property
    def max_steps(self) -> int:  # type: ignore[override]
        """An episode has exactly this many steps."""
        return self.size

    @property
    def memory_bounds(self) -> tuple[int, int]:  # type: ignore[override]
        """Of the row, which may be the one below the last, and the column."""
        return self.size + 1, self.size

    def reset(self, noise: Noise) -> DeepSeaState:
        """Start in the upper left corner."""
        del noise
        return DeepSeaState(jnp.int32(0), jnp.int32(0))

    def step(self, state: DeepSeaState, action: Int[Array, ""], noise: Noise) -> Step:
        """Go down, and right (action 1) or left (action 0)."""
        del noise
        right = action == 1
        treasure = right & (state.column == self.size - 1)
        reward = treasure.astype(jnp.float32) - jnp.where(right, 0.01 / self.size, 0.0)
        column = jnp.clip(jnp.where(right, state.column + 1, state.column - 1), 0, self.size - 1)
        row = state.row + 1
        # The last row ends the task; it is the time limit too, and termination is what counts.
        bottom = row == self.size
        return Step(DeepSeaState(row, column), reward, bottom, bottom)

    def remember(self, state: DeepSeaState) -> UInt8[Array, "2"]:
        """Return the two coordinates."""
        return jnp.stack([*state]).astype(jnp.uint8)

    def observe(self, memory: UInt8[Array, "2"]) -> Float[Array, " cells"]:
        """Return one at the diver's cell; all zero below the last row."""
        row, column = (memory[i].astype(jnp.int32) for i in range(2))
        return (jnp.arange(self.size**2) == row * self.size + column).astype(jnp.float32)
