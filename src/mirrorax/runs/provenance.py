"""Where a result comes from: versions, commit, device, machine. Imports none of the libraries."""

from __future__ import annotations

import hashlib
import importlib.metadata
import socket
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import mirrorax
from mirrorax._version import __version__

#: The fields of an outcome's provenance and their types. A field that does not apply is None.
FIELDS: dict[str, type] = {
    "finished_at": str,
    "mirrorax_version": str,
    "commit": str,
    "dirty": bool,
    "jax_version": str,
    "gymnax_version": str,
    "gymnasium_version": str,  # None where Gymnasium does not step the environment
    "numpy_version": str,
    "device": str,
    "lanes": int,
    "layout": str,
    "host": str,  # see `host_hash`
}

#: Fields on which a result may depend. The planner says where they differ within a store.
DIFFERING = (
    "lanes",
    "layout",
    "device",
    "jax_version",
    "gymnax_version",
    "gymnasium_version",
    "mirrorax_version",
    "commit",
)

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
    return {name: known.get(name) for name in FIELDS}


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
