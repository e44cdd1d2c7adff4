"""Measure the coverage of the intervals and print it as Markdown (docs/analysis.md has the result).

python benchmarks/analysis_coverage.py [REPETITIONS]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from mirrorax.analysis.coverage import Coverage, cell_study, study

SEEDS = (2, 3, 5, 10)


def table(title: str, rows: list[Coverage]) -> None:
    print(f"\n### {title}\n")
    print("| noise | method | " + " | ".join(f"{n} seeds" for n in SEEDS) + " |")
    print("|---|---|" + "---:|" * len(SEEDS))
    keys = dict.fromkeys((row.noise, row.method) for row in rows)
    for noise, method in keys:
        mine = {row.seeds: row for row in rows if (row.noise, row.method) == (noise, method)}
        cells = [f"{100 * mine[n].held:.0f}% ({mine[n].width:.4f})" for n in SEEDS]
        print(f"| {noise} | {method} | " + " | ".join(cells) + " |")
    for noise in dict.fromkeys(row.noise for row in rows):
        mine = {row.seeds: row for row in rows if row.noise == noise}
        if any(row.bias for row in mine.values()):
            parts = [f"{mine[n].bias:+.4f} -> {mine[n].corrected_bias:+.4f}" for n in SEEDS]
            print(f"\n{noise}: truth {mine[5].truth:.4f}; bias, plain -> corrected: {parts}")
    sys.stdout.flush()


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = time.perf_counter()
    table(
        f"Rbst_0.9, {repetitions} repetitions",
        study(np.random.default_rng(1), repetitions=repetitions, resamples=400),
    )
    for threshold, top in ((0.95, 1.0), (0.9, 0.93)):
        rows = study(
            np.random.default_rng(2),
            repetitions=repetitions,
            threshold=threshold,
            top=top,
            methods=("corrected",),
            resamples=400,
        )
        name = f"Rbst_{threshold}, best cells at {top}, {repetitions} repetitions"
        table(name, rows)
    rows = study(
        np.random.default_rng(3),
        repetitions=repetitions,
        quantity="frequency",
        methods=("percentile", "corrected"),
        resamples=400,
    )
    table(f"freq(0.9), {repetitions} repetitions", rows)
    rows = study(
        np.random.default_rng(5),
        repetitions=repetitions,
        quantity="difference",
        methods=("corrected",),
        resamples=400,
    )
    table(f"difference of two Rbst_0.9, {repetitions} repetitions", rows)
    rows = study(
        np.random.default_rng(6),
        repetitions=repetitions,
        methods=("percentile", "corrected"),
        resamples=400,
        side=9,
    )
    table(f"Rbst_0.9 on a grid of 9 x 9, {repetitions} repetitions", rows)
    for environments in (4, 1):
        rows = cell_study(np.random.default_rng(4), repetitions=4, environments=environments)
        table(f"one cell, environments: {environments}", rows)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
