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
in turns; each library at its best number of lanes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path

import numpy as np
from scipy import stats
from train_speed import CORES, core_seconds

import mirrorax
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
            "CartPole", seeds=seeds, lanes=seeds, progress=False, **fields, **VALUES
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


def compare_speed(python: str, lanes: int, seconds: float) -> None:
    """Print core-seconds of a run, in turns, and the ratio of runs per core-hour."""
    keys = np.random.default_rng(0).integers(0, 2**32, (lanes, 2), dtype=np.uint32)
    settings = make_settings(environment="CartPole", **FIELDS)
    columns = {name: [value] * lanes for name, value in VALUES.items()}
    session = Session(make_chunk(settings, columns, lanes, keys))
    ours, theirs = float("inf"), {}
    for _ in range(2):
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
