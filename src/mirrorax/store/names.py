"""Where things are in a store, and which names may be there.

Every path below the store's root is made here, from a name that must match its folder's pattern
exactly: nothing with a separator, a dot-dot or a NUL can match. Folders and files that are symbolic
links are refused, so that no name leads out of the store.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mirrorax.errors import UserError

FORMAT = 2
MARK = "mirrorax-store.json"
_MEND = f'the runs are not touched by that: replace it by a file that holds {{"format": {FORMAT}}}'

_HEX = r"[0-9a-f]{32}"
PATTERNS = {
    "shards": re.compile(rf"[0-9]{{8}}-{_HEX}\.parquet", re.ASCII),
    "curves": re.compile(rf"[0-9]{{8}}-{_HEX}\.parquet", re.ASCII),  # of format 1
    "parts": re.compile(rf"{_HEX}\.parquet", re.ASCII),
    "studies": re.compile(rf"[0-9]{{8}}-{_HEX}\.parquet", re.ASCII),
    "quarantine": re.compile(rf"[0-9]{{8}}-{_HEX}\.parquet(\.[0-9]+)?", re.ASCII),
    "tmp": re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII),
}


#: The folders of a store of this format.
FOLDERS = tuple(kind for kind in PATTERNS if kind != "curves")


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


def strange(root: Path, kind: str) -> dict[str, str]:
    """Return the entries that have the name of a file of this folder but are links or folders."""
    return {
        name: f"{name}: {problem}"
        for name, problem in entries(root, kind)
        if problem is not None and PATTERNS[kind].fullmatch(name)
    }


def read_bytes(path: Path) -> bytes:
    """Read a regular file whole, without following a symbolic link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnsafeName(f"store: {path} is not a regular file")
        return file.read()


def read_format(root: Path) -> int | None:
    """Return the format of a store, or None if `root` is not one."""
    try:
        written = read_bytes(root / MARK)
        data = json.loads(written)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"store: cannot read {root / MARK}: {error}") from None
    known = isinstance(data, dict) and set(data) <= {"format", "created_by", "digest"}
    if not known or ("digest" in data and written != mark(data)):
        raise UserError(f"store: {root / MARK} is damaged; {_MEND}")
    if type(data.get("format")) is not int:
        raise UserError(f"store: {root / MARK} has no format; {_MEND}")
    return int(data["format"])


def check_mark(root: Path) -> bool:
    """Return whether `root` is a store; raise `UserError` for one this version cannot read."""
    written = read_format(root)
    if written == 1:
        raise UserError(
            f"store: {root} has format 1; make a new store of it: "
            f"mirrorax sweep import --from {root} --store NEW"
        )
    if written not in (None, FORMAT):
        raise UserError(
            f"store: {root} has format {written}; this version of mirrorax reads format {FORMAT}"
        )
    return written is not None


def mark(data: Mapping[str, Any]) -> bytes:
    """Return the bytes of the mark of a store: what it says, and the digest of that.

    Marks of older stores have no digest.
    """
    content = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True)
    return json.dumps(
        {**content, "digest": hashlib.sha256(text.encode()).hexdigest()[:32]}
    ).encode()


def existing(directory: str | os.PathLike[str]) -> Path:
    """Return the root of a store that must exist; raise `UserError` otherwise."""
    text = os.fspath(directory)
    if not isinstance(text, str) or "\0" in text:
        raise UserError(f"store: {text!r} is no path")
    root = Path(text)
    if root.exists() and not root.is_dir():
        raise UserError(f"store: {root} is a file; a store is a folder")
    if not root.is_dir():
        raise UserError(f"store: {root} does not exist; 'mirrorax sweep run' makes one")
    if not check_mark(root):
        raise UserError(f"store: {root} is not a store (it has no {MARK})")
    return root


def check_outside(root: Path, target: Path, field: str) -> None:
    """Refuse to write a file for the user into the store itself."""
    if (target.parent.resolve() / target.name).is_relative_to(root.resolve()):
        raise UserError(f"{field}: {str(target)!r} is inside the store; choose a place outside it")
