"""Measure how often the intervals of the interplay hold the truth.

    python benchmarks/analysis_interplay.py [REPETITIONS]

Prints a table: for each kind of landscape (see analysis_landscapes.py), size and number of seeds,
how often the 95% interval of each share held it, and the mean width of that of the interaction.
200 repetitions take under a minute on one core. All numbers come from fixed seeds.
"""

from __future__ import annotations

import sys

import numpy as np
from analysis_landscapes import LANDSCAPES

from mirrorax.analysis.interplay import interplay

SEEDS = (2, 3, 5, 20)
SIDES = (6, 14, 28)
DIFFERENT = 4
PARTS = ("alpha", "lam", "interaction")


def truth_of(means: np.ndarray) -> np.ndarray | None:
    """The true shares of [alpha, lam, env] means; None where the landscape is flat."""
    result = interplay(means[..., None])
    shares = np.array([getattr(result, part).value for part in PARTS])
    return None if result.variance < 1e-9 else shares


def main(repetitions: int) -> None:
    shares_held: list[float] = []
    print("landscape | cells | seeds | alpha | lam | interaction | width | bias")
    for number, (name, make) in enumerate(LANDSCAPES.items()):
        for side in SIDES:
            for seeds in SEEDS:
                rng = np.random.default_rng([7, number, side, seeds])
                held, widths, errors = [], [], []
                for _ in range(DIFFERENT):
                    truth = make(side, rng)
                    shares = truth_of(truth.means)
                    if shares is None:
                        continue
                    for _ in range(repetitions // DIFFERENT):
                        result = interplay(truth.draw(seeds, rng))
                        parts = [getattr(result, part) for part in PARTS]
                        held.append(
                            [
                                p.interval.low - 1e-9 <= s <= p.interval.high + 1e-9
                                for p, s in zip(parts, shares, strict=True)
                            ]
                        )
                        interval = parts[2].interval
                        widths.append(interval.high - interval.low)
                        errors.append(parts[2].value - shares[2])
                if not held:
                    print(f"{name} | {side} x {side} | {seeds} | flat")
                    continue
                shares_held += np.mean(held, axis=0).tolist()
                cover = " | ".join(f"{100 * share:.0f}" for share in np.mean(held, axis=0))
                print(
                    f"{name} | {side} x {side} | {seeds} | {cover} | {np.mean(widths):.3f} | "
                    f"{np.nanmean(errors):+.3f}",
                    flush=True,
                )
    low = sum(share < 0.9 for share in shares_held)
    print(
        f"{repetitions} repetitions, {len(shares_held)} shares: mean {np.mean(shares_held):.3f}, "
        f"lowest {min(shares_held):.3f}, {low} below 0.90"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
