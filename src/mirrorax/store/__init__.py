"""What is known of the runs: immutable Parquet shards in a folder. Imports no jax.

    DIR/mirrorax-store.json   the mark and format of a store
    DIR/shards/               00000012-<digest>.parquet, one per finished chunk: the truth
    DIR/parts/                <digest>.parquet, a consolidated copy for fast loading; rebuildable
    DIR/studies/              00000001-<digest>.parquet, the studies that were run, expanded
    DIR/quarantine/           damaged shards, set aside
    DIR/tmp/                  files being written, workers' logs; emptied at the next start
    DIR/lock, DIR/holder.json who may write, and since when
    DIR/live.json             what a running sweep is doing, for `status`

A file's name holds the digest of its content, and it appears by one atomic rename: what is visible
is complete. Readers take no lock.

- `files`: names, atomic writing.    - `store`: the writer's view: one at a time.
- `reading`: the reader's view, recorded studies, and the consolidated copy.
- `exporting`: exports, imports, and `read_results` for all.
"""

from mirrorax.store.exporting import export, load, load_curves, read_results
from mirrorax.store.store import Store

__all__ = ["Store", "export", "load", "load_curves", "read_results"]
