"""One update against independent implementations, and the special cases that must agree."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from mirrorax.mdpo import replay
from mirrorax.mdpo.program import make_program, make_values
from mirrorax.mdpo.schedules import Clock
from mirrorax.mdpo.update import actor_loss, critic_target, init_learner, update, update_on_batches
from mirrorax.regularizers import FunctionDrift, drift, potential


@pytest.fixture(scope="module")
def problem(small, make_rows):
    """Settings, a learner and a batch of replay rows on Catch(4x3)."""
    settings = small()
    program = make_program(settings)
    rng = np.random.default_rng(3)
    rows = make_rows(program.env, settings.batch_size, rng)
    uniform = make_program(small(initialization="uniform"))
    return settings, rows, lambda: jnp.asarray(uniform.actor.init(rng))


def learner_for(program, draw, values):
    critics, targets = (
        jnp.stack([draw() for _ in range(program.num_critics)]) for _ in ("critics", "targets")
    )
    return init_learner(program, draw(), critics, values)._replace(targets=targets)


def values_of(**columns):
    return jax.tree.map(lambda x: x[0], make_values({k: [v] for k, v in columns.items()}, 1))


update_once = jax.jit(update, static_argnums=0)


def one_update(program, learner, rows, values, k=0, total=10):
    clock = Clock(jnp.int32(k), jnp.int32(total))
    return update_once(program, learner, rows, values, clock)[0]


def discrete_sac(program, learner, batch, alpha, gamma, lr, updates, total=10):
    """Discrete Soft Actor-Critic, written with autodiff, optax and the batch first.

    Actor: E_s <pi, alpha log pi - min Q>. Critics: (Q_i(s, a) - y)^2,
    y = r + gamma (1 - d) <pi', min Q'_i - alpha log pi'>. Two actor steps, one critic step, unless
    the settings want it otherwise.
    """
    settings = program.settings
    net = lambda p, x: program.actor(p, x.T).T  # noqa: E731
    s, s_next = batch.observation.T, batch.next_observation.T
    adam = optax.scale_by_adam(eps=settings.adam_eps)
    clip = optax.clip_by_global_norm(settings.max_grad_norm)
    direction = optax.chain(clip, adam)
    least = lambda critics, x: jnp.min(jnp.stack([net(c, x) for c in critics]), axis=0)  # noqa: E731
    actor, critics, targets = learner.actor, list(learner.critics), list(learner.targets)
    actor_state = direction.init(actor)
    joint = settings.clipping == "joint"
    states = direction.init(critics) if joint else tuple(direction.init(c) for c in critics)

    @jax.jit
    def step(actor, critics, targets, actor_state, states, rate):
        q = least(critics, s)

        def actor_loss(p):
            logp = jax.nn.log_softmax(net(p, s))
            return jnp.mean(jnp.sum(jnp.exp(logp) * (alpha * logp - q), axis=1))

        for _ in range(settings.actor_epochs):
            way, actor_state = direction.update(jax.grad(actor_loss)(actor), actor_state)
            actor = actor - rate * way
        logp = jax.nn.log_softmax(net(actor, s_next))
        q_next = least(targets, s_next)
        v = jnp.sum(jnp.exp(logp) * (q_next - alpha * logp), axis=1)
        y = batch.reward + gamma * batch.follows * v

        def critic_loss(p):
            taken = jnp.take_along_axis(net(p, s), batch.action[:, None], axis=1)[:, 0]
            return jnp.mean((taken - y) ** 2)

        for _ in range(settings.critic_epochs):
            slopes = [jax.grad(critic_loss)(c) for c in critics]
            if joint:
                ways, states = direction.update(slopes, states)
            else:
                pairs = zip(slopes, states, strict=True)
                ways, states = zip(*(direction.update(g, t) for g, t in pairs), strict=True)
            critics = [c - rate * way for c, way in zip(critics, ways, strict=True)]
        mixed = zip(targets, critics, strict=True)
        targets = [settings.tau * t + (1 - settings.tau) * c for t, c in mixed]
        return actor, critics, targets, actor_state, states

    for k in range(updates):
        rate = lr * (1 - k / total) if settings.anneal_learning_rate else lr
        actor, critics, targets, actor_state, states = step(
            actor, critics, targets, actor_state, states, rate
        )
    return actor, jnp.stack(critics), jnp.stack(targets)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"clipping": "joint", "max_grad_norm": 0.1},
        {
            "twin_critics": False,
            "actor_epochs": 1,
            "anneal_learning_rate": True,
            "critic_epochs": 2,
        },
        {"tau": 0.3, "adam_eps": 1e-2, "max_grad_norm": 0.2, "actor_epochs": 3},
        {"batch_size": 64},  # more than the board has states: networks are asked once at each
    ],
    ids=lambda fields: ", ".join(fields) or "default",
)
def test_entropy_without_drift_is_discrete_sac(problem, fields):
    """Whatever the settings of the optimisation are; each of them does change the result."""
    settings, rows, draw = problem
    program = make_program(settings.model_copy(update=fields))
    values = values_of(alpha=0.3, lam=0.0, gamma=0.9, actor_lr=0.01, critic_lr=0.01)
    learner = learner_for(program, draw, values)
    found = learner
    for k in range(3):
        found = one_update(program, found, rows, values, k)
    batch = replay.unpack(program.env, rows)
    expected = discrete_sac(program, learner, batch, 0.3, 0.9, 0.01, 3)
    ours = found.actor, found.critics, found.targets
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-5)
    assert np.abs(found.actor - learner.actor).max() > 0.01
    assert (program.num_memories == 36) == ("batch_size" in fields)
    if fields.keys() - {"batch_size"} and len(learner.critics) == 2:
        plain = discrete_sac(make_program(settings), learner, batch, 0.3, 0.9, 0.01, 3)
        pairs = zip(ours, plain, strict=True)
        assert max(np.abs(one - other).max() for one, other in pairs) > 1e-4


@pytest.mark.parametrize("drift_from", ["batch", "update"])
def test_several_batches_are_several_updates(problem, make_rows, drift_from):
    """The drift is measured from the policy at the start of each batch, or of all of them."""
    settings, _, draw = problem
    fields = {"batches_per_update": 3, "drift_from": drift_from, "alpha_schedule": "learned"}
    program = make_program(settings.model_copy(update=fields))
    rng = np.random.default_rng(8)
    rows = jnp.stack([make_rows(program.env, settings.batch_size, rng) for _ in range(3)])
    values = values_of(w=0.5, lam=5.0, actor_lr=0.01)
    learner = expected = learner_for(program, draw, values)
    clock = Clock(jnp.int32(2), jnp.int32(10))
    for batch in rows:
        anchor = learner.actor if drift_from == "update" else expected.actor
        expected, _ = update_once(program, expected, batch, values, clock, anchor)
    several = jax.jit(update_on_batches, static_argnums=0)
    result, _ = several(program, learner, rows, values, clock)
    pairs = zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    if drift_from == "update":
        other, _ = several(
            make_program(program.settings.model_copy(update={"drift_from": "batch"})),
            learner,
            rows,
            values,
            clock,
        )
        assert np.abs(other.actor - result.actor).max() > 1e-3


def test_the_critics_forward_pass_serves_both_losses(problem):
    """They are written twice, and so is the actor at its old parameters; XLA computes each once."""
    settings, rows, draw = problem
    program = make_program(settings)
    values = values_of(alpha=0.2, lam=0.5)
    learner, clock = learner_for(program, draw, values), Clock(jnp.int32(0), jnp.int32(10))
    lowered = update_once.lower(program, learner, rows, values, clock)
    products = lowered.compile().as_text().count(" dot(")
    # Forward, 3 layers each: two epochs of the actor, the critics (batched, so one product), the
    # actor and the target critics at the next states. Backward, of each of two actor epochs and
    # one critic step: 3 gradients of weights, 3 of biases, 2 of inputs.
    assert 0 < products <= 3 * 5 + 3 * 8


@pytest.fixture(scope="module")
def scene():
    """Logits, old logits and values for a few states and five actions."""
    rng = np.random.default_rng(0)
    return [jnp.asarray(rng.standard_normal((5, 32)), jnp.float32) for _ in range(3)]


def actor_gradient(scene, h, d, alpha=0.2, lam=0.7):
    logits, old, q = scene
    loss = lambda x: actor_loss(x, old, q, alpha, lam, h, d)[0]  # noqa: E731
    return jax.grad(loss)(logits)


def test_bregman_of_entropy_is_kl(scene):
    h = potential("entropy")
    found = actor_gradient(scene, h, drift("bregman(entropy)"))
    np.testing.assert_allclose(found, actor_gradient(scene, h, drift("kl")), atol=1e-7)


def test_bregman_of_the_square_is_the_squared_distance(scene):
    h = potential("entropy")
    squared = FunctionDrift("squared_distance", lambda p, q: jnp.sum((p - q) ** 2))
    found = actor_gradient(scene, h, drift("bregman(lp(2))"))
    np.testing.assert_allclose(found, actor_gradient(scene, h, squared), atol=1e-7)


def test_without_temperatures_it_is_expected_q(scene):
    logits, _, q = scene
    found = actor_gradient(scene, potential("tsallis(0.5)"), drift("kl"), 0.0, 0.0)
    # d/dl of -<softmax(l), q> is -p (q - <p, q>), divided by the batch size.
    p = jax.nn.softmax(logits, axis=0)
    expected = -p * (q - jnp.sum(p * q, axis=0, keepdims=True)) / 32
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize(
    "name",
    [
        "kl",
        "forward_kl",
        "squared_tv",
        "zero",
        "bregman(entropy)",
        "bregman(tsallis(0.5))",
        "bregman(tsallis(2))",
        "bregman(lp(2))",
        "bregman(lp(3))",
    ],
)
def test_at_the_first_epoch_no_smooth_drift_pulls(scene, name):
    logits, _, q = scene
    at_rest = (logits, logits, q)
    with_drift = actor_gradient(at_rest, potential("entropy"), drift(name), 0.2, 50.0)
    without = actor_gradient(at_rest, potential("entropy"), drift("zero"), 0.2, 50.0)
    np.testing.assert_allclose(with_drift, without, atol=2e-6)


def test_the_first_epoch_starts_at_the_frozen_policy(problem):
    """With one epoch lambda has no effect, with two it has."""
    settings, rows, draw = problem
    for epochs in (1, 2):
        program = make_program(settings.model_copy(update={"actor_epochs": epochs}))
        weak, strong = (values_of(alpha=0.1, lam=lam) for lam in (0.0, 100.0))
        learner = learner_for(program, draw, weak)
        actors = [one_update(program, learner, rows, v).actor for v in (weak, strong)]
        same = np.abs(actors[0] - actors[1]).max() < 1e-6
        assert same == (epochs == 1)


def test_the_three_readings_of_the_critics_target(small):
    rng = np.random.default_rng(1)
    logits, next_logits, next_q = (
        jnp.asarray(rng.standard_normal((3, 6)), jnp.float32) for _ in range(3)
    )
    follows = jnp.asarray([1.0, 0.0] * 3)
    reward = jnp.asarray(rng.standard_normal(6), jnp.float32)
    empty = jnp.zeros((1, 6))
    batch = replay.Batch(empty, jnp.zeros(6, jnp.int32), reward, empty, follows, follows == 0)

    def target(**fields):
        return critic_target(
            small(**fields), potential("entropy"), batch, next_logits, next_q, logits, 0.5, 0.9, 2.0
        )

    def numbers(x):
        p = np.exp(np.asarray(x, float))
        p /= p.sum(0)
        return p, (p * np.log(p)).sum(0)

    p_next, h_next = numbers(next_logits)
    _, h_now = numbers(logits)
    v = (p_next * np.asarray(next_q, float)).sum(0)
    r, f = 2.0 * np.asarray(reward, float), 0.9 * np.asarray(follows, float)
    for reading, expected in {
        "sac": r + f * (v - 0.5 * h_next),
        "paper": r - 0.5 * h_now + f * v,
        "printed": r + f * v - 0.5 * h_next,
    }.items():
        np.testing.assert_allclose(target(critic_target=reading), expected, rtol=1e-5, atol=1e-6)
        plain = target(critic_target=reading, actor_q="unregularized")
        np.testing.assert_allclose(plain, r + f * v, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("scale", "diverged"), [(1e18, -1), (1.2e19, 4)])
def test_a_gradient_whose_squared_norm_overflows_counts_as_not_finite(problem, scale, diverged):
    """Its loss and its every entry are finite still, and so are those of the state it leaves."""
    settings, _, draw = problem
    program = make_program(settings)
    env = program.env
    # The ball is about to be caught: the critics' target is the scaled reward itself.
    state = env.reset(jnp.zeros(1, jnp.uint32))
    state = state._replace(ball_x=jnp.int32(0), ball_y=jnp.int32(2), paddle_x=jnp.int32(0))
    after = env.step(state, jnp.int32(1), jnp.zeros(0, jnp.uint32))
    row = replay.pack(
        env,
        env.remember(state),
        env.remember(after.state),
        jnp.int32(1),
        after.reward,
        after.terminated,
        after.terminated,
    )
    values = values_of(alpha=0.1, lam=0.1, reward_scale=scale)
    learner = learner_for(program, draw, values)
    x = replay.unpack(env, row[None]).observation

    def loss(critic):
        return (program.critic(critic, x)[1, 0] - scale) ** 2

    found, gradient = jax.value_and_grad(loss)(learner.critics[0])
    assert np.isfinite(found)
    assert np.isfinite(gradient).all()
    assert np.isfinite(jnp.vdot(gradient, gradient)) == (diverged < 0)
    new = one_update(program, learner, jnp.tile(row, (settings.batch_size, 1)), values, k=4)
    assert int(new.diverged_at) == diverged
    same = [
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(learner), jax.tree.leaves(new), strict=True)
    ]
    assert all(same[:-1]) == (diverged >= 0)
