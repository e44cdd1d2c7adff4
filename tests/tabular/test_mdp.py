"""MDPs: validation that points at the fault, and builders checked against gymnax."""

from __future__ import annotations

import dataclasses
from functools import partial

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.tabular import MDP, catch, chain, deepsea, garnet
from mirrorax.tabular.mdp import check_mdp


@pytest.mark.parametrize("value", ["deepsea", 3, None])
def test_what_is_not_an_mdp_is_refused(value):
    with pytest.raises(UserError, match=f"^mdp: {value!r} is not an MDP, such as "):
        check_mdp(value)


def valid():
    mdp = garnet(4, 3, seed=1)
    return mdp.transitions.copy(), mdp.rewards.copy()


def test_a_row_that_does_not_sum_to_one_is_named():
    p, r = valid()
    p[2, 1] *= 0.5
    with pytest.raises(UserError, match=r"transitions: state 2, action 1: the row sums to 0\.5"):
        MDP(p, r, 0.9)


def test_a_negative_or_nan_probability_is_named():
    p, r = valid()
    p[3, 0, 1] = -0.25
    with pytest.raises(UserError, match=r"state 3, action 0: the row has the entry -0\.25"):
        MDP(p, r, 0.9)
    p[3, 0, 1] = np.nan
    with pytest.raises(UserError, match="state 3, action 0: the row has the entry nan"):
        MDP(p, r, 0.9)


def test_in_a_batch_the_mdp_is_named_too():
    mdp = garnet(3, 2, batch=(4,))
    p = mdp.transitions.copy()
    p[2, 1, 0] = 0.7
    with pytest.raises(UserError, match="MDP 2, state 1, action 0"):
        MDP(p, mdp.rewards, 0.9)


def test_rewards_gamma_and_shapes():
    p, r = valid()
    bad = r.copy()
    bad[1, 2] = np.inf
    with pytest.raises(UserError, match="rewards: state 1, action 2: inf"):
        MDP(p, bad, 0.9)
    for gamma in (1.0, -0.1, float("nan")):
        with pytest.raises(UserError, match=rf"gamma: {gamma} is not allowed: .*\[0, 1\)"):
            MDP(p, r, gamma)
    with pytest.raises(UserError, match=r"rewards: shape \(3, 4\)"):
        MDP(p, r.T, 0.9)
    with pytest.raises(UserError, match=r"transitions: shape \(4, 3, 3\)"):
        MDP(p[..., :3], r, 0.9)
    with pytest.raises(UserError, match=r"terminal: shape \(3,\)"):
        MDP(p, r, 0.9, terminal=np.zeros(3, bool))
    with pytest.raises(UserError, match="initial"):
        MDP(p, r, 0.9, initial=np.full(4, 0.5))
    with pytest.raises(UserError, match=r"transitions: .* is not allowed: numbers"):
        MDP([["a"]], r, 0.9)
    with pytest.raises(UserError, match=r"gamma: '0\.9' is not allowed"):
        MDP(p, r, "0.9")


def test_single_precision_probabilities_are_normalised():
    p, r = valid()
    mdp = MDP(p.astype(np.float32), r, 0.9)
    np.testing.assert_allclose(mdp.transitions.sum(-1), 1, rtol=1e-15)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: garnet(4, 2, branching=5), "branching: 5"),
        (lambda: garnet(0, 2), "num_states: 0"),
        (lambda: chain(1), "length: 1"),
        (lambda: chain(slip=1.0), "slip: 1.0"),
        (lambda: deepsea(1), "size: 1"),
        (lambda: deepsea(2.5), r"size: 2\.5"),
        (lambda: garnet(seed=-1), "seed: -1"),
        (lambda: catch(1, 5), "rows: 1"),
        (lambda: deepsea(300), "GB as dense arrays"),
    ],
)
def test_builders_refuse_what_makes_no_mdp(build, message):
    with pytest.raises(UserError, match=message):
        build()


def test_garnet_is_a_function_of_its_seed():
    one, two, other = garnet(seed=3), garnet(seed=3), garnet(seed=4)
    np.testing.assert_array_equal(one.transitions, two.transitions)
    assert (one.rewards != other.rewards).all()
    assert ((one.transitions > 0).sum(-1) == 3).all()


