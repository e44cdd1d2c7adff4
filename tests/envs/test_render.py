"""Pictures of episodes: everything that moves is in every one of them, the last included."""

from dataclasses import dataclass

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import mirrorax
from mirrorax.cli import main
from mirrorax.envs.adapter import Environment, Step, make
from mirrorax.envs.boards import Catch, DeepSea
from mirrorax.envs.render import CAPTION, captioned, draw
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.record import record
from mirrorax.runs.settings import make_settings

INK, ACCENT = (40, 40, 40), (200, 80, 40)
PLACES = [(row, column) for row in range(3) for column in range(3)]
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


@dataclass(frozen=True)
class Dot(Environment):
    """A board whose memory is not its observation."""

    name = "Dot"
    num_actions, return_bounds, max_steps = 2, (0.0, 1.0), 9

    def reset(self, noise):
        return jnp.int32(4)

    def step(self, state, action, noise):
        return Step(state, jnp.float32(0), jnp.bool_(False), jnp.bool_(True))

    def remember(self, state):
        return state[None].astype(jnp.uint8)

    def observe(self, memory):
        return (jnp.arange(9) == memory[0]).astype(jnp.float32).reshape(3, 3, 1)


def test_a_board_is_drawn_from_the_observation_not_from_the_memory():
    pixels = np.asarray(draw(Dot(), np.array([4], np.uint8)))
    third = pixels.shape[0] // 3
    middles = [tuple(pixels[third // 2 + r * third, third // 2 + c * third]) for r, c in PLACES]
    assert [colour != PAPER for colour in middles] == [place == (1, 1) for place in PLACES]


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
    recorded = [image.crop((0, 0, image.width, image.height - CAPTION)) for image in recorded]
    for row, image in enumerate(recorded):
        ((found, _),) = where(cells(image, rows, columns)[0], piece)
        assert found == row
    assert where(cells(recorded[-1], rows, columns)[0], PAPER)


@pytest.mark.parametrize("name", ["Breakout-MinAtar", "Asterix-MinAtar", "Pong-misc"])
def test_a_board_of_channels_shows_what_is_on_it(name):
    """A cell is paper exactly where no channel is set; what differs in one cell differs there."""
    env = make(name)
    state = env.reset(np.array([1, 2], np.uint32))
    memory = np.asarray(env.remember(state))
    rows, columns, channels = env.observation_shape
    pixels = np.asarray(draw(env, memory))
    side = pixels.shape[0] // rows
    assert min(pixels.shape[:2]) >= 200
    shown = (pixels[side // 2 :: side, side // 2 :: side] != np.array(PAPER)).any(-1)
    expected = (memory.reshape(rows, columns, channels) > 0).any(-1)
    np.testing.assert_array_equal(shown, expected)
    assert expected.any()


def test_channels_have_different_colours():
    env = make("Breakout-MinAtar")
    colours = set()
    for channel in range(env.observation_shape[2]):
        board = np.zeros(env.observation_shape, np.uint8)
        board[3, 4, channel] = 1
        pixels = np.asarray(draw(env, board.ravel()))
        side = pixels.shape[0] // 10
        colours.add(tuple(pixels[3 * side + 1, 4 * side + 1].tolist()))
    assert len(colours) == env.observation_shape[2]


def test_the_car_is_drawn_where_it_is():
    env = make("MountainCar-v0")
    places = []
    for x in (-1.0, -0.5, 0.3):
        pixels = np.asarray(draw(env, np.array([x, 0.0])))
        rows, columns = np.nonzero((pixels == np.array(ACCENT)).all(-1))
        places.append((columns.mean() / pixels.shape[1], rows.mean()))
    np.testing.assert_allclose(
        [(x + 1.2) / 1.8 for x in (-1.0, -0.5, 0.3)], [p[0] for p in places], atol=0.01
    )
    assert places[1][1] == max(p[1] for p in places)  # the bottom of the valley is near -0.5


class Counting(gymnasium.Env):
    """Ends after five steps, pays 2 for each, and renders the number of steps as brightness."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012
    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)

    def __init__(self, render_mode=None, broken=False):
        self.render_mode, self.broken, self.count = render_mode, broken, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.full(1, self.count, np.float32), 2.0, self.count == 5, False, {}

    def render(self):
        if self.broken:
            raise RuntimeError("no\ndisplay")
        return np.full((40, 300, 3), 10 * self.count, np.uint8)


gymnasium.register("mirrorax/Counting-v0", entry_point=Counting, max_episode_steps=50)


def test_what_gymnasium_renders_is_recorded_with_the_return_below():
    program = make_program(make_settings(environment="gymnasium:mirrorax/Counting-v0", hidden=(4,)))
    policy = np.zeros(program.actor.num_parameters, np.float32)
    frames = [np.asarray(f) for f in record(program, policy, np.array([0, 0], np.uint32), True)]
    assert [frame[0, 0, 0] for frame in frames] == [0, 10, 20, 30, 40, 50]
    assert frames[0].shape == (40 + CAPTION, 300, 3)
    expected = [
        captioned(Image.new("RGB", (300, 40)), f"step {t}   return {2 * t}") for t in range(6)
    ]
    for frame, image in zip(frames, expected, strict=True):
        np.testing.assert_array_equal(frame[40:], np.asarray(image)[40:])


def test_where_nothing_can_be_drawn_the_table_still_comes(tmp_path, capsys):
    name = "gymnasium:mirrorax/Counting-v0(broken=True)"
    mirrorax.train(name, seeds=1, steps=512, hidden=(4,), batch_size=16).save(tmp_path / "run")
    assert main(["play", str(tmp_path / "run"), "--gif", str(tmp_path / "a.gif")]) == 2
    said = capsys.readouterr()
    assert "10 episodes each" in said.out
    assert said.err.count("\n") == 1
    assert "--gif: " in said.err
    assert "cannot be drawn: RuntimeError: no display" in said.err
    assert not (tmp_path / "a.gif").exists()


def test_a_long_episode_keeps_its_first_and_last_picture(monkeypatch):
    monkeypatch.setattr("mirrorax.mdpo.record.MOST_FRAMES", 3)
    program = make_program(make_settings(environment="gymnasium:mirrorax/Counting-v0", hidden=(4,)))
    policy = np.zeros(program.actor.num_parameters, np.float32)
    frames = record(program, policy, np.array([0, 0], np.uint32), True)
    assert [np.asarray(frame)[0, 0, 0] for frame in frames] == [0, 20, 40, 50]
