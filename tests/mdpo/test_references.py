"""A saved policy as a reference: found by its folder, known by its content, learned towards."""

from __future__ import annotations

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mirrorax
from mirrorax.cli import main
from mirrorax.errors import UserError
from mirrorax.mdpo.program import make_program
from mirrorax.mdpo.references import find
from mirrorax.mdpo.replay import Batch
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.update import actor_loss, critic_target
from mirrorax.regularizers import potential
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

FIELDS = {
    "env": "Catch(4x3)",
    "algorithm": "on_policy",
    "hidden": (16,),
    "num_envs": 4,
    "env_steps_per_update": 64,
    "batch_size": 32,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of two short runs."""
    out = tmp_path_factory.mktemp("reference") / "base"
    flags = "--hidden 16 --num-envs 4 --env-steps-per-update 64 --batch-size 32 --steps 640"
    words = f"train --env Catch(4x3) --algorithm on_policy --seeds 2 --lanes 2 --quiet {flags}"
    assert main([*words.split(), "--out", str(out)]) == 0
    return out


def settings_of(folder, **fields):
    more = {"environment": FIELDS["env"], "potential": "to(policy, kl)", "reference": str(folder)}
    rest = {name: value for name, value in FIELDS.items() if name != "env"}
    return make_settings(**{**rest, **more, **fields})


def test_a_run_is_known_by_the_policy_and_not_by_its_folder(folder, tmp_path):
    first, second = (settings_of(f"{folder}{run}") for run in ("", "#1"))
    assert first.reference.startswith(f"{folder}#0@")
    moved = tmp_path / "elsewhere"
    shutil.copytree(folder, moved)
    same = settings_of(moved)
    chunks = [make_chunk(s, {"seed": [0]}) for s in (first, second, same)]
    ids, keys = [c.ids.tolist() for c in chunks], [c.keys.tolist() for c in chunks]
    assert ids[0] == ids[2] != ids[1]
    assert keys[0] == keys[2] != keys[1]
    # Read again, a setting must mean the same policy.
    assert settings_of(first.reference) == first
    with pytest.raises(UserError, match="holds another policy"):
        settings_of(first.reference.replace("#0@", "#1@"))


def test_a_strong_pull_keeps_the_policy_and_a_weak_one_lets_it_go(folder):
    """A run starts at the reference; the larger alpha, the nearer it ends."""
    result = mirrorax.train(
        potential="to(policy, kl)",
        reference=str(folder),
        drift="kl",
        alpha=[0.0, 100.0],
        seeds=1,
        steps=6400,
        lanes=2,
        **FIELDS,
    )
    policy, _ = find(result.settings.reference)
    start = np.frombuffer(policy.parameters, np.float32)
    program = make_program(result.settings)
    session = Session(make_chunk(result.settings, {"seed": [0]}, 1), program=program)
    np.testing.assert_array_equal(session.policies[0], start)
    x = jnp.asarray(np.random.default_rng(0).random((12, 50)), jnp.float32)
    mu = jax.nn.softmax(policy.logits(x), axis=0)
    near = [
        float(jnp.abs(jax.nn.softmax(program.actor(jnp.asarray(p), x), axis=0) - mu).mean())
        for p in result.policies
    ]
    assert near[1] < 0.2 * near[0]


def test_off_policy_the_pull_is_in_the_actor_and_in_the_targets(folder):
    """At the reference itself h is zero everywhere, so alpha changes nothing in the targets."""
    settings = make_settings(
        environment=FIELDS["env"],
        potential="to(policy, forward_kl)",
        reference=str(folder),
        hidden=(16,),
        num_envs=4,
        env_steps_per_update=16,
        batch_size=24,
        buffer_size=400,
        steps=160,
    )
    session = Session(make_chunk(settings, {"alpha": [0.0, 5.0], "lam": [0.1, 0.1]}, 2))
    session.run()
    assert np.isfinite(session.policies).all()
    assert np.abs(session.policies[0] - session.policies[1]).max() > 1e-4


def test_to_the_uniform_policy_by_kl_a_target_is_that_of_entropy_and_a_constant():
    rng = np.random.default_rng(2)
    next_logits, next_q, logits = jnp.asarray(rng.normal(size=(3, 4, 7)), jnp.float32)
    reward, follows = (
        jnp.asarray(rng.normal(size=7), jnp.float32),
        jnp.asarray([1.0, 0.0] * 3 + [1]),
    )
    empty = jnp.zeros((1, 7))
    batch = Batch(empty, jnp.zeros(7, jnp.int32), reward, empty, follows, follows == 0)
    settings = make_settings(environment="Catch")
    ours, theirs = (
        critic_target(settings, potential(name), batch, next_logits, next_q, logits, 0.3, 0.9, 1.0)
        for name in ("to(uniform, kl)", "entropy")
    )
    np.testing.assert_allclose(theirs - ours, 0.9 * 0.3 * np.log(4) * follows, atol=1e-5)
    old = jnp.asarray(rng.normal(size=(4, 7)), jnp.float32)

    def slope(name):
        def loss(x):
            pair = potential(name), mirrorax.drift("kl")
            return actor_loss(x, old, next_q, 0.3, 0.5, *pair)[0]

        return jax.grad(loss)(logits)

    np.testing.assert_allclose(slope("to(uniform, kl)"), slope("entropy"), atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"potential": "entropy"}, "belongs to the potential to(policy, d), not to 'entropy'"),
        (
            {"reference": ""},
            "potential: 'to(policy, kl)' needs a saved policy: reference",
        ),
        ({"reference": "nowhere"}, "reference: 'nowhere' holds no policies.npz"),
        ({"run": 7}, "has the runs 0 to 1, not 7"),
    ],
)
def test_mistakes_are_one_line(folder, fields, message):
    run = fields.pop("run", None)
    where = folder if run is None else f"{folder}#{run}"
    with pytest.raises(UserError) as error:
        settings_of(where, **fields)
    assert message in str(error.value)


def test_the_policy_must_fit_the_task(folder):
    with pytest.raises(UserError, match=r"a policy for Catch\(4x3\) cannot act in CartPole"):
        make_program(settings_of(folder, environment="CartPole"))


def test_a_damaged_file_is_refused(folder, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "policies.npz").write_bytes((folder / "policies.npz").read_bytes()[:-100])
    with pytest.raises(UserError, match="not a readable checkpoint"):
        settings_of(broken)
