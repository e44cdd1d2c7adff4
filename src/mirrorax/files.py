"""Writing a file: it appears whole or not at all, and what cannot be written is said before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from mirrorax.errors import UserError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Write a file in one move: until it is complete, an older one stays as it is."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def write_file(path: str | os.PathLike[str], data: bytes, field: str = "") -> None:
    """Write bytes in one move. With a `field`, what goes wrong is a `UserError` that names it."""
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        if not field:
            raise
        why = error.strerror or error
        raise UserError(f"{field}: cannot write {os.fspath(path)!r}: {why}") from None


def check_target(field: str, path: str, endings: Sequence[str]) -> None:
    """Refuse the path of a file that cannot be written, before the work that would fill it."""
    target = Path(path)
    if target.suffix.lower() not in endings or not target.stem:
        allowed = " or ".join([", ".join(endings[:-1]), endings[-1]][len(endings) == 1 :])
        raise UserError(f"{field}: {path!r} is not allowed: a file name that ends in {allowed}")
    folder = str(target.parent)
    if not target.parent.is_dir():
        raise UserError(f"{field}: {path!r}: there is no folder {folder!r}")
    if target.is_dir():
        raise UserError(f"{field}: {path!r} is a folder; name a file")
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".mirrorax."):
            pass
    except OSError as error:
        raise UserError(f"{field}: cannot write {path!r}: {error.strerror}") from None
