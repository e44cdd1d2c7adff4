"""Pictures of episodes: everything that moves is in every one of them, the last included."""

import numpy as np
import pytest

from mirrorax.envs.boards import Catch, DeepSea
from mirrorax.envs.render import draw
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.record import record
from mirrorax.runs.settings import make_settings

INK, ACCENT = (40, 40, 40), (200, 80, 40)
GOLD, FLOOR, PAPER = (240, 205, 90), (195, 205, 215), (250, 250, 250)


def cells(image, rows, columns):
    """Return the colours at the middle and near the corner of every cell, both [rows, columns]."""
    pixels = np.asarray(image)
    side = (pixels.shape[0] - 1) // rows
    assert pixels.shape == (rows * side + 1, columns * side + 1, 3)

    def at(offset):
        found = pixels[offset : rows * side : side, offset : columns * side : side]
        return np.array([[tuple(cell) for cell in row] for row in found.tolist()], "i,i,i")

    return at(side // 2), at(2)


def where(colours, colour):
    return list(zip(*np.nonzero(colours == np.array(colour, "i,i,i")), strict=True))


def path(actions):
    """Return the cells of a dive from the upper left corner, by the rules in words."""
    size, column, found = len(actions), 0, [(0, 0)]
    for row, right in enumerate(actions):
        column = min(max(column + (1 if right else -1), 0), size - 1)
        found.append((row + 1, column))
    return found


@pytest.mark.parametrize(
    ("actions", "treasure"),
    [
        ([1, 1, 1, 1, 1], True),
        ([1, 1, 1, 1, 0], False),
        ([0, 0, 0, 0, 0], False),
        # Ends below the treasure without having been there.
        ([0, 1, 1, 1, 1], False),
    ],
)
def test_the_diver_is_in_every_picture_and_stands_on_the_floor_in_the_last(actions, treasure):
    env, size = DeepSea(5), 5
    state = env.reset(np.zeros(0, np.uint32))
    seen = [draw(env, np.asarray(env.remember(state)))]
    for action in actions:
        after = env.step(state, np.int32(action), np.zeros(0, np.uint32))
        state = after.state
        seen.append(draw(env, np.asarray(env.remember(state)), float(after.reward)))
    assert bool(after.terminated)
    for image, (row, column) in zip(seen, path(actions), strict=True):
        middles, corners = cells(image, size + 1, size)
        assert where(middles, INK) == [(row, column)]
        floor = [(size, each) for each in range(size)]
        if row == size and treasure:
            assert where(corners, GOLD) == [(size, size - 1)] == [(row, column)]
            floor.remove((row, column))
        else:
            assert where(corners, GOLD) == [(size - 1, size - 1)]
        assert where(corners, FLOOR) == floor


@pytest.mark.parametrize("ball", range(3))
def test_the_paddle_is_seen_under_the_ball_it_has_caught(ball):
    env = Catch(4, 3)
    for paddle in range(3):
        middles, corners = cells(draw(env, np.array([ball, 3, paddle], np.uint8)), 4, 3)
        assert where(middles, ACCENT) == [(3, ball)]
        assert where(corners, INK) == [(3, paddle)]


@pytest.mark.parametrize(("name", "frames"), [("DeepSea(5)", 6), ("Catch(4x3)", 4)])
def test_a_recorded_episode_ends_with_its_last_state(name, frames):
    program = make_program(make_settings(environment=name, hidden=(4,)))
    policy = np.zeros(program.actor.num_parameters, np.float32)
    recorded = record(program, policy, np.array([3, 4], np.uint32), greedy=False)
    assert len(recorded) == frames
    rows, columns = (6, 5) if name.startswith("DeepSea") else (4, 3)
    piece = INK if name.startswith("DeepSea") else ACCENT
    for row, image in enumerate(recorded):
        ((found, _),) = where(cells(image, rows, columns)[0], piece)
        assert found == row
    assert where(cells(recorded[-1], rows, columns)[0], PAPER)
