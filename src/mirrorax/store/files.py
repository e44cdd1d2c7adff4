"""Atomic writing: temp file, fsync, read back, rename, fsync of the folder.

At every named point a *fault* function is called. In production it does nothing; a test makes it
kill the process, raise an error of the operating system, or note that the point was reached.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
from collections.abc import Callable
from pathlib import Path

from mirrorax.store import names
from mirrorax.store.errors import StoreError

Fault = Callable[[str], None]

#: The moments between which a write can be cut, in order.
POINTS = (
    "begin",
    "temp-opened",
    "temp-half-written",
    "temp-written",
    "temp-synced",
    "read-back",
    "renamed",
    "folder-synced",
)

_counter = itertools.count()

_EXPLAINED = {
    errno.ENOSPC: "no space left on the device; make room and run the same command again",
    errno.EDQUOT: "the disk quota is used up; make room and run the same command again",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.EIO: "the device reports an input/output error",
}


def no_fault(point: str) -> None:
    """Do nothing: what production runs with."""


def digest(data: bytes) -> str:
    """Return the digest that a file's name holds."""
    return hashlib.sha256(data).hexdigest()[:32]


def explain(error: OSError, what: str) -> StoreError:
    """Turn an error of the operating system into one clear line."""
    reason = _EXPLAINED.get(error.errno or 0, error.strerror or str(error))
    return StoreError(f"store: cannot write {what}: {reason}")


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(root: Path, kind: str, name: str, data: bytes, fault: Fault = no_fault) -> Path:
    """Write one immutable file of the store; it is visible whole or not at all."""
    target = names.inside(root, kind, name)
    return _write(root, target, data, fault, durable=True)


def write_plain(root: Path, name: str, data: bytes, *, durable: bool = True) -> Path:
    """Replace one of the few mutable files at the root of the store, atomically."""
    if name not in (names.MARK, "holder.json", "live.json"):
        raise names.UnsafeName(f"store: no file {name!r}")
    return _write(root, root / name, data, no_fault, durable=durable)


def _write(root: Path, target: Path, data: bytes, fault: Fault, *, durable: bool) -> Path:
    temp = names.inside(root, "tmp", f"{os.getpid()}-{next(_counter)}")
    try:
        fault("begin")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(temp, flags, 0o644), "wb", buffering=0) as file:
            fault("temp-opened")
            half = len(data) // 2
            _write_all(file.fileno(), data[:half])
            fault("temp-half-written")
            _write_all(file.fileno(), data[half:])
            fault("temp-written")
            if durable:
                os.fsync(file.fileno())
        fault("temp-synced")
        if durable and names.read_bytes(temp) != data:
            raise StoreError(f"store: {target.name} did not read back as it was written")
        fault("read-back")
        os.replace(temp, target)
        fault("renamed")
        if durable:
            sync_folder(target.parent)
        fault("folder-synced")
    except OSError as error:
        raise explain(error, str(target)) from error
    finally:
        with contextlib.suppress(OSError):
            temp.unlink()
    return target


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
