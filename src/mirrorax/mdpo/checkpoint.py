"""Checkpoints: named arrays and one line of JSON in an `.npz` file. Never pickle.

A file appears whole or not at all: it is written beside its place, flushed to the disk, renamed.
"""

from __future__ import annotations

import json
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, FiniteFloat, ValidationError

from mirrorax import plugins, registry
from mirrorax.errors import UserError, shown
from mirrorax.files import replacing
from mirrorax.runs.settings import Count, RunValues, Settings

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


def load_policies(
    folder: str | os.PathLike[str], where: str
) -> tuple[Float[np.ndarray, "runs p"], dict[str, Any]]:
    """Read the policies that `train --out` wrote to a folder, and the data beside them."""
    path = Path(folder) / "policies.npz"
    if not path.is_file():
        raise UserError(f"{where} holds no policies.npz; write one with train --out")
    arrays, meta = load(path)
    policies = arrays.get("policies", np.zeros(0))
    if policies.ndim != 2 or policies.dtype != np.float32 or len(policies) == 0:
        raise UserError(f"{where} holds a policies.npz that train did not write")
    return policies, meta


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


class SessionData(BaseModel):
    """What the checkpoint of a session holds beside its arrays and settings."""

    model_config = ConfigDict(strict=True)

    columns: dict[str, list[FiniteFloat | None]]
    lanes: Count
    layout: Literal["map", "vmap"]
    evaluate_every: Count | None = None
    continued_from: list[Count] = []


def load_session(
    path: str | Path, environment: Any = None
) -> tuple[dict[str, np.ndarray], Settings, SessionData]:
    """Read the checkpoint of a session, checked.

    `environment` is the object that stood in for the name of one, if there is one.
    """
    arrays, meta = load(path)
    where = f"checkpoint: {str(path)!r}"
    name = meta["settings"].get("environment") if isinstance(meta.get("settings"), dict) else None
    if environment is not None and isinstance(name, str) and ":" in name:
        registry.adopt("environment", name, environment)
    settings = settings_in(meta, where)
    wrong = UserError(f"{where} does not hold a session of {settings.environment}")
    try:
        data = SessionData.model_validate(meta)
    except ValidationError:
        raise wrong from None
    keys = arrays.get("keys", np.zeros(0))
    if keys.ndim != 2 or keys.shape[1] != 2 or len(keys) == 0 or keys.dtype != np.uint32:
        raise wrong
    curves = [curve for name, curve in arrays.items() if name.startswith("curves/")]
    if not (
        set(data.columns) <= set(RunValues.model_fields)
        and all(len(column) == len(keys) for column in data.columns.values())
        and all(c.ndim == 2 and len(c) == len(keys) and c.dtype == np.float64 for c in curves)
    ):
        raise wrong
    return arrays, settings, data
