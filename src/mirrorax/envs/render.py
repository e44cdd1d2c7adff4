"""Pictures of the environments that can be drawn, from what they remember of a state."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mirrorax.envs.adapter import Gymnax, Task
from mirrorax.envs.boards import Catch, DeepSea
from mirrorax.envs.physics import Acrobot, CartPole
from mirrorax.errors import UserError

_SIZE = 400
CAPTION = 26  # pixels of height
_NARROWEST = 200  # of a picture with its caption
_INK, _PAPER, _ACCENT = (40, 40, 40), (250, 250, 250), (200, 80, 40)
_GOLD, _FLOOR = (240, 205, 90), (195, 205, 215)

#: of the channels of a MinAtar board
_CHANNELS = (
    *((40, 40, 40), (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)),
    *((230, 159, 0), (86, 180, 233), (136, 34, 85), (153, 153, 51), (130, 130, 130)),
)
_MOST_CHANNELS = len(_CHANNELS)

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
    pen.rectangle((centre - 28, ground - 18, centre + 28, ground), fill=_INK)
    tip = (centre + 160 * math.sin(theta), ground - 18 - 160 * math.cos(theta))
    pen.line((centre, ground - 18, *tip), fill=_ACCENT, width=8)
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
    pen.line((middle, middle, *elbow), fill=_INK, width=9)
    pen.line((*elbow, *tip), fill=_ACCENT, width=9)
    return image


def _mountain_car(memory: np.ndarray) -> Any:
    """Draw the valley y = sin 3x from -1.2 to 0.6, the flag at 0.5, and the car."""
    image = Image.new("RGB", (_SIZE, _SIZE // 2 + 40), _PAPER)
    pen = ImageDraw.Draw(image)

    def at(x: float) -> tuple[float, float]:
        return (x + 1.2) / 1.8 * _SIZE, 0.55 * _SIZE - 0.2 * _SIZE * (1 + math.sin(3 * x))

    pen.line([at(x) for x in np.linspace(-1.2, 0.6, 80)], fill=_INK, width=2)
    x, y = at(0.5)
    pen.line((x, y, x, y - 40), fill=_INK, width=2)
    pen.polygon([(x, y - 40), (x + 16, y - 34), (x, y - 28)], fill=_GOLD)
    x, y = at(float(memory[0]))
    pen.ellipse((x - 9, y - 18, x + 9, y), fill=_ACCENT)
    return image


def _channels(memory: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Draw an observation of rows x columns x channels: each channel has a colour, later on top."""
    rows, columns, channels = shape
    values = np.asarray(memory, float).reshape(shape)
    colours = np.array([_CHANNELS[k % len(_CHANNELS)] for k in range(channels)], np.uint8)
    last = channels - 1 - np.argmax(values[..., ::-1] > 0, axis=-1)
    filled = np.asarray(values.max(axis=-1, keepdims=True) > 0)
    pixels = np.where(filled, colours[last], np.array(_PAPER, np.uint8))
    side = max(2, _SIZE // max(rows, columns))
    large = (columns * side, rows * side)
    image = Image.fromarray(pixels).resize(large, Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(image)
    for k in range(max(rows, columns) if side >= 16 else 0):  # so that bricks are told apart
        pen.line((k * side, 0, k * side, large[1]), fill=_PAPER)
        pen.line((0, k * side, large[0], k * side), fill=_PAPER)
    return image


def cannot_draw(env: Task, reason: str = "") -> UserError:
    """Return the error for what cannot be drawn."""
    return UserError(f"gif: {env.name} cannot be drawn" + (f": {reason}" if reason else ""))


def frame_milliseconds(env: Task) -> int:
    """Return how long a picture is shown: a board's few moves are slower than physics."""
    if isinstance(env, Catch | DeepSea):
        return 250
    return 100 if len(env.observation_shape) == 3 else 60


def draw(env: Task, memory: np.ndarray, reward: float = 0.0) -> Any:
    """Draw one remembered state as an image; a `UserError` where there is no drawing.

    `reward` is that of the step which led there, the last state of an episode included.
    """
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
        case Gymnax(name="MountainCar-v0"):
            return _mountain_car(memory)
        case _ if len(env.observation_shape) == 3 and env.observation_shape[2] <= _MOST_CHANNELS:
            return _channels(np.asarray(env.observe(jnp.asarray(memory))), env.observation_shape)
        case _:
            raise cannot_draw(env)


def captioned(image: Any, text: str) -> Any:
    """Return the image with a line of text below it, at least as wide as the text needs."""
    width = max(image.width, _NARROWEST)
    out = Image.new("RGB", (width, image.height + CAPTION), _PAPER)
    out.paste(image, ((width - image.width) // 2, 0))
    font = ImageFont.load_default(size=15)
    ImageDraw.Draw(out).text((8, image.height + 4), text, fill=_INK, font=font)
    return out
