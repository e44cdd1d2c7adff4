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
import os
import socket
import time
import uuid
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from mirrorax.errors import UserError
from mirrorax.runs.arrow import Line
from mirrorax.runs.provenance import host_hash
from mirrorax.store import files
from mirrorax.store.files import StoreError


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


class Holder(BaseModel):
    """Who holds a store; the default is this process."""

    model_config = ConfigDict(frozen=True, strict=True)

    host: str = Field(default_factory=socket.gethostname)  # the host's name, for people
    host_hash: str = Field(default_factory=host_hash)
    pid: int = Field(default_factory=os.getpid)
    user: str = Field(default_factory=_user)
    since: str = Field(
        default_factory=lambda: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    )
    token: str = Field(default_factory=lambda: uuid.uuid4().hex)

    def describe(self) -> str:
        """Say who it is and since when, in a few words."""
        return f"process {self.pid} of {self.user} on {self.host}, since {self.since}"


_Amount = Annotated[float, Field(ge=0, lt=1e15)]
_Count = Annotated[int, Field(ge=0, lt=10**15)]


class LiveState(BaseModel):
    """What a running sweep is doing."""

    #: runs under way, of each environment and pair
    running: dict[Line, _Count] = {}
    #: runs per second, lately
    rate: _Amount
    seconds_left: _Amount
    workers: _Count
    #: the best cell so far, in words
    best: Line = ""
    at: float = Field(default_factory=time.time)
    pid: int = Field(default_factory=os.getpid)
    host_hash: str = Field(default_factory=host_hash)


_File = TypeVar("_File", bound=BaseModel)


def _read(path: Path, kind: type[_File]) -> _File | None:
    """Read a small file; None if it is not there, or not what this version writes."""
    try:
        held = kind.model_validate_json(files.read_bytes(path))
    except (OSError, ValueError):
        return None
    return held if held.model_fields_set == set(kind.model_fields) else None


def read_holder(root: Path) -> Holder | None:
    """Return who is written down as the holder, alive or not; None if nobody is."""
    return _read(root / "holder.json", Holder)


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
        self.me = Holder()
        if before is not None and before.host_hash != self.me.host_hash and not take_over:
            raise UserError(
                f"store: {self._root} is held by {before.describe()}; whether that process is "
                "alive cannot be seen from this machine: if it is not, add --take-over"
            )
        files.write_plain(self._root, "holder.json", self.me.model_dump_json().encode())
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


def write_live(root: Path, state: LiveState) -> None:
    """Replace the live state. It is a courtesy: a full disk must not stop the sweep here."""
    with contextlib.suppress(StoreError):
        files.write_plain(root, "live.json", state.model_dump_json().encode(), durable=False)


def read_live(root: Path) -> LiveState | None:
    """Return the live state of a sweep that is running now, or None."""
    state, holder = _read(root / "live.json", LiveState), read_holder(root)
    if state is None or holder is None or holder.pid != state.pid:
        return None
    if state.host_hash == host_hash():
        try:
            os.kill(state.pid, 0)  # no signal: whether there is such a process
        except PermissionError:
            pass  # somebody else's
        except (OSError, OverflowError):
            return None
    return state if time.time() - state.at < STALE_SECONDS else None


def clear_live(root: Path) -> None:
    """Remove the live state of a sweep that has ended."""
    (root / "live.json").unlink(missing_ok=True)
