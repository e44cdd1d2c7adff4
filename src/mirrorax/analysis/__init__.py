"""From a store's table to scores, robustness and honest intervals: numpy in, numpy out.

The way through this room:

    landscapes(table)          one `Landscape` per algorithm: runs on a grid of temperatures
    landscape.runs(...)        run scores [alpha, lam, env, seed]
    cell_scores(runs)          their means d(A)                       [alpha, lam]
    rbst, frequency, top       shares and means of those scores
    robustness(landscape)      the same with intervals (see `estimates`)

Nothing here imports jax.
"""

from __future__ import annotations

from mirrorax.analysis.estimates import difference, frequency_band, ranks, robustness
from mirrorax.analysis.landscape import Landscape, landscapes
from mirrorax.analysis.power_law import power_law
from mirrorax.analysis.reference import Reference, parse_reference, read_reference
from mirrorax.analysis.region import region
from mirrorax.analysis.scores import (
    cell_scores,
    environment_scores,
    frequency,
    mean_interval,
    mean_intervals,
    rbst,
    top,
)
from mirrorax.analysis.summary import summarise
from mirrorax.analysis.temperature import minimal_temperatures
from mirrorax.analysis.tuned import tuned_against_fixed

__all__ = [
    "Landscape",
    "Reference",
    "cell_scores",
    "difference",
    "environment_scores",
    "frequency",
    "frequency_band",
    "landscapes",
    "mean_interval",
    "mean_intervals",
    "minimal_temperatures",
    "parse_reference",
    "power_law",
    "ranks",
    "rbst",
    "read_reference",
    "region",
    "robustness",
    "summarise",
    "top",
    "tuned_against_fixed",
]
