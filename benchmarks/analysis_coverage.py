"""Measure the coverage of the intervals and print it as Markdown (docs/analysis.md has the result).

python benchmarks/analysis_coverage.py [REPETITIONS]             # all of it
python benchmarks/analysis_coverage.py [REPETITIONS] exponent    # that of minimal temperatures
python benchmarks/analysis_coverage.py [REPETITIONS] runs        # the same, from runs on
"""

from __future__ import annotations

import sys
import time

import numpy as np
from analysis_synthetic import ALPHAS, LAMS
from scipy import stats

from mirrorax.analysis.coverage import Coverage, cell_study, study
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.temperature import THRESHOLDS, Minimal, smallest
from mirrorax.errors import UserError
from mirrorax.studies.panels import MAX_RETURNS

SEEDS = (2, 3, 5, 10)
RETURNS = np.array(sorted(MAX_RETURNS), dtype=float)
SPREADS = (0.0, 0.1, 0.2, 0.4)
#: Over how many decades of a temperature the chance that a run succeeds rises.
WIDTHS = (0.05, 0.15, 0.3, 0.45)
#: Runs of a value: three values of the other temperature, two seeds; and what one scores.
RUNS, FAILURE, SUCCESS = 6, 0.02, 1.0


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


def shown_by(grid: np.ndarray, truth: np.ndarray) -> list[Minimal]:
    """What a grid shows of minimal temperatures that are known."""
    return [
        Minimal("", x, *smallest((grid >= y).astype(float), grid, 0.5))
        for x, y in zip(RETURNS, truth, strict=True)
    ]


def means_of_runs(
    grid: np.ndarray, truth: np.ndarray, width: float, rng: np.random.Generator
) -> np.ndarray:
    """What runs score that fail or succeed, by chances that rise around a known temperature."""
    with np.errstate(divide="ignore"):
        chance = 1 / (1 + np.exp(-np.log10(grid / truth[:, None]) / width))
    return FAILURE + (SUCCESS - FAILURE) * rng.binomial(RUNS, chance) / RUNS


def taken_as_exact(points: list[Minimal]) -> tuple[float, float]:
    """Least squares through the logarithms of the values, with the usual interval."""
    kept = [(p.max_return, p.value) for p in points if not p.censored]
    x, y = np.log10(np.array(kept)).T
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(x) - 2) * fit.stderr
    return fit.slope - half, fit.slope + half


def from_runs(repetitions: int) -> None:
    """Temperatures that grow linearly, seen through six runs of each value of the paper's grids."""
    print(f"\n### exponent of minimal temperatures, from runs on, {repetitions} repetitions\n")
    heads = " | ".join(f"rises over {width:g} decades" for width in WIDTHS)
    print(f"| temperature | threshold | {heads} |")
    print("|---|---|" + "---:|" * len(WIDTHS))
    for name, grid, low, high in (("alpha", ALPHAS, 0.02, 0.3), ("lambda", LAMS, 1.0, 100.0)):
        rng = np.random.default_rng(11)
        rows: dict[str, list[str]] = {f"{level:g}": [] for level in THRESHOLDS} | {"both": []}
        for width in WIDTHS:
            held, widths = np.full((2, repetitions, len(THRESHOLDS)), np.nan)
            for k in range(repetitions):
                truth = np.exp(rng.uniform(np.log(low), np.log(high))) / 500 * RETURNS
                scores = means_of_runs(grid, truth, width, rng)
                for i, level in enumerate(THRESHOLDS):
                    points = [
                        Minimal("", x, *smallest(means, grid, level))
                        for x, means in zip(RETURNS, scores, strict=True)
                    ]
                    try:
                        law = power_law(points)
                    except UserError:
                        continue  # too few values work for a law
                    held[k, i], widths[k, i] = law.low <= 1 <= law.high, law.high - law.low
            for i, level in enumerate(THRESHOLDS):
                share, middle = np.nanmean(held[:, i]), np.nanmedian(widths[:, i])
                rows[f"{level:g}"].append(f"{100 * share:.0f}% ({middle:.2f})")
            whole = held[np.isfinite(held).all(axis=1)]
            rows["both"].append(f"{100 * whole.all(axis=1).mean():.0f}%")
        for threshold, cells in rows.items():
            print(f"| {name} | {threshold} | " + " | ".join(cells) + " |", flush=True)


def exponents(repetitions: int) -> None:
    """Temperatures that grow linearly, seen through the paper's grids."""
    print(f"\n### exponent of minimal temperatures, {repetitions} repetitions\n")
    print("| temperature | fitted to | " + " | ".join(f"noise {s:.0%}" for s in SPREADS) + " |")
    print("|---|---|" + "---:|" * len(SPREADS))
    for name, grid, low, high in (("alpha", ALPHAS, 0.02, 0.3), ("lambda", LAMS, 1.0, 100.0)):
        rng = np.random.default_rng(7)
        rows: dict[str, list[str]] = {"values": [], "brackets": []}
        for spread in SPREADS:
            held: dict[str, list[tuple[bool, float]]] = {"values": [], "brackets": []}
            for _ in range(repetitions):
                scale = np.exp(rng.uniform(np.log(low), np.log(high))) / 500
                truth = scale * RETURNS * np.exp(rng.normal(0, spread, len(RETURNS)))
                points = shown_by(grid, truth)
                law = power_law(points)
                for way, ends in (
                    ("values", taken_as_exact(points)),
                    ("brackets", (law.low, law.high)),
                ):
                    held[way].append((ends[0] <= 1 <= ends[1], ends[1] - ends[0]))
            for way, found in held.items():
                share, width = np.mean([h for h, _ in found]), np.median([w for _, w in found])
                rows[way].append(f"{100 * share:.0f}% ({width:.2f})")
        for way, cells in rows.items():
            print(f"| {name} | {way} | " + " | ".join(cells) + " |")
        sys.stdout.flush()


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    start = time.perf_counter()
    if sys.argv[2:] != ["runs"]:
        exponents(repetitions)
    if sys.argv[2:] != ["exponent"]:
        from_runs(repetitions)
    if sys.argv[2:]:
        print(f"\n{time.perf_counter() - start:.0f} s")
        return
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
