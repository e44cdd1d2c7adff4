"""Where a result comes from: versions, commit, device, machine. `here` imports none of them."""

from __future__ import annotations

import importlib.metadata
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import mirrorax
from mirrorax._version import __version__
from mirrorax.envs import suite
from mirrorax.store.lock import host_hash


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str | None:
    folder = Path(mirrorax.__file__).resolve().parent
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def of(environment: str) -> dict[str, Any]:
    """Return the provenance of runs in an environment: Gymnasium counts where it steps it."""
    return {**here(), "gymnasium_version": _version("gymnasium") if _hosted(environment) else None}


def _hosted(environment: str) -> bool:
    """Whether Gymnasium steps an environment, under its own name or under a user's."""
    family = suite.environment(environment).family
    if family != "own":
        return family == "gymnasium"
    from mirrorax.envs.host import Gymnasium  # a worker, which has trained in it, has jax

    return isinstance(suite.load(environment), Gymnasium)


@cache
def here() -> dict[str, Any]:
    """Return the provenance of what this process computes."""
    # An installed package inside somebody else's repository is not at that repository's commit.
    top = _git("rev-parse", "--show-toplevel")
    ours = top is not None and (Path(top) / "src" / "mirrorax").is_dir()
    status = _git("status", "--porcelain", "--untracked-files=no") if ours else None
    return {
        "mirrorax_version": __version__,
        "commit": _git("rev-parse", "HEAD") if ours else None,
        "dirty": None if status is None else bool(status),
        "jax_version": _version("jax"),
        "gymnax_version": _version("gymnax"),
        "numpy_version": _version("numpy"),
        "host": host_hash(),
    }
