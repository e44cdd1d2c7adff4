"""Checkpoints: named arrays and one line of JSON in an `.npz` file. Never pickle.

A file appears whole or not at all: it is written beside its place, flushed to the disk, renamed.
"""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mirrorax.errors import UserError

FORMAT = 1
_META = "meta.json"


def flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """Name the leaves of a pytree by their paths, as numpy arrays."""
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        f"{prefix}{jax.tree_util.keystr(path, simple=True, separator='/')}": np.asarray(leaf)
        for path, leaf in leaves
    }


def unflatten(template: Any, arrays: Mapping[str, np.ndarray], prefix: str, path: Path) -> Any:
    """Put named arrays into the shape of a template; every leaf must be there and must fit."""
    wanted = flatten(template, prefix)
    for name, like in wanted.items():
        found = arrays.get(name)
        if found is None or found.shape != like.shape or found.dtype != like.dtype:
            raise UserError(f"checkpoint: {path} does not fit these settings (at {name!r})")
    structure = jax.tree.structure(template)
    leaves = [jax.numpy.asarray(arrays[name]) for name in wanted]
    return jax.tree.unflatten(structure, leaves)


def save(path: str | Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON data to one file, atomically."""
    path = Path(path)
    if path.suffix != ".npz":
        raise UserError(f"checkpoint: {str(path)!r} must end in .npz")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    text = json.dumps({"format": FORMAT, **meta}, sort_keys=True, allow_nan=False)
    try:
        with open(temporary, "xb") as file:
            # A zip of .npy members, as numpy writes it; the JSON is bytes, not an object.
            members: dict[str, Any] = {_META: np.frombuffer(text.encode(), np.uint8), **arrays}
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint back: (arrays, data). A file that is not one is a `UserError`."""
    path = Path(path)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays.pop(_META).tobytes())
    except FileNotFoundError:
        raise UserError(f"checkpoint: no file {str(path)!r}") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(
            f"checkpoint: {str(path)!r} is not a readable checkpoint: {error}"
        ) from None
    if meta.get("format") != FORMAT:
        raise UserError(
            f"checkpoint: {str(path)!r} has format {meta.get('format')!r}, not {FORMAT}"
        )
    return arrays, meta
