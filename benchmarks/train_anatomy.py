"""Where the time of one update of one lane goes, piece by piece, in microseconds.

    python benchmarks/train_anatomy.py [ENVIRONMENT]

Each piece is compiled and timed alone, and set against the floor of its matrix products. First the
pieces of an update, then those of a rollout of 256 steps (16 in each environment), each with the
whole as it runs. What the pieces leave unexplained are copies of a lane's state in and out, health
checks and launches; XLA fuses some pieces of a rollout, so their sum can exceed the whole.
"""

from __future__ import annotations

import math
import os
import sys
import time

from mirrorax.mdpo.machine import XLA_FLAGS

os.environ["XLA_FLAGS"] = XLA_FLAGS

import jax
import jax.numpy as jnp
import numpy as np
from train_speed import sgemm_rate

from mirrorax.envs.adapter import uniform
from mirrorax.mdpo import replay
from mirrorax.mdpo.networks import descend
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.train import policy_logits, rollout_policies, sample_actions
from mirrorax.mdpo.update import actor_loss, critic_target
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

CALLS = 100
#: Updates go lane by lane, rollouts with all lanes at once.
LANES_OF_AN_UPDATE, LANES = 1, 32


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


def show(pieces: list[tuple], rate: float, lanes: int) -> None:
    """Print the time and the floor of each piece of one lane, and their sums."""
    total = floor_total = 0.0
    for label, times, piece, data, flop in pieces:
        spent, floor = times * microseconds(piece, data) / lanes, times * flop / rate
        total, floor_total = total + spent, floor_total + floor
        print(f"  {label:20} {times} x {spent / times:7.1f} = {spent:7.1f}   products {floor:7.1f}")
    print(f"  {'pieces':31} = {total:7.1f}   products {floor_total:7.1f}")


def rollout_pieces(session: Session) -> list[tuple]:
    """Return the pieces of a rollout: of one step of all lanes, but for the random words."""
    program, state = session.program, session._state
    env, settings = program.environment, program.settings
    steps, wide = settings.rollout_length, settings.num_envs
    cut, shape = 1 + env.step_words, (LANES, program.words_per_step, wide)
    words = jnp.asarray(np.random.default_rng(2).integers(0, 2**32, shape), jnp.uint32)
    policies = jax.jit(lambda actors: rollout_policies(program, actors))(state.learner.actor)
    last, memory = state.env, jax.vmap(jax.vmap(env.remember))(state.env.after.state)
    logits = jax.vmap(lambda p, m: policy_logits(program, p, m))(policies, memory)
    sizes = [math.prod(shape) for shape in program.actor.shapes if len(shape) == 2]
    flop = 0 if program.table_rounds is not None else wide * sum(2 * size for size in sizes)

    def draw(key):
        return jax.random.bits(key, (LANES, steps, program.words_per_step, wide))

    def walk(state, action, words):
        started = jax.vmap(jax.vmap(env.reset, in_axes=-1))(words[:, cut:])
        state = jax.tree.map(
            lambda new, old: jnp.where(action.astype(bool), new, old), started, state
        )
        step = jax.vmap(jax.vmap(env.step, in_axes=(0, 0, -1)))
        return step(state, action, words[:, 1:cut])

    def choose(logits, words):
        return jax.vmap(sample_actions)(logits, uniform(words[:, 0]))

    def rows(last):
        return jax.vmap(lambda one: replay.as_rows(program, one))(last)

    def ask(policies, memory):
        return jax.vmap(lambda p, m: policy_logits(program, p, m))(policies, memory)

    return [
        ("random words", 1, draw, (jax.random.key(0),), 0),
        ("policy", steps, ask, (policies, memory), flop),
        ("draw actions", steps, choose, (logits, words), 0),
        ("reset and step", steps, walk, (last.after.state, last.action, words), 0),
        ("rows of transitions", steps, rows, (last,), 0),
    ]


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else "CartPole"
    keys = np.random.default_rng(0).integers(0, 2**32, (LANES, 2), dtype=np.uint32)
    session = Session(make_chunk(make_settings(environment=name), {}, None, keys))
    session.advance(20)
    program, net = session.program, session.program.actor
    h, d, settings = program.potential, program.drift, program.settings
    learner = jax.tree.map(lambda x: x[0], session._state.learner)
    words = jnp.asarray(np.random.default_rng(1).integers(0, 2**32, (LANES, 512)), jnp.uint32)
    rows = replay.sample(session._state.buffer, words, jnp.int32(320))[0]
    batch = replay.unpack(program.env, rows)
    asked, actor = replay.asked(program, rows, batch)[0], learner.actor
    x = asked.observations
    logits, q = asked.ask(net, actor), asked.ask(net, learner.critics[0])
    gradient = jnp.ones_like(actor) * 0.01
    f = jnp.float32

    def step(parameters, state):
        return descend(program.optimizer, parameters, gradient, state, f(0.001))

    def forward(parameters, asked):
        return asked.ask(net, parameters)

    def with_gradient(parameters, asked):
        return jax.vjp(lambda p: asked.ask(net, p), parameters)[1](jnp.ones_like(logits))

    def improve(logits):
        return jax.value_and_grad(actor_loss, has_aux=True)(
            logits, logits + 0.1, q, f(0.01), f(0.1), h, d
        )

    def target(logits, next_q):
        return critic_target(settings, h, batch, logits, next_q, None, f(0.01), f(0.99), f(1.0))

    weights = [math.prod(shape) for shape in net.shapes if len(shape) == 2]
    forward_flop = x.shape[1] * sum(2 * size for size in weights)
    both_flop = 2 * forward_flop + x.shape[1] * sum(2 * size for size in weights[1:])
    rate = sgemm_rate() / 1e6
    pieces = [
        # (name, how often in one update, function, data, FLOPs of its products)
        ("read the batch", 1, lambda r: replay.unpack(program.env, r), (rows,), 0),
        ("forward alone", 3, forward, (actor, asked), forward_flop),
        ("forward and backward", 4, with_gradient, (actor, asked), both_flop),
        ("actor's objective", 2, improve, (logits,), 0),
        ("critics' target", 1, target, (logits, q), 0),
        ("clip and Adam", 4, step, (actor, learner.actor_optimizer), 0),
    ]
    print(f"{name}: products at {rate / 1e3:.0f} GFLOP/s; microseconds in one update of one lane")
    show(pieces, rate, LANES_OF_AN_UPDATE)
    best = float("inf")
    for _ in range(40):
        start = time.process_time()
        session.advance(2)
        best = min(best, (time.process_time() - start) / 2 / LANES)
    session.runs = 0
    rollout = float("inf")
    for _ in range(40):
        start = time.process_time()
        session.advance(10)
        rollout = min(rollout, (time.process_time() - start) / 10 / LANES)
    print(f"  {'update as it runs':31} = {(best - rollout) * 1e6:7.1f}")
    print(f"{name}: microseconds in one rollout of one lane")
    show(rollout_pieces(session), rate, LANES)
    print(f"  {'rollout as it runs':31} = {rollout * 1e6:7.1f}")


if __name__ == "__main__":
    main()
