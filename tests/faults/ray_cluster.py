"""A sweep on a Ray cluster of three nodes, one of which is removed while it works.

Run as a process of its own: `ray_cluster.py STUDY STORE [FUNCTION]`. Prints what happened as JSON.
"""

import json
import os
import sys
import threading
import time

os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Keep to 127.0.0.1: otherwise Ray replaces it by the machine's outward address.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

from ray.cluster_utils import Cluster

from mirrorax.spec.study import read
from mirrorax.store import files
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engines.ray import RayEngine


def main() -> int:
    study, store = sys.argv[1:3]
    function = sys.argv[3] if len(sys.argv) > 3 else "standin:train_chunk"
    lanes = int(sys.argv[4]) if len(sys.argv) > 4 else 4
    cluster = Cluster()
    small = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
    # The driver is on the first node, which computes nothing: all work is on the other two.
    cluster.add_node(num_cpus=0, include_dashboard=False, **small)
    stays = cluster.add_node(num_cpus=1, **small)
    goes = cluster.add_node(num_cpus=1, **small)
    cluster.wait_for_nodes()
    removed_at = None

    def remove() -> None:
        nonlocal removed_at
        while len(files.listed(store_path, "shards")) < 2:
            time.sleep(0.05)
        cluster.remove_node(goes, allow_graceful=False)
        removed_at = len(files.listed(store_path, "shards"))

    from pathlib import Path

    store_path = Path(store)
    thread = threading.Thread(target=remove, daemon=True)
    thread.start()
    try:
        summary = run_study(
            read(study),
            store,
            engine=lambda logs: RayEngine(address=cluster.address, function=function),
            lanes=lanes,
            progress=False,
        )
    finally:
        cluster.remove_node(stays)
        cluster.shutdown()
    print(
        json.dumps(
            {
                "done": summary.done,
                "failed": summary.failed,
                "total": summary.total,
                "removed_at": removed_at,
                "shards": len(files.listed(store_path, "shards")),
            }
        )
    )
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main())
