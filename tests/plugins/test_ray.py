"""A Ray task imports the plugins of its chunk, from the folder the driver was started in."""

import os
import subprocess
import sys
from importlib.util import find_spec
from textwrap import dedent

import pytest

import mirrorax

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="the ray extra is not installed")

PLUGIN = """
import mirrorax

__version__ = "7"

class Thing:
    return_bounds = (0.0, 2.0)
    def step(self): ...

mirrorax.register_environment("Thing", Thing)
"""

STANDIN = """
import sys
import numpy as np
from mirrorax.runs.chunk import Outcome

def train_chunk(chunk, *, on_segment=None):
    assert chunk.settings.plugins == ("my_thing==7",)
    assert "my_thing" in sys.modules
    zeros = np.zeros((len(chunk), 3))
    never = np.full(len(chunk), -1)
    return Outcome(chunk, zeros, zeros, never, 0.1, (0.0, 2.0), {"lanes": chunk.lanes})
"""

STUDY = """
plugins = ["my_thing"]
environments = ["Thing"]
pairs = [["entropy", "kl"]]
alpha = [0.1, 0.2]
lam = 1.0
seeds = 2
"""

DRIVER = """
import os
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
import sys
import mirrorax
from ray.cluster_utils import Cluster
from mirrorax.spec.study import read
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engines.ray import RayEngine

cluster = Cluster()
node = {"node_ip_address": "127.0.0.1", "object_store_memory": 80 * 2**20}
cluster.add_node(num_cpus=1, include_dashboard=False, **node)
cluster.wait_for_nodes()
mirrorax.load_plugin("my_thing")
try:
    engine = lambda logs: RayEngine(address=cluster.address, function="chunk_standin:train_chunk")
    summary = run_study(read("study.toml"), "store", engine=engine, lanes=2)
finally:
    cluster.shutdown()
sys.exit(summary.exit_code)
"""


def test_a_task_on_a_cluster_imports_its_plugins(tmp_path):
    files = {"my_thing.py": PLUGIN, "chunk_standin.py": STANDIN, "study.toml": STUDY}
    for name, text in {**files, "drive.py": DRIVER}.items():
        (tmp_path / name).write_text(dedent(text))
    done = subprocess.run(
        [sys.executable, "drive.py"],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    table = mirrorax.load(tmp_path / "store", columns="all")
    assert table["status"].to_pylist() == ["done"] * 4
    assert table["plugins"].to_pylist() == [["my_thing==7"]] * 4
