"""What an update reports, from plain numpy in float64; and what the schedules make of it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mirrorax.mdpo import replay, train
from mirrorax.mdpo.program import make_program, make_values
from mirrorax.mdpo.schedules import Clock
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.update import update
from mirrorax.runs.chunk import make_chunk

ALPHA, LAM, GAMMA, SCALE = 0.3, 0.7, 0.9, 2.0


@pytest.fixture(scope="module")
def scene(small, make_rows):
    """Make the first update of a lane: what it started from, came to and reports."""

    def make(**fields):
        settings = small(
            eval_every=1, potential="lp(2)", drift="kl", initialization="uniform", **fields
        )
        program = make_program(settings)
        rng = np.random.default_rng(5)
        given = {"alpha": ALPHA, "lam": LAM, "gamma": GAMMA, "reward_scale": SCALE, "w": 0.4}
        columns = make_values({name: [value] for name, value in given.items()}, 1)
        values = jax.tree.map(lambda x: x[0], columns)
        state = train.init_state(program, np.array([[1, 2]], np.uint32), columns)
        learner = jax.tree.map(lambda x: x[0], state.learner)
        draw = lambda: program.actor.init(rng)  # noqa: E731
        learner = learner._replace(
            actor=jnp.asarray(3 * draw()),
            critics=jnp.stack([draw(), draw()]),
            targets=jnp.stack([draw(), draw()]),
        )
        rows = make_rows(program.env, settings.batch_size, np.random.default_rng(6))
        clock = Clock(jnp.int32(0), jnp.int32(9))
        new, seen = jax.jit(update, static_argnums=0)(program, learner, rows, values, clock)
        return program, learner, replay.unpack(program.env, rows), new, seen

    return make


def probabilities(program, actor, x):
    logits = np.asarray(program.actor(actor, x), float)
    p = np.exp(logits - logits.max(0))
    return p / p.sum(0)


def values_of(program, critics, x):
    return np.stack([np.asarray(program.critic(critic, x), float) for critic in critics])


def test_what_an_update_reports_is_what_it_says(scene):
    program, learner, batch, new, seen = scene()
    seen = {name: float(value) for name, value in seen.items()}
    x, y = batch.observation, batch.next_observation
    # The policy after the first of the two steps is that of an update of one step.
    _, _, _, half, first = scene(actor_epochs=1)
    old, between = (probabilities(program, actor, x) for actor in (learner.actor, half.actor))
    assert np.abs(between - old).max() > 1e-3
    assert seen["entropy"] == pytest.approx(-(old * np.log(old)).sum(0).mean(), rel=1e-5)
    assert seen["h"] == pytest.approx((old**2).sum(0).mean(), rel=1e-5)
    kl = (between * np.log(between / old)).sum(0).mean()
    assert seen["drift"] == pytest.approx(kl, rel=1e-2)
    assert float(first["drift"]) == pytest.approx(0, abs=1e-7)
    assert (seen["alpha"], seen["lam"]) == (np.float32(ALPHA), np.float32(LAM))

    q = values_of(program, learner.critics, x)
    taken = np.take_along_axis(q, np.asarray(batch.action)[None, None], axis=1)[:, 0]
    assert seen["mean_q"] == pytest.approx(taken.mean(), rel=1e-4)
    loss = -(between * q.min(0)).sum(0).mean() + ALPHA * (between**2).sum(0).mean() + LAM * kl
    assert seen["actor_loss"] == pytest.approx(loss, rel=1e-4)
    after = probabilities(program, new.actor, y)
    next_q = values_of(program, learner.targets, y).min(0)
    follows = GAMMA * np.asarray(batch.follows, float)
    value = (after * next_q).sum(0) - ALPHA * (after**2).sum(0)
    target = SCALE * np.asarray(batch.reward, float) + follows * value
    assert seen["critic_loss"] == pytest.approx(((taken - target) ** 2).mean(), rel=1e-4)

    def critics_loss(critics):
        found = jnp.stack([program.critic(critic, x) for critic in critics])
        at = jnp.take_along_axis(found, batch.action[None, None], axis=1)[:, 0]
        return jnp.sum(jnp.mean((at - jnp.asarray(target, jnp.float32)[None]) ** 2, axis=1))

    norm = np.linalg.norm(np.asarray(jax.grad(critics_loss)(learner.critics)))
    assert seen["critic_grad_norm"] == pytest.approx(norm, rel=1e-4)

    def actors_loss(actor):
        p = jax.nn.softmax(program.actor(actor, x), axis=0)
        mean_kl = jnp.mean(jnp.sum(p * (jnp.log(p) - jnp.log(jnp.asarray(old))), axis=0))
        mean_h = jnp.mean(jnp.sum(p**2, axis=0))
        best = jnp.asarray(q.min(0), jnp.float32)
        return -jnp.mean(jnp.sum(p * best, axis=0)) + ALPHA * mean_h + LAM * mean_kl

    norm = np.linalg.norm(np.asarray(jax.grad(actors_loss)(half.actor)))
    assert seen["actor_grad_norm"] == pytest.approx(norm, rel=1e-3)


def test_a_learned_alpha_looks_at_the_policy_of_the_start_on_the_updates_batch(scene):
    program, learner, batch, new, seen = scene(alpha_schedule="learned")
    old = probabilities(program, learner.actor, batch.observation)
    low, high = 1 / 3, 1.0  # of the sum of squares of three probabilities
    target = high - 0.4 * (high - low)
    # The slope of J(alpha) in log alpha, at alpha = 1; Adam's first moment is a tenth of it.
    slope = target - (old**2).sum(0).mean()
    assert float(new.alpha.adam.mu) == pytest.approx(0.1 * slope, rel=1e-4)
    assert float(new.alpha.log_alpha) == pytest.approx(-0.0025 * np.sign(slope), rel=1e-3)
    assert float(seen["alpha"]) == 1.0


@pytest.mark.parametrize(
    ("alpha", "lam"),
    [("linear", "constant"), ("learned", "linear"), ("learned_linear", "constant")],
)
def test_two_schedules_go_their_own_ways(small, some_keys, alpha, lam):
    settings = small(eval_every=1, steps=16 * 8, alpha_schedule=alpha, lam_schedule=lam)
    learned = alpha.startswith("learned")
    given = {"w": [0.2, 0.9]} if learned else {"alpha": [0.4, 0.2]}
    session = Session(make_chunk(settings, {**given, "lam": [8.0, 2.0]}, 2, some_keys(2)))
    session.run()
    assert session.diverged_at.tolist() == [-1, -1]
    curves = session.curve_arrays()
    left = 1 - np.arange(8) / 8
    expected = np.outer([8.0, 2.0], left if lam == "linear" else np.ones(8))
    np.testing.assert_allclose(curves["lam"], expected, rtol=1e-6)
    if not learned:
        expected = np.outer([0.4, 0.2], left if alpha == "linear" else np.ones(8))
        np.testing.assert_allclose(curves["alpha"], expected, rtol=1e-6)
        return
    # From log alpha = 0, one step of Adam after each update: down, where the policy is more random
    # than its target, or up.
    log_alpha = np.log(curves["alpha"])
    assert log_alpha[:, 0].tolist() == [0.0, 0.0]
    low, high = -np.log(3), 0.0
    w = np.outer([0.2, 0.9], left if alpha == "learned_linear" else np.ones(8))
    slopes = np.exp(log_alpha) * (high - w * (high - low) - curves["h"])
    first, second, moved = np.zeros(2), np.zeros(2), [np.zeros(2)]
    for k in range(7):
        first = 0.9 * first + 0.1 * slopes[:, k]
        second = 0.999 * second + 0.001 * slopes[:, k] ** 2
        step = (first / (1 - 0.9 ** (k + 1))) / (np.sqrt(second / (1 - 0.999 ** (k + 1))) + 1e-5)
        moved.append(moved[-1] - 0.0025 * step)
    np.testing.assert_allclose(log_alpha, np.stack(moved, axis=1), atol=1e-5)
