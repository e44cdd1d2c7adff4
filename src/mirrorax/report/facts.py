"""What a reader wants to know first: which study, how far, what went wrong, with what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mirrorax.analysis.summary import reached
from mirrorax.runs.provenance import FIELDS
from mirrorax.runs.results import Results, as_results

_SHOWN = 20  # distinct reasons of failure


@dataclass(frozen=True)
class Facts:
    """Facts about a store, ready to be shown; all of it is text or numbers."""

    title: str
    made: str
    planned: int | None  # runs of the study recorded last; None where the store knows of none
    reached: int | None  # how many of those are done
    done: int
    failed: int
    diverged: int
    core_hours: float | None
    failures: list[tuple[str, int]] = field(default_factory=list)
    versions: list[tuple[str, list[str]]] = field(default_factory=list)
    study: str = ""  # the study's own text
    refresh: int = 0  # seconds after which the page reloads itself; 0: never


def facts(
    runs: Results | pa.Table,
    *,
    title: str,
    made: str,
    planned: pa.ChunkedArray | None = None,
    study: str = "",
    refresh: int = 0,
) -> Facts:
    """Count what the table holds; `planned` are the run ids of the study, where one is known."""
    results = as_results(runs)
    failures: Counter[str] = Counter()
    counts = np.bincount(results.origin, minlength=len(results.origins))
    for origin, count in zip(results.origins, counts, strict=True):
        if origin.failure is not None and count:
            failures[origin.failure] += int(count)
    known = {name: results.provenance(name) for name in FIELDS if name != "finished_at"}
    versions = [(name, [str(v) for v in values][:_SHOWN]) for name, values in known.items()]
    done = int(results.done.sum())
    seconds = results.numbers("wall_seconds")
    return Facts(
        title=title,
        made=made,
        planned=None if planned is None else len(planned),
        reached=None if planned is None else reached(results, planned),
        done=done,
        failed=len(results) - done,
        diverged=int(results.diverged.sum()),
        core_hours=float(np.nansum(seconds)) / 3600 if np.isfinite(seconds).any() else None,
        failures=failures.most_common(_SHOWN),
        versions=[(name, values) for name, values in versions if values],
        study=study,
        refresh=refresh,
    )
