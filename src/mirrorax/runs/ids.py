"""Run ids between numpy and Arrow without a Python object for each: half a million of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WIDTH = 32


def to_arrow(ids: np.ndarray) -> pa.StringArray:
    """Return an array of 32-byte strings as Arrow text."""
    data = np.ascontiguousarray(ids, dtype=f"S{WIDTH}")
    offsets = np.arange(len(data) + 1, dtype=np.int32) * WIDTH
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(offsets), pa.py_buffer(data))


def from_arrow(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return Arrow text, all of it 32 digits long, as an array of 32-byte strings."""
    found = []
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk) == 0:
            continue
        widths = pc.min_max(pc.binary_length(chunk)).as_py()
        if chunk.null_count or widths != {"min": WIDTH, "max": WIDTH}:
            raise ValueError("a run id has 32 digits")
        first = chunk.offset
        offsets = np.frombuffer(chunk.buffers()[1], np.int32, len(chunk) + 1, first * 4)
        data = np.frombuffer(chunk.buffers()[2], f"S{WIDTH}", len(chunk), int(offsets[0]))
        found.append(data)
    return np.concatenate(found) if found else np.array([], dtype=f"S{WIDTH}")
