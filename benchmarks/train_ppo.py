"""PPO as a point of the family beside rejax's PPO, on CartPole: final returns and speed.

    python benchmarks/train_ppo.py --peer peer/bin/python    # see train_peer.py for `peer`

The same in both: 102,400 steps, 16 environments, rollouts of 64 steps each, 4 epochs in 4
minibatches of 256; separate networks of 2 x 64, tanh, weights LeCun normal; Adam with eps 1e-8 and
a learning rate of 0.0025; clip range 0.2, entropy bonus 0.01, gamma 0.99, GAE 0.95, advantages
normalised in each minibatch, one value for the end of an episode and the end of its time.

What remains different: rejax clips every entry of a gradient at 0.5, mirrorax the norm; rejax clips
the value's move at 0.2 and weighs its loss by 0.25, mirrorax has the plain squared error; random
numbers. So returns are compared a second time without these clippings. Returns are means of 128
stochastic episodes of each agent.

Speed is the core-seconds of a run, process time on one pinned core, the best of many short slices,
in turns; each library at its best number of lanes. Beside it stands what the networks alone take:
the passes of an update through them, forward and backward, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from train_speed import CORES, core_seconds

import mirrorax
from mirrorax.mdpo.program import Program
from mirrorax.mdpo.session import Session
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

PEER = str(Path(__file__).with_name("train_peer.py"))
FIELDS = {
    "algorithm": "on_policy",
    "potential": "entropy",
    "drift": "ppo_clip(0.2)",
    "steps": 102_400,
    "anneal_learning_rate": False,
    "adam_eps": 1e-8,
    "initialization": "lecun_normal",
    "bootstrap_truncation": False,
    "eval_episodes": 128,
}
VALUES = {"alpha": 0.01, "lam": 1.0, "actor_lr": 0.0025, "critic_lr": 0.0025}


def ask(python: str, *arguments: str):
    environment = {**os.environ, "PYTHONPATH": str(Path(mirrorax.__file__).parent.parent)}
    done = subprocess.run(
        [python, PEER, *arguments], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


def compare_returns(python: str, seeds: int) -> None:
    """Print final returns, and Welch's interval of the difference of their means.

    Once with rejax as it is, once with neither clipping gradients nor rejax the value's move.
    """
    for matched in (False, True):
        fields = {**FIELDS, "max_grad_norm": 1e9} if matched else FIELDS
        ours = mirrorax.train(
            "CartPole",
            seeds=seeds,
            lanes=seeds,
            curve_points=0,
            progress=False,
            **fields,
            **VALUES,
        )
        arguments = ["--returns", str(seeds), *(["--matched"] if matched else [])]
        returns = ours.returns.mean(axis=1), np.asarray(ask(python, *arguments))
        print("without clipping of gradients and values:" if matched else "as they are:")
        for name, found in zip(("mirrorax", "rejax"), returns, strict=True):
            low, middle, high = np.quantile(found, (0, 0.5, 1))
            print(
                f"  {name:8} {seeds} seeds: mean {found.mean():.1f}, median {middle:.1f}, "
                f"{low:.1f} to {high:.1f}"
            )
        low, high = stats.ttest_ind(*returns, equal_var=False).confidence_interval(0.95)
        difference = returns[0].mean() - returns[1].mean()
        print(f"  difference of means {difference:.1f}, 95% interval {low:.1f} to {high:.1f}")


def networks_alone(program: Program, seconds: float) -> float:
    """Return core-seconds of the passes of an update through its networks, without its rollout.

    A forward pass of the policy and of the value over the rollout, then the epochs: forward and
    backward passes of both, each minibatch with the weights that the one before it left.
    """
    settings, rng = program.settings, np.random.default_rng(0)
    networks = program.actor, program.critic
    minibatches, size = settings.steps_per_update // settings.batch_size, settings.batch_size
    shape = (minibatches, program.env.observation_size, size)
    x = jnp.asarray(rng.standard_normal(shape, np.float32))
    outputs = program.env.num_actions, 1
    # Slopes of the losses at the outputs, as data: the compiler simplifies those that it knows.
    slopes = [jnp.asarray(0.01 * rng.standard_normal((n, size), np.float32)) for n in outputs]

    def forward(weights, x):
        return weights, [net(w, x) for net, w in zip(networks, weights, strict=True)]

    def learn(weights, x):
        moved = []
        for net, w, slope in zip(networks, weights, slopes, strict=True):
            moved.append(w - 1e-6 * jax.vjp(lambda w, net=net: net(w, x), w)[1](slope)[0])
        return moved, None

    @jax.jit
    def passes(weights, x):
        weights, found = jax.lax.scan(forward, weights, x)
        every = jnp.tile(x, (settings.actor_epochs, 1, 1))
        return jax.lax.scan(learn, weights, every)[0], found

    weights = [jnp.asarray(net.init(rng)) for net in networks]
    jax.block_until_ready(passes(weights, x))
    best, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end:
        start = time.process_time()
        for _ in range(20):
            found = passes(weights, x)
        jax.block_until_ready(found)
        best = min(best, (time.process_time() - start) / 20)
    return best


def compare_speed(python: str, lanes: int, seconds: float) -> None:
    """Print core-seconds of a run, in turns, and the ratio of runs per core-hour."""
    keys = np.random.default_rng(0).integers(0, 2**32, (lanes, 2), dtype=np.uint32)
    settings = make_settings(environment="CartPole", **FIELDS)
    columns = {name: [value] * lanes for name, value in VALUES.items()}
    session = Session(make_chunk(settings, columns, lanes, keys))
    ours, alone, theirs = float("inf"), float("inf"), {}
    for _ in range(2):
        alone = min(alone, networks_alone(session.program, seconds) * settings.updates)
        ours = min(ours, core_seconds(session, seconds) * settings.updates)
        found = ask(python, "--json", "--algorithm", "ppo", "--seconds", str(seconds))
        for width, spent in found.items():
            theirs[width] = min(spent, theirs.get(width, spent))
    ours = min(ours, core_seconds(session, seconds) * settings.updates)
    for width, spent in theirs.items():
        print(f"rejax, {width:>2} lanes: {spent:.3f} core-seconds a run")
    print(f"mirrorax, {lanes} lanes: {ours:.3f} core-seconds a run")
    best = min(theirs.values())
    print(f"{best / ours:.2f} times the runs per core-hour of rejax at its best")
    print(f"passes through the networks alone: {alone:.3f} core-seconds, {best / alone:.2f} times")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", metavar="PYTHON", required=True, help="of rejax's environment")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--lanes", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--skip", choices=("speed", "returns"))
    args = parser.parse_args()
    os.sched_setaffinity(0, {CORES[-1]})
    if args.skip != "speed":
        compare_speed(args.peer, args.lanes, args.seconds)
    if args.skip != "returns":
        compare_returns(args.peer, args.seeds)


if __name__ == "__main__":
    main()
