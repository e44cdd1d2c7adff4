"""How much of the study that a store recorded is there: a table of half of it must say so."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mirrorax.runs.results import Results, as_results


def reached(runs: Results | pa.Table, planned: pa.ChunkedArray) -> int:
    """Return how many of the planned runs are done."""
    results = as_results(runs)
    mine = pc.is_in(results.rows["run_id"], value_set=pc.unique(planned))
    return int((mine.to_numpy() & results.done).sum())


def unfinished(runs: Results | pa.Table, planned: pa.ChunkedArray | None) -> tuple[str, ...]:
    """Return a note where runs of the recorded study are not done; nothing where all are."""
    if planned is None:
        return ()
    done = reached(runs, planned)
    if done == len(planned):
        return ()
    return (f"the recorded study has {len(planned)} runs, {done} of them are done",)
