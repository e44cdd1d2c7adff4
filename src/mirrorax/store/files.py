"""The files of a store: their names, and atomic writing.

Every path below the store's root is made here, from a name that must match its folder's pattern
exactly: nothing with a separator, a dot-dot or a NUL can match. Folders and files that are symbolic
links are refused, so that no name leads out of the store.

A file is written to a temporary one, synced, read back, renamed, and its folder synced. At every
named point a *fault* function is called. In production it does nothing; a test makes it
kill the process, raise an error of the operating system, or note that the point was reached.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mirrorax._version import __version__
from mirrorax.errors import Failure, UserError, plain
from mirrorax.runs.arrow import FORMAT, Damaged


class StoreError(Failure):
    """The store cannot be written or read; the text says why and what to do, in one line."""

    def __init__(self, text: object = "") -> None:
        super().__init__(plain(text))


class DamagedShardWarning(UserWarning):
    """A shard was left out of a table because it is damaged."""


MARK = "mirrorax-store.json"
_MEND = f'the runs are not touched by that: replace it by a file that holds {{"format": {FORMAT}}}'

_NUMBERED = re.compile(r"[0-9]{8}-[0-9a-f]{32}\.parquet", re.ASCII)
PATTERNS = {
    "shards": _NUMBERED,
    "parts": re.compile(r"[0-9a-f]{32}\.parquet", re.ASCII),
    "studies": _NUMBERED,
    "quarantine": re.compile(rf"{_NUMBERED.pattern}(\.[0-9]+)?", re.ASCII),
    "tmp": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII),
}


class UnsafeName(UserError):
    """A name that could lead out of the store."""


def folder(root: Path, kind: str) -> Path:
    """Return a folder of the store; refuse one that is a symbolic link."""
    path = root / kind
    if kind not in PATTERNS:
        raise UnsafeName(f"store: no folder {kind!r}")
    if path.is_symlink():
        raise UnsafeName(f"store: {path} is a symbolic link; folders of a store are not")
    return path


def inside(root: Path, kind: str, name: str) -> Path:
    """Return the path of a file of the store; refuse a name that does not belong there."""
    place = folder(root, kind)
    if not isinstance(name, str) or not PATTERNS[kind].fullmatch(name):
        raise UnsafeName(f"store: {name!r} is no name of a file in {kind}/")
    path = place / name
    if path.is_symlink():
        raise UnsafeName(f"store: {path} is a symbolic link; files of a store are not")
    return path


def digest_in(name: str) -> str:
    """Return the digest that a file's name promises."""
    return name.removesuffix(".parquet")[-32:]


def sequence_in(name: str) -> int:
    """Return a shard's place in the order of writing."""
    return int(name[:8])


def listed(root: Path, kind: str) -> list[str]:
    """Return the names of the well-named regular files of a folder, sorted."""
    return [name for name, problem in entries(root, kind) if problem is None]


def entries(root: Path, kind: str) -> list[tuple[str, str | None]]:
    """Return every entry of a folder with what is wrong with it (or None), sorted by name."""
    place = folder(root, kind)
    listing: list[tuple[str, str | None]] = []
    try:
        with os.scandir(place) as scan:
            for entry in scan:
                problem = None
                if entry.is_symlink():
                    problem = "is a symbolic link"
                elif not PATTERNS[kind].fullmatch(entry.name):
                    problem = "has no name of a file of this store"
                elif not entry.is_file(follow_symlinks=False):
                    problem = "is not a file"
                listing.append((entry.name, problem))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(listing)


def read_bytes(path: Path) -> bytes:
    """Read a regular file whole, without following a symbolic link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafeName(f"store: {path} is not a regular file")
        return file.read()


def read_verified(root: Path, kind: str, name: str) -> bytes:
    """Return the content of a file; raise `Damaged` unless it has the digest in its name."""
    data = read_bytes(inside(root, kind, name))
    if digest(data) != digest_in(name):
        raise Damaged(f"{name}: the content does not have the digest in its name")
    return data


def check_mark(root: Path, field: str = "store") -> bool:
    """Return whether `root` is a store; raise `UserError` for one this version cannot read."""
    try:
        written = read_bytes(root / MARK)
        data = json.loads(written)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{field}: cannot read {root / MARK}: {error}") from None
    known = isinstance(data, dict) and set(data) <= {"format", "created_by", "digest"}
    if not known or ("digest" in data and written != mark(data)):
        raise UserError(f"{field}: {root / MARK} is damaged; {_MEND}")
    number = data.get("format")
    if type(number) is not int:
        raise UserError(f"{field}: {root / MARK} has no format; {_MEND}")
    if number != FORMAT:
        raise UserError(
            f"{field}: {root} has format {number}; this version of mirrorax reads format {FORMAT}"
        )
    return True


def mark(data: Mapping[str, Any]) -> bytes:
    """Return the bytes of the mark of a store: what it says, and the digest of that.

    Marks of older stores have no digest.
    """
    content = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True)
    return json.dumps(
        {**content, "digest": hashlib.sha256(text.encode()).hexdigest()[:32]}
    ).encode()


def as_path(place: str | os.PathLike[str], field: str = "store") -> Path:
    """Return a path that somebody named; raise `UserError` if it cannot be one."""
    text = os.fspath(place)
    if not isinstance(text, str) or "\0" in text or not text:
        raise UserError(f"{field}: {text!r} is no path")
    return Path(text)


def existing(directory: str | os.PathLike[str]) -> Path:
    """Return the root of a store that must exist; raise `UserError` otherwise."""
    root = as_path(directory)
    if root.exists() and not root.is_dir():
        raise UserError(f"store: {root} is a file; a store is a folder")
    if not root.is_dir():
        raise UserError(f"store: {root} does not exist; 'mirrorax sweep run' makes one")
    if not check_mark(root):
        raise UserError(f"store: {root} is not a store (it has no {MARK})")
    return root


def create(directory: str | os.PathLike[str]) -> Path:
    """Make an empty store, or return the root of the one that is there."""
    root = as_path(directory)
    if root.exists() and not root.is_dir():
        raise UserError(f"store: {root} is a file; a store is a folder")
    try:
        if not check_mark(root):
            if root.is_dir() and any(entry.name != "tmp" for entry in root.iterdir()):
                raise UserError(
                    f"store: {root} is not empty and not a store; choose another folder"
                )
            folder(root, "tmp").mkdir(parents=True, exist_ok=True)
            content = {"format": FORMAT, "created_by": f"mirrorax {__version__}"}
            write_plain(root, MARK, mark(content))
        for kind in PATTERNS:
            folder(root, kind).mkdir(exist_ok=True)
    except OSError as error:
        raise explain(error, str(root)) from error
    return root


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


def write(root: Path, kind: str, name: str, data: bytes, fault: Fault = no_fault) -> None:
    """Write one immutable file of the store; it is visible whole or not at all."""
    _write(root, inside(root, kind, name), data, fault)


def write_plain(root: Path, name: str, data: bytes, *, durable: bool = True) -> None:
    """Replace one of the few mutable files at the root of the store, atomically."""
    if name not in (MARK, "holder.json", "live.json"):
        raise UnsafeName(f"store: no file {name!r}")
    _write(root, root / name, data, no_fault, durable=durable)


def _write(root: Path, target: Path, data: bytes, fault: Fault, *, durable: bool = True) -> None:
    temp = inside(root, "tmp", f"{os.getpid()}-{next(_counter)}")
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
        if durable and read_bytes(temp) != data:
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


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
