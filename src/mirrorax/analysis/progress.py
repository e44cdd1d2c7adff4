"""How much of the study that a store recorded is there: a table of half of it must say so."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def reached(table: pa.Table, planned: pa.ChunkedArray) -> int:
    """Return how many of the planned runs are done."""
    mine = pc.is_in(table["run_id"], value_set=pc.unique(planned))
    if "status" in table.column_names:
        mine = pc.and_(mine, pc.equal(table["status"], "done"))
    return int(pc.sum(mine).as_py() or 0)


def unfinished(table: pa.Table, planned: pa.ChunkedArray | None) -> tuple[str, ...]:
    """Return a note where runs of the recorded study are not done; nothing where all are."""
    if planned is None:
        return ()
    done = reached(table, planned)
    if done == len(planned):
        return ()
    return (f"the recorded study has {len(planned)} runs, {done} of them are done",)
