"""The writer's view of a store: hold it, commit shards, set damaged ones aside.

The lock is two things. `DIR/lock` is locked with `flock` while the writer lives: the kernel
releases it when the process dies or the machine restarts, so a dead holder on this machine never
blocks. `DIR/holder.json` says who holds it and since when: for the message, and for shared file
systems whose locks do not reach other machines. There a holder is believed until the user says
`--take-over`. What the writer is doing stands in `DIR/live.json`, for `status`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import getpass
import os
import shutil
import socket
import time
import uuid
from pathlib import Path
from typing import Annotated, TypeVar

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from mirrorax._version import ALGORITHM_VERSION
from mirrorax.errors import UserError
from mirrorax.mdpo.machine import host_hash
from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import Line
from mirrorax.spec.study import Runs, Study
from mirrorax.store import files, reading
from mirrorax.store.files import StoreError


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())


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
    since: str = Field(default_factory=_now)
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
    #: runs per second
    rate: _Amount
    seconds_left: _Amount
    workers: _Count
    #: the best cell so far, in words
    best: Line = ""
    at: float = Field(default_factory=time.time)


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
                for name in ("live.json", "holder.json"):
                    (self._root / name).unlink(missing_ok=True)
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
    if state is None or holder is None:
        return None
    if holder.host_hash == host_hash():
        try:
            os.kill(holder.pid, 0)  # no signal: whether there is such a process
        except PermissionError:
            pass  # somebody else's
        except (OSError, OverflowError):
            return None
    return state if time.time() - state.at < STALE_SECONDS else None


class Store:
    """A store held for writing. Use it as a context manager."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        take_over: bool = False,
        fault: files.Fault = files.no_fault,
    ) -> None:
        self.root = files.create(directory)
        self._fault = fault
        #: what makes this process the only one that writes
        self.lock = Lock(self.root, take_over=take_over)
        try:
            self._sweep_temp()
            #: the damaged shards, with the reason
            self.set_aside = self._quarantine_damaged()
        except OSError as error:
            self.lock.release()
            raise files.explain(error, str(self.root)) from error
        except BaseException:
            self.lock.release()
            raise
        present = files.listed(self.root, "shards")
        self._next = max(map(files.sequence_in, present), default=0) + 1
        #: shards in the consolidated copy, and those committed since
        self._copied = len(reading.copied(self.root, present)[1])
        self._since = len(present) - self._copied

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the store back."""
        self.lock.release()

    def commit(self, data: bytes) -> str:
        """Write the bytes of one `Outcome`; when this returns they are safe. Return the name.

        Raises `Damaged` if they are not the bytes of a well-formed outcome.
        """
        results.from_arrow(arrow.decode(data)).check_ids()
        number, self._next = self._next, self._next + 1  # used once, whatever comes of it
        name = f"{number:08d}-{files.digest(data)}.parquet"
        files.write(self.root, "shards", name, data, self._fault)
        self._since += 1
        if self._since >= max(reading.FULL, self._copied // 4):
            self.consolidate()
        return name

    def consolidate(self) -> None:
        """Bring the copy for fast loading up to date."""
        reading.consolidate(self.root, self._fault)
        self._copied, self._since = self._copied + self._since, 0

    def record(self, study: Study, runs: Runs, lanes: int) -> None:
        """Write down which study is being run: its runs, expanded, and what is known of it."""
        # Another version of a plugin makes other runs of the same text.
        plugins = sorted({text for settings in runs.configurations for text in settings.plugins})
        known = {
            "study": study.id,
            "lanes": lanes,
            "algorithm_version": ALGORITHM_VERSION,
            "plugins": plugins,
        }
        last = reading.latest_study(self.root)
        if last is not None and all(getattr(last, name) == known[name] for name in known):
            return
        head = {
            **known,
            "name": study.name,
            "text": study.text,
            "recorded_at": _now(),
            "settings": [settings.model_dump(mode="json") for settings in runs.configurations],
        }
        columns = {
            "run_id": arrow.id_column(runs.ids),
            "configuration": pa.array(runs.configuration, pa.int32()),
        }
        data = arrow.encode(arrow.with_head(pa.table(columns), head), compact=True)
        number = max(map(files.sequence_in, files.listed(self.root, "studies")), default=0) + 1
        name = f"{number:08d}-{files.digest(data)}.parquet"
        files.write(self.root, "studies", name, data, self._fault)

    def scratch(self, name: str) -> Path:
        """Return a folder for files that the next start may delete."""
        path = files.inside(self.root, "tmp", name)
        path.mkdir(exist_ok=True)
        return path

    def _sweep_temp(self) -> None:
        """Remove what an earlier writer, dead by now, left half-done."""
        (self.root / "live.json").unlink(missing_ok=True)
        for entry in os.scandir(files.folder(self.root, "tmp")):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)

    def _quarantine_damaged(self) -> dict[str, str]:
        """Move damaged shards out of the way; return them with the reason.

        These are files with a wrong digest, and ill-formed shards that no copy covers: a copy is
        made of well-formed shards only. A link in the place of a shard is moved too, and what it
        points to is left alone.
        """
        reader = reading.Reader(self.root, ["diverged_at"], every=True)
        reader.read_new()
        shards, quarantine = (files.folder(self.root, kind) for kind in ("shards", "quarantine"))
        for name in reader.damaged:
            number = 1
            while os.path.lexists(target := quarantine / f"{name}.{number}"):
                number += 1
            os.replace(shards / name, target)
        if reader.damaged:
            files.sync_folder(quarantine)
            files.sync_folder(shards)
        return {f"shards/{name}": why for name, why in reader.damaged.items()}
