"""Pictures of the environments that can be drawn, from what they remember of a state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from mirrorax.envs.adapter import Task
from mirrorax.envs.boards import Catch, DeepSea
from mirrorax.envs.physics import Acrobot, CartPole
from mirrorax.errors import UserError

_SIZE = 240
_INK, _PAPER, _ACCENT = (40, 40, 40), (250, 250, 250), (200, 80, 40)
_GOLD, _FLOOR = (240, 205, 90), (195, 205, 215)

Colour = tuple[int, int, int]


def _board(
    rows: int,
    columns: int,
    cells: dict[tuple[int, int], Colour],
    piece: tuple[int, int],
    colour: Colour,
) -> Any:
    """Draw a board with coloured cells, and a round piece that leaves its cell's colour visible."""
    cell = max(4, _SIZE // max(rows, columns))
    image = Image.new("RGB", (columns * cell + 1, rows * cell + 1), _PAPER)
    pen = ImageDraw.Draw(image)
    for row in range(rows):
        for column in range(columns):
            corner = (column * cell, row * cell)
            box = (*corner, corner[0] + cell, corner[1] + cell)
            pen.rectangle(box, fill=cells.get((row, column)), outline=(215, 215, 215))
    top, left = piece[0] * cell, piece[1] * cell
    inset = cell / 5
    pen.ellipse((left + inset, top + inset, left + cell - inset, top + cell - inset), fill=colour)
    return image


def _deep_sea(size: int, row: int, column: int, reward: float) -> Any:
    """Draw the sea, and below it the floor on which a dive ends.

    The treasure lies in the last cell of the sea. A diver who goes right from there gets it, and
    is drawn on gold; one who arrives below it from elsewhere does not.
    """
    cells = {(size, each): _FLOOR for each in range(size)}
    has_treasure = row == size and reward > 0
    cells[(row, column) if has_treasure else (size - 1, size - 1)] = _GOLD
    return _board(size + 1, size, cells, (row, column), _INK)


def _cart_pole(memory: np.ndarray) -> Any:
    x, theta = float(memory[0]), float(memory[2])
    image = Image.new("RGB", (_SIZE, _SIZE // 2 + 40), _PAPER)
    pen = ImageDraw.Draw(image)
    ground = _SIZE // 2 + 10
    centre = _SIZE / 2 + x / 2.4 * (_SIZE / 2 - 20)
    pen.line((0, ground, _SIZE, ground), fill=_INK)
    pen.rectangle((centre - 18, ground - 12, centre + 18, ground), fill=_INK)
    tip = (centre + 100 * math.sin(theta), ground - 12 - 100 * math.cos(theta))
    pen.line((centre, ground - 12, *tip), fill=_ACCENT, width=5)
    return image


def _acrobot(memory: np.ndarray) -> Any:
    cosine1, sine1, cosine2, sine2 = (float(value) for value in memory[:4])
    image = Image.new("RGB", (_SIZE, _SIZE), _PAPER)
    pen = ImageDraw.Draw(image)
    middle, length = _SIZE / 2, _SIZE / 4.6
    # Angles are measured from straight down; the second from the direction of the first.
    elbow = (middle + length * sine1, middle + length * cosine1)
    sine12, cosine12 = sine1 * cosine2 + cosine1 * sine2, cosine1 * cosine2 - sine1 * sine2
    tip = (elbow[0] + length * sine12, elbow[1] + length * cosine12)
    pen.line((0, middle - length, _SIZE, middle - length), fill=(180, 180, 180))
    pen.line((middle, middle, *elbow), fill=_INK, width=6)
    pen.line((*elbow, *tip), fill=_ACCENT, width=6)
    return image


def check_drawable(env: Task) -> None:
    """Refuse an environment of which there are no pictures."""
    if not isinstance(env, Catch | DeepSea | CartPole | Acrobot):
        raise UserError(f"gif: {env.name} cannot be drawn")


def frame_milliseconds(env: Task) -> int:
    """Return how long a picture is shown: a board's few moves are slower than physics."""
    return 250 if isinstance(env, Catch | DeepSea) else 60


def draw(env: Task, memory: np.ndarray, reward: float = 0.0) -> Any:
    """Draw one remembered state as an image; a `UserError` where there is no drawing.

    `reward` is that of the step which led there, the last state of an episode included.
    """
    check_drawable(env)
    match env:
        case Catch(rows=rows, columns=columns):
            ball_x, ball_y, paddle = map(int, memory)
            return _board(rows, columns, {(rows - 1, paddle): _INK}, (ball_y, ball_x), _ACCENT)
        case DeepSea(size=size):
            row, column = map(int, memory)
            return _deep_sea(size, row, column, reward)
        case CartPole():
            return _cart_pole(memory)
        case Acrobot():
            return _acrobot(memory)
        case _:
            raise AssertionError(env)
