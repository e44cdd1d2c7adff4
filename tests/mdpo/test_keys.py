"""The random numbers of evaluation are none of training's."""

import jax
import numpy as np
import pytest

from mirrorax.mdpo.program import as_keys
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.train import evaluate, evaluation_keys, purpose
from mirrorax.runs.chunk import make_chunk

#: the longest run in which no update has the number that evaluation has always folded in
LONGEST = 32_343


def words(keys):
    return np.asarray(jax.random.key_data(keys))


@pytest.mark.parametrize("updates", [1, 244, 3906, LONGEST - 1, LONGEST])
def test_runs_that_were_always_apart_keep_their_keys(updates, some_keys):
    """Published results are of such runs: not a bit of them may change."""
    keys = as_keys(some_keys(3))
    before = jax.vmap(lambda key: jax.random.fold_in(key, 0x7E57))(keys)
    np.testing.assert_array_equal(words(evaluation_keys(keys, updates)), words(before))


@pytest.mark.parametrize("updates", [1, LONGEST, LONGEST + 1, LONGEST + 2, 10**6, 2**31 - 1])
def test_no_update_of_a_run_has_the_number_of_its_evaluation(updates):
    assert not 0 <= purpose(updates) < updates
    assert 0 <= purpose(updates) < 2**32


def test_the_keys_of_a_long_run_are_those_of_none_of_its_updates(some_keys):
    updates = LONGEST + 2
    (key,) = as_keys(some_keys(1))
    training = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, np.arange(updates))
    ours = words(evaluation_keys(key[None], updates))[0]
    assert not (words(training) == ours).all(1).any()
    # The old key is among them: what this is about.
    old = words(jax.random.fold_in(key, 0x7E57))
    assert np.flatnonzero((words(training) == old).all(1)).tolist() == [LONGEST]


@pytest.mark.parametrize("updates", [LONGEST, LONGEST + 1])
def test_a_session_evaluates_with_the_keys_of_its_length(small, some_keys, updates):
    session = Session(make_chunk(small(steps=16 * updates), {}, 2, some_keys(2)))
    state, scale = session._state.learner.actor, session._values.reward_scale
    found = session.evaluate(64)
    own, other = (
        evaluate(session.program, 64, state, evaluation_keys(session._keys, length), scale)
        for length in (updates, {LONGEST: 2 * LONGEST, LONGEST + 1: 1}[updates])
    )
    for ours, theirs, not_theirs in zip(found, own, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert not np.array_equal(ours, not_theirs)
