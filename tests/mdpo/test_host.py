"""Gymnasium's environments: its flags and final observations, in the same trainer."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import mirrorax
from mirrorax.envs import adapter, suite
from mirrorax.envs.host import Gymnasium, Hosted
from mirrorax.errors import UserError
from mirrorax.mdpo import host, replay
from mirrorax.mdpo.program import as_keys, make_program
from mirrorax.mdpo.session import Session, train_chunk
from mirrorax.mdpo.train import evaluate
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings
from mirrorax.spec.study import parse
from mirrorax.store import load
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engine import InlineEngine


class Counter(gymnasium.Env):
    """Counts steps; odd episodes are truncated after 3 steps, even ones terminate after 4.

    The observation is (episode, step, action taken), so that every transition can be recognised.
    """

    observation_space = spaces.Box(-1.0, 1e6, (3,), np.float32)
    action_space = spaces.Discrete(2, start=5)

    def __init__(self):
        self.episode = -1

    def _seen(self, action):
        return np.array([self.episode, self.step_, action], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.step_ = 0
        return self._seen(-1), {}

    def step(self, action):
        assert action in (5, 6)
        self.step_ += 1
        terminated = self.episode % 2 == 0 and self.step_ == 4
        truncated = self.episode % 2 == 1 and self.step_ == 3
        return self._seen(action), float(self.step_), terminated, truncated, {}


class Patience(gymnasium.Env):
    """Lasts as many steps as its seed says, 1 to 20, or until action 1; counts all steps taken."""

    observation_space = spaces.Box(-100.0, 100.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = self.first = int(self.np_random.integers(1, 21))
        return np.array([self.left, 0.0], np.float32), {}

    def step(self, action):
        type(self).taken += 1
        self.left -= 1
        reward = 0.1 * self.left + self.np_random.random()
        seen = np.array([self.left, self.np_random.normal()], np.float32)
        return seen, reward, bool(action == 1), self.left == 0, {}


class Faulty(gymnasium.Env):
    """Goes wrong in one method or another."""

    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, how):
        self.how, self.steps = how, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.how == "reset":
            raise KeyError("lost")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.how == "step" and self.steps == 3:
            return 1 / (self.steps - 3)
        shape = 3 if self.how == "shape" else 2
        return np.zeros(shape, np.float32), 0.0, self.steps % 5 == 0, False, {}


class Levers(gymnasium.Env):
    """One step: the lever shown must be pulled. Observations are labels that start at 3."""

    observation_space = spaces.Discrete(4, start=3)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = int(self.np_random.integers(4))
        return self.shown + 3, {}

    def step(self, action):
        return 3, float(action == self.shown), True, False, {}


class Nested(gymnasium.Env):
    """Observations in a dictionary."""

    observation_space = spaces.Dict(a=spaces.Discrete(3), b=spaces.Box(0.0, 1.0, (2,)))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"a": 2, "b": np.array([0.25, 0.5], np.float32)}, {}

    def step(self, action):
        return self.reset()[0], 1.0, True, False, {}


class Picture(gymnasium.Env):
    """Observations of bytes, in a picture; without end."""

    observation_space = spaces.Box(0, 255, (4, 5, 2), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((4, 5, 2), 51, np.uint8), {}

    def step(self, action):
        return np.full((4, 5, 2), 255, np.uint8), 0.0, False, False, {}


@pytest.fixture(autouse=True)
def registered():
    made = {
        "MxCounter-v0": (Counter, None),
        "MxLevers-v0": (Levers, 5),
        "MxPatience-v0": (Patience, None),
        "MxFaulty-v0": (Faulty, None),
        "MxNested-v0": (Nested, 5),
        "MxPicture-v0": (Picture, 7),
    }
    for name, (cls, limit) in made.items():
        gymnasium.register(name, entry_point=cls, max_episode_steps=limit)
    yield
    for name in made:
        del gymnasium.registry[name]


SMALL = {"num_envs": 2, "env_steps_per_update": 12, "batch_size": 8, "buffer_size": 100}


def test_flags_and_final_observations_are_what_gymnasium_defines():
    env = Hosted(adapter.make("gymnasium:MxCounter-v0"))
    for episode in range(5):
        length = 3 if episode % 2 else 4
        assert env.reset(0).tolist() == [episode, 0, -1]
        for step in range(1, length + 1):
            found = env.step(step % 2)
            # Where it led, also at the end of an episode; actions are counted from `start`.
            assert found.state.tolist() == [episode, step, 5 + step % 2]
            assert found.reward == step
            last = step == length
            assert found.terminated == (last and episode % 2 == 0)
            assert found.truncated == (last and episode % 2 == 1)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_what_is_remembered_are_the_transitions_and_whether_a_value_follows(bootstrap):
    settings = make_settings(
        environment="gymnasium:MxCounter-v0", bootstrap_truncation=bootstrap, **SMALL
    )
    program = make_program(settings)
    keys = np.array([[1, 2]], np.uint32)
    session = Session(make_chunk(settings, {}, 2, keys), program=program)
    session.advance(3)
    rows = np.asarray(session._state.buffer)[:18, 0].reshape(36, -1)  # one lane, two environments
    batch = replay.unpack(program.env, jnp.asarray(rows))
    before, after = np.asarray(batch.observation).T, np.asarray(batch.next_observation).T
    np.testing.assert_array_equal(before[:, 0], after[:, 0])  # never across two episodes
    np.testing.assert_array_equal(after[:, 1], before[:, 1] + 1)
    np.testing.assert_array_equal(after[:, 2], 5 + np.asarray(batch.action))
    np.testing.assert_array_equal(batch.reward, after[:, 1])
    even = before[:, 0] % 2 == 0
    ends = np.where(even, after[:, 1] == 4, after[:, 1] == 3)
    stops = ends & even if bootstrap else ends
    np.testing.assert_array_equal(np.asarray(batch.follows), 1.0 - stops)
    np.testing.assert_array_equal(np.asarray(batch.ended), ends)
    assert ends[even].any()
    assert ends[~even].any()
    # Each environment goes through its episodes without a gap.
    for first in range(2):
        times = before[first::2, 1]
        assert times[0] == 0
        np.testing.assert_array_equal(times[1:], np.where(ends[first::2], 0, times + 1)[:-1])


def test_labels_are_seen_one_hot_and_a_small_task_is_learned():
    env = adapter.make("gymnasium:MxLevers-v0")
    assert (env.memory_size, env.memory_dtype, env.observation_size) == (1, "uint8", 4)
    assert [env.flat(np.array(label)).tolist() for label in (3, 6)] == [[0], [3]]
    np.testing.assert_array_equal(env.observe(jnp.array([3], jnp.uint8)), [0, 0, 0, 1])
    result = mirrorax.train("gymnasium:MxLevers-v0", steps=12_800, seeds=2, lanes=2, alpha=0.001)
    assert result.bounds_source == "estimated"
    low, high = result.return_bounds
    # A random policy pulls the right lever once in four: 100 pulls, four standard errors.
    assert abs(low - 0.25) < 4 * (0.25 * 0.75 / 100) ** 0.5
    assert (high, result.greedy_returns.mean()) == (1.0, 1.0)


def test_other_observations_are_flattened_or_scaled():
    nested = adapter.make("gymnasium:MxNested-v0")
    memory = Hosted(nested).reset(0)
    np.testing.assert_allclose(nested.observe(jnp.asarray(memory)), [0, 0, 1, 0.25, 0.5])
    picture = adapter.make("gymnasium:MxPicture-v0")
    assert picture.observation_shape == (4, 5, 2)
    assert (picture.memory_dtype, picture.max_steps) == ("uint8", 7)
    env = Hosted(picture)
    np.testing.assert_allclose(picture.observe(jnp.asarray(env.reset(0))), 0.2)
    for step in range(7):
        found = env.step(0)
        assert found.truncated == (step == 6)
    np.testing.assert_allclose(picture.observe(jnp.asarray(found.state)), 1.0)
    np.testing.assert_allclose(picture.observe(jnp.asarray(env.reset())), 0.2)


@pytest.mark.optimised
def test_a_run_depends_on_its_key_alone_and_can_be_cut_anywhere():
    settings = make_settings(environment="gymnasium:CartPole-v1", steps=72, **SMALL)
    keys = np.array([[1, 2], [3, 4]], np.uint32)
    columns = {"lam": [0.1, 1.0]}
    both = train_chunk(make_chunk(settings, columns, 2, keys))
    alone = train_chunk(make_chunk(settings, {"lam": [1.0]}, 2, keys[1:]))
    np.testing.assert_array_equal(both.returns[1], alone.returns[0])
    np.testing.assert_array_equal(both.greedy_returns[1], alone.greedy_returns[0])
    whole, pieces = (Session(make_chunk(settings, columns, 2, keys)) for _ in range(2))
    whole.advance(6)
    for _ in range(3):
        pieces.advance(2)
    np.testing.assert_array_equal(whole.policies, pieces.policies)
    first = Session(make_chunk(settings, columns, 2, keys))
    first.advance(2)
    second = first.select([1])
    first.advance(4)
    second.advance(4)
    np.testing.assert_array_equal(first.policies[1], second.policies[0])
    np.testing.assert_array_equal(first.policies, whole.policies)


def test_the_same_policy_earns_the_same_in_gymnasiums_cartpole_and_in_ours():
    """A linear controller that brings the cart back to the middle balances to the end in both."""
    ours = make_program(make_settings(environment="CartPole", hidden=()))
    theirs = make_program(make_settings(environment="gymnasium:CartPole-v1", hidden=()))
    assert ours.actor.shapes == theirs.actor.shapes
    gains = np.array([1.0, 2.0, 30.0, 8.0])
    weights = np.stack([-gains, gains])
    actor = jnp.asarray(np.concatenate([weights.ravel(), np.zeros(2)]).astype(np.float32))
    keys = np.array([[5, 6]], np.uint32)
    scale = jnp.ones(1)
    _, compiled = evaluate(ours, 8, actor[None], as_keys(keys), scale)
    _, hosted = host.evaluate(theirs, 8, actor[None], keys, as_keys(keys), scale)
    assert np.asarray(compiled).tolist() == [[500.0] * 8]
    assert hosted.tolist() == [[500.0] * 8]


def test_episodes_that_have_ended_are_not_stepped_on_and_returns_are_those_of_the_vector_api():
    """The oracle steps all environments to the end of the last episode, through `SyncVectorEnv`."""
    program = make_program(make_settings(environment="gymnasium:MxPatience-v0", hidden=(3,)))
    keys = np.array([[5, 6], [7, 8]], np.uint32)
    jax_keys, scale = as_keys(keys), jnp.ones(2)
    actors = jnp.asarray(
        np.random.default_rng(0).normal(size=(2, program.actor.num_parameters)), jnp.float32
    )
    Patience.taken = 0
    returns, greedy = host.evaluate(program, 6, actors, keys, jax_keys, scale)
    taken, lengths = Patience.taken, 0
    for run in range(2):
        vector = gymnasium.vector.SyncVectorEnv(
            [program.env.make] * 12, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP
        )
        memory, _ = vector.reset(seed=host._seeds(keys[run], host._EVALUATION, 12).tolist())
        total, running = np.zeros(12), np.ones(12, bool)
        t = 0
        while running.any():
            chosen = host._evaluation_actions(
                program, 6, actors[run], jax_keys[run], jnp.asarray(memory), jnp.int32(t)
            )
            lengths += running.sum()
            memory, reward, terminated, truncated, _ = vector.step(np.asarray(chosen))
            total += np.where(running, reward.astype(np.float32), 0.0)
            running &= ~(terminated | truncated)
            t += 1
        np.testing.assert_array_equal(np.concatenate([returns[run], greedy[run]]), total)
    assert taken == lengths
    assert len(set(returns.ravel())) > 6


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("gymnasium:CartPole", "an id of its registry with its version"),
        ("gymnasium:os:Env-v0", "an id of its registry"),
        ("gymnasium:a/b/Env-v0", "an id of its registry"),
        ("gymnasium:GymV26Environment-v0(env_id='os Env-v0')", "an id of its registry"),
        ("gymnasium:CartPole-v1(render_mode='a.b:c')", "letters, digits, spaces"),
        ("gymnasium:CartPole-v1(render_mode='../x')", "letters, digits, spaces"),
        ("gymnasium:CartPole-v1(render_mode=print)", "named plain values"),
        ("gymnasium:CartPole-v1(a=[1])", "named plain values"),
        ("gymnasium:Nothing-v0", "Gymnasium has no 'Nothing-v0' in its registry"),
        ("gymnasium:CartPol-v1", "did you mean 'CartPole-v1'"),
        ("gymnasium:Pendulum-v1", "only discrete ones work"),
        ("gymnasium:CartPole-v1(3)", "named plain values"),
        ("gymnasium:CartPole-v1(speed=3)", "Gymnasium cannot make"),
    ],
)
def test_what_cannot_be_made_is_one_line(name, reason):
    with pytest.raises(UserError, match=reason) as error:
        adapter.make(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("reset", "reset: KeyError: 'lost' (test_host.py, line "),
        ("step", "step: ZeroDivisionError: division by zero (test_host.py, line "),
        ("shape", "step: "),
    ],
)
def test_what_an_environment_raises_is_one_line_that_names_it(how, said):
    name = f"gymnasium:MxFaulty-v0(how={how!r})"
    settings = make_settings(environment=name, steps=24, **SMALL)
    with pytest.raises(UserError) as error:
        Session(make_chunk(settings, {}, 1, np.array([[1, 2]], np.uint32))).advance(1)
    assert str(error.value).startswith(f"environment: {name!r}: {said}")
    assert "\n" not in str(error.value)


def test_names_keep_their_one_spelling():
    name = "gymnasium:FrozenLake-v1(is_slippery=False)"
    assert suite.environment("gymnasium:FrozenLake-v1(is_slippery = False)").name == name
    assert suite.environment(name).bounds == (0.0, 1.0)
    assert suite.environment("gymnasium:LunarLander-v3").bounds is None
    env = adapter.make(name)
    assert isinstance(env, Gymnasium)
    assert env.name == name
    assert (env.num_actions, env.observation_size, env.max_steps) == (4, 16, 100)


def test_a_session_on_the_host_is_not_saved_but_goes_on(tmp_path):
    settings = make_settings(environment="gymnasium:CartPole-v1", steps=24, **SMALL)
    session = Session(make_chunk(settings, {}, 1, np.array([[1, 2]], np.uint32)))
    with pytest.raises(UserError, match="cannot be saved"):
        session.save(tmp_path / "x.npz")
    other = session.select(range(session.runs))
    session.advance(2)
    other.advance(2)
    np.testing.assert_array_equal(session.policies, other.policies)


def test_it_is_swept_like_any_other(tmp_path):
    study = parse(
        'environments = ["gymnasium:CartPole-v1", "gymnasium:MxLevers-v0"]\n'
        'pairs = [["entropy", "kl"]]\nalpha = [0.01, 0.1]\nlam = 1.0\nseeds = 1\nsteps = 24\n'
        "num_envs = 2\nenv_steps_per_update = 12\nbatch_size = 8\nbuffer_size = 100\n"
    )
    engine = lambda _: InlineEngine(train_chunk)  # noqa: E731
    summary = run_study(study, tmp_path / "store", engine=engine, lanes=2)
    assert (summary.done, summary.failed) == (4, 0)
    table = load(tmp_path / "store", "all")
    rows = {(row["environment"], row["alpha"]): row for row in table.to_pylist()}
    assert rows["gymnasium:CartPole-v1", 0.1]["bounds_source"] == "known"
    assert rows["gymnasium:MxLevers-v0", 0.1]["bounds_source"] == "estimated"
    assert rows["gymnasium:MxLevers-v0", 0.1]["return_max"] is None
    assert len(rows["gymnasium:CartPole-v1", 0.01]["returns"]) == 10
    assert {row["gymnasium_version"] for row in rows.values()} == {gymnasium.__version__}


def test_under_a_name_of_ones_own_it_has_ones_own_bounds_and_the_same_runs():
    mirrorax.register_environment(
        "MxOwnLevers", lambda: Gymnasium("MxLevers-v0", return_bounds=(0.25, 1.0))
    )
    assert adapter.make("MxOwnLevers").return_bounds == (0.25, 1.0)
    keys = np.array([[1, 2]], np.uint32)
    own, theirs = (
        train_chunk(make_chunk(make_settings(environment=name, steps=24, **SMALL), {}, 1, keys))
        for name in ("MxOwnLevers", "gymnasium:MxLevers-v0")
    )
    np.testing.assert_array_equal(own.returns, theirs.returns)
    assert own.bounds == (0.25, 1.0)
    for outcome in (own, theirs):
        assert outcome.provenance["gymnasium_version"] == gymnasium.__version__


def test_other_temperatures_make_other_policies_without_compiling_anew():
    """Temperatures are data here too: other ones do not compile anew."""
    settings = make_settings(environment="gymnasium:CartPole-v1", hidden=(3,), **SMALL)
    keys = np.array([[1, 2]], np.uint32)
    program = make_program(settings)
    compiled = host._learn._cache_size()
    policies = []
    for alpha in (0.1, 5.0):
        session = Session(make_chunk(settings, {"alpha": [alpha]}, 1, keys), program=program)
        session.advance(2)
        policies.append(session.policies)
    assert host._learn._cache_size() == compiled + 1
    assert not np.array_equal(*policies)


def test_it_learns_on_policy_from_its_last_rollout():
    """Levers are pulled as shown; a run depends on its key, not on where it is cut."""
    fields = {"env_steps_per_update": 64, "num_envs": 8, "batch_size": 32, "hidden": (16,)}
    settings = make_settings(
        environment="gymnasium:MxLevers-v0",
        algorithm="on_policy",
        drift="ppo_clip(0.2)",
        steps=6400,
        **fields,
    )
    columns = {"alpha": [0.01, 0.01], "lam": [1.0, 1.0], "actor_lr": [0.01, 0.01]}
    keys = np.array([[1, 2], [3, 4]], np.uint32)
    whole, cut = (Session(make_chunk(settings, columns, 2, keys)) for _ in range(2))
    whole.run()
    cut.run(until=37)
    cut.run()
    np.testing.assert_array_equal(whole.policies, cut.policies)
    assert whole.evaluate()[1].mean() > 0.9
