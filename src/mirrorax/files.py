"""Writing a file so that it appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in one move: until it is complete, an older one stays as it is."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
