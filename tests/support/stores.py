"""Outcomes and stores made up, for tests that read results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorax.envs import suite
from mirrorax.runs.chunk import Chunk, Outcome
from mirrorax.runs.results import as_results
from mirrorax.spec.study import Runs
from mirrorax.store.exporting import add
from mirrorax.store.store import Store


def fill(folder: Path, table: pa.Table) -> Path:
    """Commit the runs of a table to a store; their ids are computed anew."""
    without = [name for name in table.column_names if name != "run_id"]
    with Store(folder) as store:
        add(store, as_results(table.select(without)))
    return folder


def made_outcome(runs: Runs, shift: float = 0.0, **fields: Any) -> Outcome:
    """Return an outcome of runs of one configuration: counted numbers, every fourth diverged."""
    count = len(runs)
    settings = runs.configurations[int(runs.configuration[0])]
    returns = np.arange(count * 10, dtype=float).reshape(count, 10) + shift
    diverged_at = np.where(np.arange(count) % 4 == 3, 17, -1)
    known = {
        "bounds": suite.environment(settings.environment).bounds,
        "provenance": {"jax_version": "0.10.2", "device": "cpu", "lanes": 8},
        **fields,
    }
    chunk = Chunk(settings, runs.values, 8)
    return Outcome(chunk, returns, returns + 0.5, diverged_at, 6.0, **known)


def failed_outcome(runs: Runs, reason: str) -> Outcome:
    """Return the outcome of runs that were given up."""
    settings = runs.configurations[int(runs.configuration[0])]
    return Outcome.failed(Chunk(settings, runs.values, 8), reason, {})


def of_configuration(runs: Runs, which: int) -> Runs:
    """Return the runs of one configuration."""
    return runs.select(np.flatnonzero(runs.configuration == which))