def test_chain_by_hand():
    mdp = chain(3, slip=0.2)
    np.testing.assert_allclose(mdp.transitions[1, 1], [0.2, 0, 0.8])
    np.testing.assert_allclose(mdp.transitions[0, 0], [0.8, 0.2, 0])
    np.testing.assert_allclose(mdp.transitions[2, 1], [0, 0.2, 0.8])
    np.testing.assert_allclose(mdp.rewards, [[0.1, 0], [0, 0], [0, 1]])


def step_everything(env, params, states, actions):
    """Step every (state, action) of gymnax at once; returns obs, reward, terminated."""

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None))
    @partial(jax.vmap, in_axes=(None, 0))
    def step(state, action):
        seen, after, reward, *_ = env.step_env(jax.random.key(0), state, action, params)
        return seen, reward, env.is_terminated(after, params)

    return step(states, jnp.arange(actions))


def compare(mdp, observation, reward, terminated):
    """The one successor of each pair, seen as an observation, its reward and its end."""
    states = mdp.num_states - 1  # all but the terminal one
    following = mdp.transitions[:states].argmax(-1)
    assert (mdp.transitions[:states].max(-1) == 1).all()
    np.testing.assert_allclose(mdp.rewards[:states], reward, atol=1e-7)
    np.testing.assert_array_equal(mdp.terminal[following], terminated)
    seen = np.asarray(observation).reshape(states, mdp.num_actions, -1)
    ongoing = ~np.asarray(terminated)
    np.testing.assert_array_equal(mdp.observations[following][ongoing], seen[ongoing])


def test_deepsea_is_gymnaxs_in_every_state_and_action():
    size = 8
    env = gymnax.environments.bsuite.deep_sea.DeepSea(size=size)
    params = env.default_params.replace(randomize_actions=False)
    observation, first = env.reset_env(jax.random.key(0), params)
    rows, columns = map(jnp.asarray, np.divmod(np.arange(size * size), size))
    states = jax.vmap(lambda r, c: first.replace(row=r, column=c, time=r))(rows, columns)
    observation_after, reward, terminated = step_everything(env, params, states, 2)
    mdp = deepsea(size)
    compare(mdp, observation_after, reward, terminated)
    start = int(mdp.initial.argmax())
    assert mdp.initial[start] == 1
    np.testing.assert_array_equal(mdp.observations[start], np.asarray(observation).ravel())


def test_catch_is_gymnaxs_in_every_state_and_action():
    rows, columns = 10, 5
    env = gymnax.environments.bsuite.catch.Catch(rows=rows, columns=columns)
    params = env.default_params
    _, first = env.reset_env(jax.random.key(0), params)
    y, x, paddle = (
        jnp.asarray(a.ravel(), jnp.int32)
        for a in np.meshgrid(
            np.arange(rows - 1), np.arange(columns), np.arange(columns), indexing="ij"
        )
    )
    states = jax.vmap(lambda y, x, p: first.replace(ball_y=y, ball_x=x, paddle_x=p, time=y))(
        y, x, paddle
    )
    mdp = catch(rows, columns)
    seen = jax.vmap(env.get_obs)(states)
    np.testing.assert_array_equal(mdp.observations[:-1], np.asarray(seen).reshape(len(y), -1))
    compare(mdp, *step_everything(env, params, states, 3))
    keys = jax.random.split(jax.random.key(0), 200)
    first_seen = jax.jit(jax.vmap(lambda key: env.reset_env(key, params)[0]))(keys)
    starts = {tuple(each.ravel()) for each in np.asarray(first_seen)}
    ours = {tuple(mdp.observations[s]) for s in np.flatnonzero(mdp.initial)}
    assert starts == ours


def test_terminal_rows_are_ignored():
    mdp = deepsea(3)
    rewards = mdp.rewards.copy()
    rewards[-1] = 100.0
    from mirrorax.tabular import evaluate, uniform_policy

    changed = dataclasses.replace(mdp, rewards=rewards)
    pi = uniform_policy(mdp)
    np.testing.assert_array_equal(
        evaluate(changed, pi, "entropy", 0.3).v, evaluate(mdp, pi, "entropy", 0.3).v
    )
