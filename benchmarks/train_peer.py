"""The peer: rejax's discrete SAC on CartPole, core-seconds of a run of 10^6 environment steps.

rejax needs gymnax 0.0.9, hence an environment of its own:

    python -m venv peer && peer/bin/pip install rejax "gymnax==0.0.9"
    peer/bin/python benchmarks/train_peer.py                                   # rejax alone
    python benchmarks/train_speed.py --only CartPole --peer peer/bin/python    # ours beside it

The same networks (2 x 64, tanh, twin critics), batch (512), buffer (10^5), 256 environment steps
and one update of each network per iteration, 3,906 iterations; 256 environments of one step each,
which is what suits rejax best. MDPO does two actor steps where SAC does one. Lanes are added by
`vmap`, as rejax recommends.
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
from rejax import SAC

ITERATIONS = 1_000_000 // 256


LANES = (1, 2, 4, 8, 32)


def core_seconds(lanes: int, seconds: float) -> float:
    agent = SAC.create(
        env="CartPole-v1",
        num_envs=256,
        batch_size=512,
        buffer_size=100_352,  # rejax wants a multiple of 256
        fill_buffer=0,
        total_timesteps=999_936,
        eval_freq=999_936,
        learning_rate=0.0025,
        max_grad_norm=1.0,
        polyak=0.95,
        target_update_freq=256,
        num_epochs=1,
        agent_kwargs={"activation": "tanh", "hidden_layer_sizes": (64, 64)},
    )
    state = jax.jit(jax.vmap(agent.init_state))(jax.random.split(jax.random.key(0), lanes))

    # Measured as in most of a run, with a full buffer: sampling from an almost empty one is far
    # slower in rejax.
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
    return best / lanes * ITERATIONS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--json", action="store_true", help="print one object: lanes, core-seconds")
    args = parser.parse_args()
    # Pinned to one core, as ours is.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found = {}
    for lanes in LANES:
        found[lanes] = core_seconds(lanes, args.seconds)
        if not args.json:
            print(f"rejax SAC, {lanes:2} lanes: {found[lanes]:.2f} core-seconds a run", flush=True)
    if args.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
