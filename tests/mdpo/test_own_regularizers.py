"""Training with a user's own h and D, by name and as objects."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrorax
from mirrorax.errors import UserError
from mirrorax.regularizers.functions import FunctionDrift, FunctionPotential
from mirrorax.training import train

TINY = {
    "num_envs": 4,
    "env_steps_per_update": 16,
    "batch_size": 32,
    "buffer_size": 640,
    "hidden": (8,),
    "eval_episodes": 3,
    "lanes": 2,
}
#: the policy that the potential of the next test wants
WANTED = np.array([0.6, 0.3, 0.1])


def negative_entropy(p):
    return (p * jnp.log(p)).sum()


def squared_distance(p, q):
    return ((p - q) ** 2).sum()


def off_target(p):
    return ((p - jnp.asarray(WANTED, p.dtype)) ** 2).sum()


def test_they_train_as_the_built_in_ones_that_they_equal(monkeypatch):
    """h by its name and D as an object: the same policies to rounding, from the same numbers."""
    # The random numbers follow from the names, which differ here.
    keys = np.array([[1, 0], [1, 1]], np.uint32)
    monkeypatch.setattr("mirrorax.runs.chunk.run_keys", lambda *_: keys)
    mirrorax.register_potential("own_entropy", negative_entropy)
    distance = mirrorax.register_drift("own_distance", squared_distance)
    fields = {"alpha": 0.3, "lam": 2.0, "seeds": 2, "steps": 16 * 4, **TINY}
    own = train("Catch(4x3)", "own_entropy", distance, **fields)
    built_in = train("Catch(4x3)", "entropy", "bregman(lp(2))", **fields)
    assert (own.settings.potential, own.settings.drift) == ("own_entropy", "own_distance")
    np.testing.assert_allclose(own.policies, built_in.policies, atol=2e-5)
    other = train("Catch(4x3)", "entropy", "zero", **fields)
    assert np.abs(own.policies - other.policies).max() > 1e-3


def test_a_strong_potential_of_ones_own_decides_the_policy():
    """With a large alpha the policy is the minimiser of h, here one that no built-in h has."""
    h = mirrorax.register_potential("off_target", off_target)
    result = train("Catch(4x3)", h, "bregman(off_target)", alpha=100, lam=1, steps=16 * 400, **TINY)
    session = result.sessions[0]
    seen = jax.random.bernoulli(jax.random.key(0), 0.2, (12, 50)).astype(jnp.float32)
    for policy in result.policies[:2]:
        p = jax.nn.softmax(session.program.actor(jnp.asarray(policy), seen), axis=0)
        np.testing.assert_allclose(np.asarray(p).mean(1), WANTED, atol=0.05)


def test_a_plain_function_is_told_how_to_get_a_name():
    hint = r"give it a name with mirrorax\.register_drift$"
    with pytest.raises(UserError, match=hint):
        mirrorax.train("Catch", drift=lambda p, q: ((p - q) ** 2).sum())


def test_an_object_without_a_registered_name_is_told_how_to_get_one():
    for kind, given in (
        ("potential", FunctionPotential("nobody_knows", negative_entropy)),
        ("drift", FunctionDrift("nobody_knows", squared_distance)),
    ):
        message = f"^{kind}: 'nobody_knows' is not registered; .*mirrorax.register_{kind}"
        with pytest.raises(UserError, match=message):
            train("Catch", **{kind: given})
