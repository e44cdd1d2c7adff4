"""Checkpoints: named arrays and one line of JSON in an `.npz` file. Never pickle.

A file appears whole or not at all: it is written beside its place, flushed to the disk, renamed.
"""

from __future__ import annotations

import json
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from mirrorax import plugins, registry
from mirrorax.errors import UserError, shown
from mirrorax.files import replacing
from mirrorax.runs.settings import RunValues, Settings

FORMAT = 1
_META = "meta.json"

#: what numpy and zipfile raise for what is no archive of plain arrays
_UNREADABLE = (
    *(KeyError, EOFError, TypeError, IndexError, AttributeError, NotImplementedError),
    *(MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(tokenize.TokenError, struct.error, zlib.error, zipfile.BadZipFile),
)


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
        array = arrays.get(name)
        if array is None or array.shape != like.shape or array.dtype != like.dtype:
            raise UserError(f"checkpoint: {path} does not fit these settings (at {name!r})")
    structure = jax.tree.structure(template)
    leaves = [jax.numpy.asarray(arrays[name]) for name in wanted]
    return jax.tree.unflatten(structure, leaves)


def save(path: str | Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON data to one file, atomically."""
    path = Path(path)
    if path.suffix != ".npz":
        raise UserError(f"checkpoint: {str(path)!r} must end in .npz")
    text = json.dumps({"format": FORMAT, **meta}, sort_keys=True, allow_nan=False)
    # A zip of .npy members, as numpy writes it; the JSON is bytes, not an object.
    members: dict[str, Any] = {_META: np.frombuffer(text.encode(), np.uint8), **arrays}
    with replacing(path) as file:
        np.savez(file, **members)


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read a checkpoint back: (arrays, data). A file that is not one is a `UserError`."""
    path = Path(path)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        meta = json.loads(arrays.pop(_META).tobytes())
    except FileNotFoundError:
        raise UserError(f"checkpoint: no file {str(path)!r}") from None
    except RecursionError:
        raise UserError(f"checkpoint: {str(path)!r}: nested too deeply") from None
    except (OSError, ValueError, *_UNREADABLE) as error:
        raise UserError(
            f"checkpoint: {str(path)!r} is not a readable checkpoint: {error}"
        ) from None
    version = meta.get("format") if isinstance(meta, dict) else None
    if version != FORMAT:
        raise UserError(f"checkpoint: {str(path)!r} has format {shown(version)}, not {FORMAT}")
    return arrays, meta


def settings_in(meta: Mapping[str, Any], where: str) -> Settings:
    """Return the settings of a file, whose plugins must be loaded already."""
    fields = meta.get("settings")
    if not isinstance(fields, dict):
        raise UserError(f"{where}: it has no settings")
    plugins.expect(fields.get("plugins", []), where)
    try:
        return Settings(**fields)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def load_session(
    path: str | Path, environment: Any = None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the checkpoint of a session, its data checked; `settings` are `Settings`.

    `environment` is the object that stood in for the name of one, if there is one.
    """
    arrays, meta = load(path)
    where = f"checkpoint: {str(path)!r}"
    name = meta["settings"].get("environment") if isinstance(meta.get("settings"), dict) else None
    if environment is not None and isinstance(name, str) and ":" in name:
        registry.adopt("environment", name, environment)
    meta["settings"] = settings_in(meta, where)
    keys, columns, lanes = arrays.get("keys"), meta.get("columns"), meta.get("lanes")
    runs = -1 if keys is None or keys.ndim != 2 else len(keys)
    if not (
        runs > 0
        and keys is not None
        and keys.shape[1] == 2
        and keys.dtype == np.uint32
        and _is_count(lanes)
        and meta.get("layout") in ("map", "vmap")
        and (meta.get("evaluate_every") is None or _is_count(meta["evaluate_every"]))
        and isinstance(meta.get("continued_from", []), list)
        and all(map(_is_count, meta.get("continued_from", [])))
        and isinstance(columns, dict)
        and set(columns) <= set(RunValues.model_fields)
        and all(isinstance(column, list) and len(column) == runs for column in columns.values())
        and all(_is_number(value) for column in columns.values() for value in column)
        and all(
            curve.ndim == 2 and len(curve) == runs and curve.dtype == np.float64
            for name, curve in arrays.items()
            if name.startswith("curves/")
        )
    ):
        raise UserError(f"{where} does not hold a session of {meta['settings'].environment}")
    return arrays, meta


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isfinite(value))
