"""The same chunks on a real multi-node Ray cluster, with a node removed in mid-run."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pyarrow.parquet as pq
import pytest
from harness import HERE

from mirrorax.store import files

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="the ray extra is not installed")


def test_all_runs_arrive_once_when_a_node_is_removed_in_mid_run(driver, expected, tmp_path):
    store = tmp_path / "store"
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "ray_cluster.py"), str(driver.study), str(store)],
        env={**os.environ, "PYTHONPATH": path, "STANDIN_SECONDS": "0.8"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["done"], told["failed"], told["total"]) == (48, 0, 48)
    assert 2 <= told["removed_at"] < told["shards"], "the node went after the work was done"
    # None twice: every run is in exactly one shard.
    seen = []
    for name in files.listed(store, "shards"):
        seen += pq.read_table(store / "shards" / name)["run_id"].to_pylist()
    assert len(seen) == len(set(seen)) == 48
    # Bit-identical to the uninterrupted local one.
    assert driver.exported(store) == expected
