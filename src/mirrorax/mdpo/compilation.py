"""The cache on disk: a program that was compiled once is loaded in a moment the next time.

The folder is named after the versions and the machine, because a compiled program holds machine
code. `MIRRORAX_COMPILE_CACHE` is another folder, or `off`. Importing this module needs no jax.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from pathlib import Path

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
    import jax
    from jaxlib.version import __version__ as jaxlib_version

    root = cache_folder("xla")
    if root is None:
        return None
    folder = root / f"jax-{jax.__version__}-jaxlib-{jaxlib_version}-{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a home that cannot be written costs time, not results
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(folder))
    update("jax_persistent_cache_min_compile_time_secs", 0.5)
    return folder
