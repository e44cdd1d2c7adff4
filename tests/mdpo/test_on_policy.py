"""On-policy updates against PPO and A2C written independently; what a run of them is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import mirrorax
from mirrorax.errors import UserError
from mirrorax.mdpo import on_policy
from mirrorax.mdpo.advantages import estimate_advantages
from mirrorax.mdpo.program import make_program, make_values
from mirrorax.mdpo.replay import pack, unpack
from mirrorax.mdpo.schedules import Clock
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.update import init_learner
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.presets import LATER
from mirrorax.runs.settings import Settings, check_values, make_settings

SMALL = {
    "environment": "Catch(4x3)",
    "algorithm": "on_policy",
    "steps": 24 * 30,
    "num_envs": 4,
    "env_steps_per_update": 24,
    "batch_size": 8,
    "hidden": (16, 16),
    "eval_episodes": 4,
}


def small(**fields):
    return make_settings(**{**SMALL, **fields})


def values_of(**columns):
    return jax.tree.map(lambda x: x[0], make_values({k: [v] for k, v in columns.items()}, 1))


@pytest.fixture(scope="module")
def draw_rollout():
    """Make a rollout of 6 steps in 4 environments and the words of 4 epochs, from a seed.

    Episodes follow each other. With `time_outs` some are cut and would have gone on.
    """

    def draw(program, seed=0, epochs=4, time_outs=True):
        env, rng = program.env, np.random.default_rng(seed)
        step, reset = jax.jit(env.step), jax.jit(env.reset)
        rows = np.zeros((6, 4), object)
        for column in range(4):
            state = reset(jnp.asarray(rng.integers(0, 2**32, 1, dtype=np.uint32)))
            for row in range(6):
                action = jnp.int32(rng.integers(3))
                after = step(state, action, jnp.zeros(0, jnp.uint32))
                stops = after.terminated
                ended = stops | (time_outs and rng.random() < 0.2)
                memories = env.remember(state), env.remember(after.state)
                rows[row, column] = pack(env, *memories, action, after.reward, stops, ended)
                words = jnp.asarray(rng.integers(0, 2**32, 1, dtype=np.uint32))
                state = reset(words) if ended else after.state
        words = rng.integers(0, 2**32, epochs * 24, dtype=np.uint32)
        rollout = jnp.stack(rows.reshape(-1).tolist()).reshape(6, 4, -1)
        return on_policy.Rollout(rollout, jnp.asarray(words))

    return draw


def learner_of(program, values, seed=1):
    rng = np.random.default_rng(seed)
    actor = 3 * jnp.asarray(program.actor.init(rng))
    return init_learner(program, actor, jnp.asarray(program.critic.init(rng))[None], values)


def ppo(program, learner, rollout, values, eps, bonus):
    """PPO with separate networks, in the order of the usual implementations; batch first.

    Advantages by a loop backwards; per epoch one shuffle, per minibatch normalised advantages, one
    Adam step on the clipped surrogate and one on the squared error of the value.
    """
    settings = program.settings
    flat = unpack(program.env, rollout.rows.reshape(24, -1))
    s, s_next = flat.observation.T, flat.next_observation.T
    pi = lambda p, x: jax.nn.log_softmax(program.actor(p, x.T).T)  # noqa: E731
    v = lambda p, x: program.critic(p, x.T)[0]  # noqa: E731
    actor, value = learner.actor, learner.critics[0]
    now, later = (np.asarray(v(value, x)).reshape(6, 4) for x in (s, s_next))
    reward = np.asarray(flat.reward).reshape(6, 4) * float(values.reward_scale)
    follows, ended = (np.asarray(x).reshape(6, 4) for x in (flat.follows, flat.ended))
    gamma, advantage, last = float(values.gamma), np.zeros((6, 4)), np.zeros(4)
    for t in reversed(range(6)):
        delta = reward[t] + gamma * follows[t] * later[t] - now[t]
        last = delta + gamma * settings.gae_lambda * (1 - ended[t]) * last
        advantage[t] = last
    target = jnp.asarray((advantage + now).reshape(-1), jnp.float32)
    advantage = jnp.asarray(advantage.reshape(-1), jnp.float32)
    old = jnp.take_along_axis(pi(actor, s), flat.action[:, None], axis=1)[:, 0]

    def actor_loss(p, i):
        logp = pi(p, s[i])
        ratio = jnp.exp(jnp.take_along_axis(logp, flat.action[i, None], axis=1)[:, 0] - old[i])
        a = advantage[i]
        if settings.normalize_advantages:
            a = (a - a.mean()) / (a.std() + 1e-8)
        clipped = jnp.minimum(ratio * a, jnp.clip(ratio, 1 - eps, 1 + eps) * a)
        entropy = -jnp.sum(jnp.exp(logp) * logp, axis=1)
        return -clipped.mean() - bonus * entropy.mean()

    def value_loss(p, i):
        return jnp.mean((v(p, s[i]) - target[i]) ** 2)

    adam = optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.scale_by_adam(eps=settings.adam_eps),
    )

    @jax.jit
    def step(actor, value, states, i):
        way, first = adam.update(jax.grad(actor_loss)(actor, i), states[0])
        actor = actor - values.actor_lr * way
        way, second = adam.update(jax.grad(value_loss)(value, i), states[1])
        return actor, value - values.critic_lr * way, (first, second)

    states = adam.init(actor), adam.init(value)
    for words in np.asarray(rollout.words).reshape(-1, 24):
        order = np.argsort(words, kind="stable")
        for chosen in order.reshape(-1, settings.batch_size):
            actor, value, states = step(actor, value, states, jnp.asarray(chosen))
    return actor, value


update_once = jax.jit(on_policy.update, static_argnums=0)
estimate = jax.jit(on_policy.estimate, static_argnums=0)


def one_update(program, learner, rollout, values, k=0, total=10):
    clock = Clock(jnp.int32(k), jnp.int32(total))
    return update_once(program, learner, rollout, values, clock)


@pytest.mark.parametrize(
    ("fields", "alpha"),
    [
        ({"potential": "entropy"}, 0.2),
        ({"potential": "entropy", "normalize_advantages": False, "gae_lambda": 0.5}, 0.05),
        ({"potential": "zero", "batch_size": 24, "max_grad_norm": 0.01}, 0.0),
    ],
    ids=str,
)
def test_with_clipping_an_update_is_ppos(draw_rollout, fields, alpha):
    """All epochs and minibatches of it: (zero, ppo_clip) plain, (entropy, ppo_clip) its bonus."""
    program = make_program(small(drift="ppo_clip(0.1)", anneal_learning_rate=False, **fields))
    values = values_of(alpha=alpha, lam=1.0, actor_lr=0.01, critic_lr=0.01, reward_scale=2.0)
    learner, rollout = learner_of(program, values), draw_rollout(program)
    new, _ = one_update(program, learner, rollout, values)
    actor, value = ppo(program, learner, rollout, values, 0.1, alpha)
    np.testing.assert_allclose(new.actor, actor, rtol=0, atol=2e-5)
    np.testing.assert_allclose(new.critics[0], value, rtol=0, atol=2e-5)
    assert np.abs(new.actor - learner.actor).max() > 0.01
    assert np.abs(new.critics[0] - learner.critics[0]).max() > 0.01


def test_one_epoch_in_one_batch_without_regularisers_is_a2c(draw_rollout):
    fields = {"potential": "zero", "drift": "zero", "actor_epochs": 1, "critic_epochs": 1}
    settings = small(**fields, batch_size=24, normalize_advantages=False, optimizer="sgd")
    program = make_program(settings.model_copy(update={"max_grad_norm": 1e9}))
    values = values_of(alpha=0.0, lam=0.0, actor_lr=0.1, critic_lr=0.1)
    learner, rollout = learner_of(program, values), draw_rollout(program, epochs=1)
    new, _ = one_update(program, learner, rollout, values)
    samples, _ = estimate(
        program, learner, rollout.rows, jnp.float32(0), values.gamma, values.reward_scale
    )
    batch = unpack(program.env, samples.rows)

    def policy_gradient(p):
        logp = jax.nn.log_softmax(program.actor(p, batch.observation).T)
        taken = jnp.take_along_axis(logp, batch.action[:, None], axis=1)[:, 0]
        return -jnp.mean(taken * samples.advantage)

    expected = learner.actor - 0.1 * jax.grad(policy_gradient)(learner.actor)
    np.testing.assert_allclose(new.actor, expected, rtol=0, atol=1e-6)


def test_regularised_rewards_charge_h_at_the_state_of_the_step(draw_rollout):
    """Then a value is that of the regularised MDP; without them h acts on the actor alone."""
    values = values_of(alpha=0.5, lam=0.0)
    rewards = {}
    for kind in ("regularized", "unregularized"):
        program = make_program(small(actor_q=kind, gae_lambda=0.0, potential="tsallis(0.5)"))
        learner, rollout = learner_of(program, values), draw_rollout(program)
        samples, mean_h = estimate(
            program, learner, rollout.rows, jnp.float32(0.5), values.gamma, values.reward_scale
        )
        rewards[kind] = samples.target
    logits = program.actor(learner.actor, unpack(program.env, samples.rows).observation).T
    h = mirrorax.potential("tsallis(0.5)").value_from_logits(logits)
    assert float(mean_h) == pytest.approx(float(h.mean()), rel=1e-5)
    difference = rewards["unregularized"] - rewards["regularized"]
    np.testing.assert_allclose(difference, 0.5 * h, rtol=1e-4, atol=1e-5)


def test_a_learned_lambda_follows_the_drift_of_the_update(draw_rollout):
    """It rises where D(pi_{k+1}, pi_k) over the rollout is above v D_ref and falls below."""
    program = make_program(small(drift="kl", lam_schedule="learned", alpha_schedule="learned"))
    rollout = draw_rollout(program)
    reference = program.lam_schedule.reference

    def step(v):
        values = values_of(alpha=None, lam=None, w=0.5, v=v, actor_lr=0.01)
        learner = learner_of(program, values)
        new, _ = one_update(program, learner, rollout, values)
        x = unpack(program.env, rollout.rows.reshape(24, -1)).observation
        p, q = (jax.nn.softmax(program.actor(who.actor, x).T) for who in (new, learner))
        return float(new.lam.log_lam), float(jnp.mean(jnp.sum(p * jnp.log(p / q), axis=1)))

    _, drift = step(0.5)
    assert 0 < drift < reference  # or no weight would lie on either side of it
    assert step(drift / reference * 0.9)[0] > 0  # log lambda starts at 0
    assert step(drift / reference * 1.1)[0] < 0


@pytest.mark.parametrize("time_outs", [False, True])
def test_estimates_are_those_with_the_value_of_every_next_state(draw_rollout, time_outs):
    """They are computed from the rows alone where no episode was cut by time."""
    program, values = make_program(small()), values_of(alpha=0.0, lam=0.0)
    learner, rollout = learner_of(program, values), draw_rollout(program, 5, time_outs=time_outs)
    samples, _ = estimate(
        program, learner, rollout.rows, values.alpha, values.gamma, values.reward_scale
    )
    batch = unpack(program.env, samples.rows)
    assert bool(jnp.any(batch.ended & (batch.follows > 0))) == time_outs
    assert bool(jnp.any(batch.follows == 0))
    value, later = (
        program.critic(learner.critics[0], x)[0]
        for x in (batch.observation, batch.next_observation)
    )
    steps = (batch.reward, value, later, batch.follows, batch.ended)
    for column in range(4):
        advantage = estimate_advantages(
            *(x.reshape(6, 4)[:, column] for x in steps), values.gamma, 0.95
        )
        expected = (advantage, advantage + value.reshape(6, 4)[:, column])
        for got, wanted in zip((samples.advantage, samples.target), expected, strict=True):
            np.testing.assert_allclose(got.reshape(6, 4)[:, column], wanted, rtol=1e-5, atol=1e-6)


def test_a_shuffle_has_every_sample_once_and_is_the_order_of_its_words():
    words = np.random.default_rng(0).integers(0, 2**32, 3 * 500, dtype=np.uint32)
    orders = np.asarray(on_policy.shuffles(jnp.asarray(words), 500))
    np.testing.assert_array_equal(np.sort(orders), np.tile(np.arange(500), (3, 1)))
    coarse = words.reshape(3, 500) >> 9
    np.testing.assert_array_equal(orders, np.argsort(coarse, axis=1, kind="stable"))


@pytest.mark.parametrize("epochs", [(3, 1), (1, 3)])
def test_each_network_has_its_own_number_of_epochs(draw_rollout, epochs):
    """Neither sees the other: an epoch more of one leaves the other as it is."""
    values = values_of(alpha=0.1, lam=1.0, actor_lr=0.01, critic_lr=0.01)

    def learn(actor, critic):
        program = make_program(small(actor_epochs=actor, critic_epochs=critic))
        rollout = draw_rollout(program, epochs=max(actor, critic))
        return one_update(program, learner_of(program, values), rollout, values)[0]

    new = learn(*epochs)
    np.testing.assert_allclose(new.actor, learn(epochs[0], epochs[0]).actor, rtol=0, atol=1e-6)
    np.testing.assert_allclose(new.critics, learn(epochs[1], epochs[1]).critics, rtol=0, atol=1e-6)


def test_a_run_that_diverges_is_frozen(draw_rollout):
    program = make_program(small(drift="dpo"))
    values = values_of(alpha=0.1, lam=1.0, reward_scale=1e30)
    learner, rollout = learner_of(program, values), draw_rollout(program)
    new, _ = one_update(program, learner, rollout, values, k=3)
    assert int(new.diverged_at) == 3
    again, _ = one_update(program, new, rollout, values._replace(reward_scale=jnp.float32(1)), k=4)
    assert int(again.diverged_at) == 3
    pairs = zip(jax.tree.leaves(learner), jax.tree.leaves(again), strict=True)
    assert all(np.array_equal(a, b) for a, b in list(pairs)[:-1])


@pytest.mark.optimised
def test_a_run_does_not_depend_on_where_it_is_cut_nor_on_its_lane(some_keys, tmp_path):
    settings = small(eval_every=10, alpha_schedule="learned", drift="kl")
    columns = {"w": [0.3, 0.6, 0.9], "lam": [0.1, 1.0, 5.0]}
    keys = some_keys(3)
    whole = Session(make_chunk(settings, columns, 4, keys))
    whole.run()
    cut = Session(make_chunk(settings, columns, 4, keys))
    cut.run(until=7)
    cut.save(tmp_path / "at.npz")
    restored = Session.restore(tmp_path / "at.npz").select([2, 0])
    restored.run()
    np.testing.assert_array_equal(restored.policies, whole.policies[[2, 0]])
    assert set(whole.curves) >= {"h", "drift", "alpha", "mean_q", "return"}
    assert np.isfinite(whole.curve_arrays()["critic_loss"]).all()
    assert (np.diff(whole.curve_arrays()["alpha"]) != 0).any()


def test_both_layouts_train_the_same_runs(some_keys):
    columns = {"alpha": [0.01] * 8, "lam": [1.0] * 8}
    policies = []
    for layout in ("map", "vmap"):
        chunk = make_chunk(small(drift="ppo_clip(0.2)"), columns, 8, some_keys(8))
        session = Session(chunk, layout)
        session.advance(2)
        policies.append(session.policies)
    np.testing.assert_allclose(*policies, rtol=0, atol=1e-4)


@pytest.mark.parametrize("drift", ["ppo_clip(0.2)", "bregman(tsallis(0.5))"])
def test_it_learns_a_small_catch(drift):
    fields = {"env_steps_per_update": 256, "num_envs": 16, "batch_size": 64, "hidden": (32, 32)}
    result = mirrorax.train(
        env="Catch(4x3)",
        algorithm="on_policy",
        drift=drift,
        alpha=0.01,
        lam=1.0,
        seeds=3,
        steps=20_000,
        lanes=4,
        **fields,
    )
    assert (result.greedy_normalized > 0.95).all()


def test_the_algorithm_brings_its_preset_and_is_part_of_what_a_run_is():
    settings = make_settings(environment="Catch", algorithm="on_policy")
    assert settings == make_settings("on_policy", environment="Catch")
    assert settings.steps_per_update == 1024
    assert settings.replay_slots * settings.num_envs == 1024
    own = make_settings(environment="Catch", algorithm="on_policy", batch_size=512)
    assert (own.batch_size, own.actor_epochs) == (512, 4)
    off_policy = make_settings(environment="Catch")
    ids = {make_chunk(s, {"seed": [0]}).ids[0] for s in (settings, own, off_policy)}
    assert len(ids) == 3


def test_younger_settings_leave_the_ids_of_off_policy_runs_as_they_are():
    """They are left out of what a run is at their defaults."""
    for field in ("algorithm", "gae_lambda", "normalize_advantages", "reference"):
        assert LATER[field] == Settings.model_fields[field].default


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"drift": "ppo_clip(0.2)"}, "drift: 'ppo_clip(0.2)' sees the advantages"),
        ({"gae_lambda": 0.5}, "gae_lambda: 0.5 has no meaning with algorithm = 'off_policy'"),
        ({"algorithm": "on_policy", "tau": 0.5}, "tau: 0.5 has no meaning"),
        ({"algorithm": "on_policy", "batch_size": 100}, "batch_size: 100 does not divide"),
        (
            {"algorithm": "on_policy", "drift": "dpo", "lam_schedule": "learned"},
            "lam_schedule: 'learned' needs a drift of two policies; 'dpo' sees the advantages",
        ),
        ({"algorithm": "sideways"}, "algorithm: "),
    ],
)
def test_mistakes_are_one_line(fields, message):
    with pytest.raises(UserError) as error:
        make_settings(environment="Catch", **fields)
    assert message in str(error.value)


def test_the_temperature_of_a_functional_is_one_unless_given():
    clipped = make_settings(environment="Catch", algorithm="on_policy", drift="ppo_clip(0.2)")
    plain = make_settings(environment="Catch", algorithm="on_policy", drift="kl")
    assert check_values(clipped, {}).lam == 1.0
    assert check_values(clipped, {"lam": 0.3}).lam == 0.3
    assert check_values(plain, {}).lam == 0.1
