"""Where the time of one update of one lane goes, piece by piece, in microseconds.

    python benchmarks/train_anatomy.py [ENVIRONMENT]

Each piece is compiled and timed alone, and set against the floor of its matrix products; the
last lines are the whole update, with what the pieces leave unexplained (copies of a lane's state in
and out, health checks, launches), and the rollout.
"""

from __future__ import annotations

import itertools
import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from train_speed import sgemm_rate

from mirrorax.mdpo import losses, optimizer, replay
from mirrorax.mdpo.config import make_settings
from mirrorax.mdpo.session import Session

CALLS = 100


def _best(function, data) -> float:
    function = jax.jit(function)
    jax.block_until_ready(function(*data))
    best = float("inf")
    for _ in range(40):
        start = time.process_time()
        for _ in range(CALLS):
            found = function(*data)
        jax.block_until_ready(found)
        best = min(best, time.process_time() - start)
    return best / CALLS * 1e6


def microseconds(piece, data) -> float:
    """Return the best time of one call, less that of a call that returns one number."""
    return _best(piece, data) - _best(lambda *given: jax.tree.leaves(given)[0].ravel()[0], data)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "CartPole"
    keys = np.random.default_rng(0).integers(0, 2**32, (32, 2), dtype=np.uint32)
    session = Session(make_settings(environment=name), keys, {})
    session.advance(20)
    program, net = session.program, session.program.actor
    h, d = program.potential, program.drift
    learner = jax.tree.map(lambda x: x[0], session._state.learner)
    words = jnp.asarray(np.random.default_rng(1).integers(0, 2**32, (32, 512)), jnp.uint32)
    rows = replay.sample(session._state.buffer, words, jnp.int32(320))[0]
    batch = replay.unpack(program.env, rows)
    x, actor, critics = batch.observation, learner.actor, learner.critics
    logits, inputs = net.forward(net.layers(actor), x)
    q, _ = jax.vmap(net.forward, (0, None))(jax.vmap(net.layers)(critics), x)
    gradient, moments = jnp.ones_like(actor) * 0.01, learner.actor_moments
    f = jnp.float32

    def step(p, m):
        factor = optimizer.clip_factor(jnp.vdot(gradient, gradient), 1.0)
        return optimizer.adam(p, gradient * factor, m, f(0.001), f(3), 1e-5)

    def backward(p, x, s):
        return net.backward(net.layers(p), x, s)

    def improve(logits):
        return jax.value_and_grad(losses.actor_loss, has_aux=True)(
            logits, logits + 0.1, q[0], f(0.01), f(0.1), h, d
        )

    def target(logits, next_q):
        return losses.critic_target(
            program.settings, h, batch, logits, next_q, None, f(0.01), f(0.99), f(1.0)
        )

    sizes = net.sizes
    pairs = list(itertools.pairwise(sizes))
    forward_flop = 512 * sum(2 * m * n for m, n in pairs)
    backward_flop = forward_flop + 512 * sum(2 * m * n for m, n in pairs[1:])
    rate = sgemm_rate() / 1e6
    slope = jnp.ones_like(logits)
    pieces = [
        # (name, how often in one update, function, data, FLOPs of its products)
        ("read the batch", 1, lambda r: replay.unpack(program.env, r), (rows,), 0),
        ("forward", 7, net, (actor, x), forward_flop),
        ("backward", 4, backward, (actor, inputs, slope), backward_flop),
        ("actor's objective", 2, improve, (logits,), 0),
        ("critics' target", 1, target, (logits, q[0]), 0),
        ("clip and Adam", 4, step, (actor, moments), 0),
    ]
    print(f"{name}: products at {rate / 1e3:.0f} GFLOP/s; microseconds in one update of one lane")
    total = floor_total = 0.0
    for label, times, piece, data, flop in pieces:
        spent, floor = times * microseconds(piece, data), times * flop / rate
        total, floor_total = total + spent, floor_total + floor
        print(f"  {label:20} {times} x {spent / times:7.1f} = {spent:7.1f}   products {floor:7.1f}")
    best = float("inf")
    for _ in range(40):
        start = time.process_time()
        session.advance(2)
        best = min(best, (time.process_time() - start) / 2 / 32)
    session.runs = 0
    rollout = float("inf")
    for _ in range(40):
        start = time.process_time()
        session.advance(10)
        rollout = min(rollout, (time.process_time() - start) / 10 / 32)
    print(f"  {'pieces':31} = {total:7.1f}   products {floor_total:7.1f}")
    print(f"  {'update as it runs':31} = {(best - rollout) * 1e6:7.1f}")
    print(f"  {'rollout of 256 steps':31} = {rollout * 1e6:7.1f}")


if __name__ == "__main__":
    main()
