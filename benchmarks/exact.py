"""The speed of exact PMD: the mirror step against the linear solve, and a batch against a loop.

    python benchmarks/exact.py

Times are the best of several repetitions in one run; what counts is the ratio in the last column.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # one core for everything: ratios, not records

import time

import numpy as np

from mirrorax.paper import axes
from mirrorax.tabular import MDP, evaluate, garnet, mirror_step, solve

PAIRS = tuple(axes.PAIRS.values())


def best_of(repetitions, function):
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def step_against_solve():
    mdp = garnet(1000, 10, branching=10, seed=0)
    policy = np.random.default_rng(1).dirichlet(np.ones(10), 1000)
    moves = np.einsum("sa,sat->st", policy, mdp.transitions)
    system, right = np.eye(1000) - mdp.gamma * moves, (policy * mdp.rewards).sum(-1)
    linear_solve = best_of(9, lambda: np.linalg.solve(system, right))
    print("exact PMD on a Garnet MDP of 1,000 states x 10 actions, float64")
    print(f"the linear solve of the evaluation (1,000 x 1,000): {1e3 * linear_solve:.1f} ms\n")
    print(f"{'h':<14}{'D':<24}{'mirror step':>12}{'step / solve':>14}")
    for h, d in PAIRS:
        q = evaluate(mdp, policy, h, 0.1).q
        step = best_of(7, lambda h=h, d=d, q=q: mirror_step(q, policy, h, d, 0.1, 1.0))
        print(f"{h:<14}{d:<24}{1e3 * step:>9.2f} ms{step / linear_solve:>14.2f}")


def batch_against_loop(count=1000, iterations=10):
    mdps = garnet(20, 4, seed=0, batch=(count,))
    alone = [MDP(mdps.transitions[i], mdps.rewards[i], mdps.gamma) for i in range(count)]
    print(f"\n{count:,} MDPs of 20 states x 4 actions, {iterations} iterations each\n")
    print(f"{'h':<14}{'D':<24}{'one call':>12}{'one by one':>14}{'ratio':>9}")
    for h, d in [PAIRS[2], PAIRS[5], PAIRS[6]]:
        together = best_of(3, lambda h=h, d=d: solve(mdps, h, d, 0.1, 1.0, iterations))
        sample = alone[:100]  # one by one is slow: timed on a tenth of them

        def loop(h=h, d=d, sample=sample):
            for mdp in sample:
                solve(mdp, h, d, 0.1, 1.0, iterations)

        apart = best_of(2, loop) * count / len(sample)
        print(f"{h:<14}{d:<24}{together:>10.2f} s{apart:>12.2f} s{apart / together:>9.1f}")


if __name__ == "__main__":
    step_against_solve()
    batch_against_loop()
