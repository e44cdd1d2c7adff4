"""What a running sweep is doing, written about once a second for `status` to read."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from mirrorax.runs.provenance import host_hash
from mirrorax.store import files, lock, names
from mirrorax.store.errors import StoreError

#: A sweep that has not written for this long and cannot be seen is taken for dead.
STALE_SECONDS = 30.0


_LARGE = (OverflowError, RecursionError)


def write(root: Path, state: dict[str, Any]) -> None:
    """Replace the live state. It is a courtesy: a full disk must not stop the sweep here."""
    full = {**state, "at": time.time(), "pid": os.getpid(), "host_hash": host_hash()}
    try:
        files.write_plain(root, "live.json", json.dumps(full).encode(), durable=False)
    except StoreError:
        return


def read(root: Path) -> dict[str, Any] | None:
    """Return the live state of a sweep that is running now, or None."""
    try:
        state = json.loads(names.read_bytes(root / "live.json"))
        age = time.time() - float(state["at"])
        for name in ("rate", "seconds_left", "workers"):
            if not 0 <= float(state[name]) < 1e15:
                raise ValueError
        if not all(isinstance(count, int) for count in state.get("running", {}).values()):
            raise ValueError
        if not str(state.get("best") or "").isprintable():
            raise ValueError
        if state["host_hash"] == host_hash():
            _signal_nothing(int(state["pid"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, *_LARGE):
        return None
    holder = lock.read_holder(root)
    running = holder is not None and holder.pid == state["pid"] and age < STALE_SECONDS
    return state if running else None


def clear(root: Path) -> None:
    """Remove the live state of a sweep that has ended."""
    (root / "live.json").unlink(missing_ok=True)


def _signal_nothing(pid: int) -> None:
    """Raise `ProcessLookupError` if there is no such process (somebody else's is fine)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return
