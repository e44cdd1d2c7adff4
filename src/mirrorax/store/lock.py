"""One writer at a time, and what it is doing: `DIR/live.json`, for `status`.

The lock is two things. `DIR/lock` is locked with `flock` while the writer lives: the kernel
releases it when the process dies or the machine restarts, so a dead holder on this machine never
blocks. `DIR/holder.json` says who holds it and since when: for the message, and for shared file
systems whose locks do not reach other machines. There a holder is believed until the user says
`--take-over`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import json
import os
import socket
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirrorax.errors import UserError
from mirrorax.runs.provenance import host_hash
from mirrorax.store import files
from mirrorax.store.files import StoreError


@dataclass(frozen=True)
class Holder:
    """Who holds a store."""

    host: str  # the host's name, for people
    host_hash: str
    pid: int
    user: str
    since: str
    token: str

    def describe(self) -> str:
        """Say who it is and since when, in a few words."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"


def _me() -> Holder:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"user {os.getuid()}"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return Holder(socket.gethostname(), host_hash(), os.getpid(), user, since, uuid.uuid4().hex)


def read_holder(root: Path) -> Holder | None:
    """Return who is written down as the holder, alive or not; None if nobody is."""
    try:
        data = json.loads(files.read_bytes(root / "holder.json"))
        holder = Holder(**{field: data[field] for field in Holder.__dataclass_fields__})
        texts = [value for name, value in vars(holder).items() if name != "pid"]
        sound = isinstance(holder.pid, int) and all(isinstance(text, str) for text in texts)
        return holder if sound else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


class Lock:
    """The right to write to a store, held until `release` or the end of the process."""

    def __init__(self, root: Path, *, take_over: bool = False) -> None:
        self._root = root
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(root / "lock", flags, 0o644)
        except OSError as error:
            raise files.explain(error, str(root / "lock")) from error
        try:
            self._acquire(take_over)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _acquire(self, take_over: bool) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise files.explain(error, str(self._root / "lock")) from error
            holder = read_holder(self._root)
            who = holder.describe() if holder else "another process"
            hint = " (it is alive: stop it first)" if take_over else ""
            raise UserError(f"store: {self._root} is held by {who}{hint}") from None
        before = read_holder(self._root)
        self.me = _me()
        if before is not None and before.host_hash != self.me.host_hash and not take_over:
            raise UserError(
                f"store: {self._root} is held by {before.describe()}; whether that process is "
                "alive cannot be seen from this machine: if it is not, add --take-over"
            )
        files.write_plain(self._root, "holder.json", json.dumps(asdict(self.me)).encode())
        self.check()

    def check(self) -> None:
        """Raise `StoreError` if somebody on another machine has taken the store over."""
        now = read_holder(self._root)
        if now is None or now.token != self.me.token:
            who = now.describe() if now else "somebody"
            raise StoreError(f"store: {self._root} was taken over by {who}")

    def release(self) -> None:
        """Give the store back."""
        if self._descriptor < 0:
            return
        now = read_holder(self._root)
        if now is not None and now.token == self.me.token:
            with contextlib.suppress(OSError):  # the kernel gives the lock back in any case
                (self._root / "holder.json").unlink()
        os.close(self._descriptor)
        self._descriptor = -1


#: A sweep that has not written for this long and cannot be seen is taken for dead.
STALE_SECONDS = 30.0


_LARGE = (OverflowError, RecursionError)


def write_live(root: Path, state: dict[str, Any]) -> None:
    """Replace the live state. It is a courtesy: a full disk must not stop the sweep here."""
    full = {**state, "at": time.time(), "pid": os.getpid(), "host_hash": host_hash()}
    try:
        files.write_plain(root, "live.json", json.dumps(full).encode(), durable=False)
    except StoreError:
        return


def read_live(root: Path) -> dict[str, Any] | None:
    """Return the live state of a sweep that is running now, or None."""
    try:
        state = json.loads(files.read_bytes(root / "live.json"))
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
    holder = read_holder(root)
    running = holder is not None and holder.pid == state["pid"] and age < STALE_SECONDS
    return state if running else None


def clear_live(root: Path) -> None:
    """Remove the live state of a sweep that has ended."""
    (root / "live.json").unlink(missing_ok=True)


def _signal_nothing(pid: int) -> None:
    """Raise `ProcessLookupError` if there is no such process (somebody else's is fine)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return
