"""What a reader wants to know first: which study, how far, what went wrong, with what."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.analysis import columns
from mirrorax.analysis.progress import reached

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

    def plain(self) -> dict[str, Any]:
        """Return the facts as JSON can hold them."""
        return asdict(self)


def facts(
    table: pa.Table,
    *,
    title: str,
    made: str,
    planned: pa.ChunkedArray | None = None,
    study: str = "",
    refresh: int = 0,
) -> Facts:
    """Count what the table holds; `planned` are the run ids of the study, where one is known."""
    state = table["status"] if "status" in table.column_names else pa.repeat("done", table.num_rows)
    done = int(pc.sum(pc.equal(state, "done")).as_py() or 0)
    diverged = columns.numbers(table, "diverged", 0.0) == 1
    seconds = columns.numbers(table, "wall_seconds")
    return Facts(
        title=title,
        made=made,
        planned=None if planned is None else len(planned),
        reached=None if planned is None else reached(table, planned),
        done=done,
        failed=table.num_rows - done,
        diverged=int(diverged.sum()),
        core_hours=float(np.nansum(seconds)) / 3600 if np.isfinite(seconds).any() else None,
        failures=_failures(table),
        versions=_versions(table),
        study=study,
        refresh=refresh,
    )


def _failures(table: pa.Table) -> list[tuple[str, int]]:
    if "failure" not in table.column_names:
        return []
    counted = pc.value_counts(table["failure"].combine_chunks().drop_null()).to_pylist()
    rows = [(str(item["values"]), int(item["counts"])) for item in counted]
    return sorted(rows, key=lambda row: -row[1])[:_SHOWN]


def _versions(table: pa.Table) -> list[tuple[str, list[str]]]:
    out = []
    for name in columns.PROVENANCE:
        if name in table.column_names:
            values = [v for v in pc.unique(table[name]).to_pylist() if v is not None]
            if values:
                out.append((name, sorted(map(str, values))[:_SHOWN]))
    return out
