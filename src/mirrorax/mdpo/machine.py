"""The machine: its cache of compiled programs, its memory, the processes that train on its CPU,
and what a result records of it.

The cache is a folder named after the versions and the machine, because a compiled program holds
machine code. `MIRRORAX_COMPILE_CACHE` is another folder, or `off`.

One process with XLA's own threads on two cores is much slower than two single-threaded processes.
Imports none of the libraries that compute; only `enable_cache` does.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import mirrorax
from mirrorax._version import __version__
from mirrorax.runs.chunk import PROVENANCE

VARIABLE = "MIRRORAX_COMPILE_CACHE"


def _machine() -> str:
    """Return a short digest of the processor's kind and abilities."""
    seen = [platform.machine(), platform.processor(), platform.node()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        seen += sorted({line for line in lines if line.startswith(("model name", "flags"))})
    except OSError:
        pass  # no such file outside Linux: the names above have to do
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:12]


def cache_folder(name: str) -> Path | None:
    """Return the folder of one kind of cached data, or None where the cache is off."""
    choice = os.environ.get(VARIABLE, "")
    if choice.lower() == "off":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(choice) if choice else base / "mirrorax" / name


def enable_cache() -> Path | None:
    """Turn the cache on for this process; return its folder, or None where it is off."""
    root = cache_folder("xla")
    if root is None:
        return None
    folder = root / f"jax-{_version('jax')}-jaxlib-{_version('jaxlib')}-{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a home that cannot be written costs time, not results
    update = importlib.import_module("jax").config.update
    update("jax_compilation_cache_dir", str(folder))
    # Small programs too: there are about thirty at every start.
    update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


#: A worker's memory before its first lane: interpreter, jax, compiled programs.
BASE_BYTES = 550_000_000
#: Leave this share of the free memory to others.
_USABLE = 0.85


class Sizes(NamedTuple):
    """What one lane of a program needs."""

    #: replay buffer, networks with their optimisers, and the activations of an update
    lane_bytes: int

    def worker_bytes(self, lanes: int) -> int:
        """Return the memory of a process that trains so many lanes."""
        return BASE_BYTES + lanes * self.lane_bytes

    def lanes_that_fit(self, workers: int, free: int | None = None) -> int:
        """Return the largest lane width for which all workers fit in the free memory."""
        share = (available_bytes() if free is None else free) * _USABLE / max(workers, 1)
        return max(int((share - BASE_BYTES) // self.lane_bytes), 0)


def available_bytes() -> int:
    """Return the memory that is free for use on this machine, within the limits of its group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            free = min(free, int(limit) - used)
    except (OSError, ValueError):
        pass
    return max(free, 0)


XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
#: variables that keep a process to one thread
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": XLA_FLAGS,
}
#: the same, and on a CPU
ONE_CPU = {**ONE_THREAD, "JAX_PLATFORMS": "cpu"}


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with other variables; XLA flags are added to the user's."""
    flags = [os.environ.get("XLA_FLAGS", ""), variables.get("XLA_FLAGS", "")]
    return {**os.environ, **variables, "XLA_FLAGS": " ".join(flags).strip()}


def cores() -> list[int]:
    """Return the cores this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))


#: tells machines with one name apart
_MACHINE_ID = Path("/etc/machine-id")


def collect(*, hosted: bool = False, **fields: Any) -> dict[str, Any]:
    """Return the provenance of what this process has just computed.

    `hosted` says whether Gymnasium stepped the environment; `fields` are device, lanes and layout.
    """
    known = {
        **versions(),
        **_source(),
        "gymnasium_version": _version("gymnasium") if hosted else None,
        "host": host_hash(),
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **fields,
    }
    return {name: known.get(name) for name in PROVENANCE}


@cache
def versions() -> dict[str, str | None]:
    """Return the versions of what computes."""
    packages = {f"{name}_version": _version(name) for name in ("jax", "gymnax", "numpy")}
    return {"mirrorax_version": __version__, **packages}


@cache
def _source() -> dict[str, Any]:
    """Return the commit of the package, and whether its files were changed."""
    # An installed package inside another repository is not at that repository's commit.
    top = _git("rev-parse", "--show-toplevel")
    if top is None or not (Path(top) / "src" / "mirrorax").is_dir():
        return {}
    status = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": _git("rev-parse", "HEAD"), "dirty": None if status is None else bool(status)}


@cache
def host_hash() -> str:
    """Return a short hash that tells one machine from another, the same after a restart."""
    try:
        machine = _MACHINE_ID.read_text().strip()
    except OSError:
        machine = ""
    return hashlib.sha256(f"{socket.gethostname()}\0{machine}".encode()).hexdigest()[:12]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    folder = Path(mirrorax.__file__).resolve().parent
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()
