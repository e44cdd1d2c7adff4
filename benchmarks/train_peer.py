"""The peer: rejax's discrete SAC and its PPO on CartPole, core-seconds of a run.

rejax needs gymnax 0.0.9, hence an environment of its own:

    python -m venv peer && peer/bin/pip install rejax "gymnax==0.0.9"
    PYTHONPATH=src peer/bin/python benchmarks/train_peer.py                    # rejax alone
    python benchmarks/train_speed.py --only CartPole --peer peer/bin/python    # SAC beside ours
    python benchmarks/train_ppo.py --peer peer/bin/python                      # PPO beside ours

SAC: 10^6 steps, the same networks (2 x 64, tanh, twin critics), batch (512), buffer (10^5), 256
environment steps and one update of each network per iteration, 3,906 iterations; 256 environments
of one step each, which is what suits rejax best. MDPO does two actor steps where SAC does one. PPO:
see `train_ppo.py`. Lanes are added by `vmap`, as rejax recommends.
"""

from __future__ import annotations

import argparse
import json
import os
import time

from mirrorax.mdpo.machine import XLA_FLAGS

os.environ["XLA_FLAGS"] = XLA_FLAGS

import jax
import jax.numpy as jnp
from rejax import PPO, SAC

LANES = (1, 2, 4, 8, 32)
NETWORKS = {"activation": "tanh", "hidden_layer_sizes": (64, 64)}
SAC_STEPS, PPO_STEPS = 999_936, 102_400


def make_sac():
    return SAC.create(
        env="CartPole-v1",
        num_envs=256,
        batch_size=512,
        buffer_size=100_352,  # rejax wants a multiple of 256
        fill_buffer=0,
        total_timesteps=SAC_STEPS,
        eval_freq=SAC_STEPS,
        learning_rate=0.0025,
        max_grad_norm=1.0,
        polyak=0.95,
        target_update_freq=256,
        num_epochs=1,
        agent_kwargs=dict(NETWORKS),
    )


class PlainValue(PPO):
    """PPO with the plain squared error of the value, as mirrorax has it."""

    def update_critic(self, ts, batch):
        def loss(params):
            value = self.critic.apply(params, batch.trajectories.obs)
            return jnp.square(value - batch.targets).mean()

        grads = jax.grad(loss)(ts.critic_ts.params)
        return ts.replace(critic_ts=ts.critic_ts.apply_gradients(grads=grads))


def make_ppo(matched: bool = False):
    """rejax's PPO; `matched`: without its clipping of the value's move and of gradients."""
    return (PlainValue if matched else PPO).create(
        env="CartPole-v1",
        num_envs=16,
        num_steps=64,
        num_minibatches=4,
        num_epochs=4,
        total_timesteps=PPO_STEPS,
        eval_freq=PPO_STEPS,
        skip_initial_evaluation=True,
        learning_rate=0.0025,
        max_grad_norm=1e9 if matched else 0.5,
        gamma=0.99,
        gae_lambda=0.95,
        clip_eps=0.2,
        ent_coef=0.01,
        agent_kwargs=dict(NETWORKS),
    )


def core_seconds(agent, iterations: int, lanes: int, seconds: float) -> float:
    state = jax.jit(jax.vmap(agent.init_state))(jax.random.split(jax.random.key(0), lanes))
    if hasattr(state, "replay_buffer"):
        # Measured as in most of a run, with a full buffer: sampling from an almost empty one is
        # far slower in rejax.
        full = jnp.ones_like(state.replay_buffer.full, bool)
        state = state.replace(replay_buffer=state.replay_buffer.replace(full=full))

    def some(state, count):
        step = jax.vmap(agent.train_iteration)
        return jax.lax.fori_loop(0, count, lambda _, s: step(s), state)

    run = jax.jit(some, donate_argnums=0)
    # The first results differ from the first state in weak types: compiled twice.
    for _ in range(3):
        state = jax.block_until_ready(run(state, 4))
    best, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end:
        start = time.process_time()
        state = jax.block_until_ready(run(state, 4))
        best = min(best, (time.process_time() - start) / 4)
    return best / lanes * iterations


def final_returns(seeds: int, matched: bool) -> list[float]:
    """Return the mean return of 128 stochastic episodes of each trained PPO agent."""
    agent = make_ppo(matched)
    keys = jax.random.split(jax.random.key(1), seeds)
    _, (_, returns) = jax.jit(jax.vmap(agent.train))(keys)
    return [float(x) for x in returns.reshape(seeds, -1).mean(axis=1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="print one object: lanes, core-seconds")
    parser.add_argument("--algorithm", choices=("sac", "ppo"), default="sac")
    parser.add_argument("--returns", type=int, metavar="SEEDS", help="print PPO's final returns")
    parser.add_argument("--matched", action="store_true", help="PPO as near to ours as it gets")
    args = parser.parse_args()
    # Pinned to one core, as ours is.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if args.returns:
        print(json.dumps(final_returns(args.returns, args.matched)))
        return
    sac = args.algorithm == "sac"
    agent = make_sac() if sac else make_ppo()
    iterations = SAC_STEPS // 256 if sac else PPO_STEPS // 1024
    found = {}
    for lanes in LANES:
        found[lanes] = core_seconds(agent, iterations, lanes, args.seconds)
        if not args.json:
            name = f"rejax {args.algorithm.upper()}, {lanes:2} lanes"
            print(f"{name}: {found[lanes]:.2f} core-seconds a run", flush=True)
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
