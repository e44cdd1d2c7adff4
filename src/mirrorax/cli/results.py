"""The folder `mirrorax train --out` writes and `mirrorax play` reads.

`results.json` (what --json prints), `config.toml` (to train the same again), `policies.npz` (the
policies and the learning curves as plain arrays), `learning_curve.png`. All are of one result: they
are made aside, and then moved into place together.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.cli.output import save_figure
from mirrorax.errors import UserError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mirrorax.cli.live import Stop
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training import TrainResult

_CURVE = "curve."

#: What a folder holds, in the order in which it is moved into place: with the last one it is whole.
_NAMES = ("policies.npz", "config.toml", "learning_curve.png", "results.json")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)


def config_text(result: TrainResult) -> str:
    """Write settings and values as TOML that `mirrorax train --config` takes."""
    from mirrorax.training import GRID

    fields = result.settings.model_dump(mode="json")
    lines = [f"env = {_toml(fields.pop('environment'))}"]
    lines += [f"{name} = {_toml(value)}" for name, value in fields.items()]
    for name in GRID:
        found = list(dict.fromkeys(getattr(run, name) for run in result.runs))
        if found != [None]:
            lines.append(f"{name} = {_toml(found[0] if len(found) == 1 else found)}")
    lines.append(f"seeds = {_toml(list(dict.fromkeys(run.seed for run in result.runs)))}")
    # Results depend on these two in the last bits.
    lines.append(f"lanes = {_toml(result.lanes)}")
    if result.layout is not None:
        lines.append(f"layout = {_toml(result.layout)}")
    if result.continued_from:
        updates = ", ".join(map(str, result.continued_from))
        lines.insert(
            0, f"# The result was trained on from update {updates}; this trains in one go."
        )
    return "\n".join(lines) + "\n"


def put(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def check_free(out: Path, settings: Settings, runs: list[RunValues]) -> None:
    """Refuse a folder that holds anything but the result of these same runs."""
    try:
        there = [name for name in _NAMES if (out / name).exists()]
    except OSError as error:
        raise UserError(f"out: cannot look into {str(out)!r}: {error.strerror}") from None
    if not there:
        return
    if "results.json" not in there:
        found = f"{there[0]}, but no finished result"
    elif (other := _difference(out / "results.json", settings, runs)) is not None:
        found = f"another result ({other})"
    else:
        return
    raise UserError(
        f"out: {str(out)!r} holds {found}; name another folder, or give --overwrite to replace it"
    )


def _difference(path: Path, settings: Settings, runs: list[RunValues]) -> str | None:
    """Say in what a stored result is not that of these runs; None if it is."""
    from mirrorax.runs.settings import LATER, RunValues, Settings

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        # As they stand, for a plugin or a name of theirs may not be known here.
        theirs = {name: stored["settings"].get(name, LATER.get(name)) for name in _fields(Settings)}
        other = [{name: run[name] for name in _fields(RunValues)} for run in stored["runs"]]
        continued = list(stored.get("continued_from", []))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "it is none of train's"
    if continued:
        return f"it was trained on from update {continued[-1]}"
    ours = settings.model_dump(mode="json")
    for name, before in theirs.items():
        before = list(before) if isinstance(before, tuple) else before
        if before != ours[name]:
            return f"{name} is {_shown([before])} there, {_shown([ours[name]])} here"
    mine = [run.model_dump(mode="json") for run in runs]
    for name in _fields(RunValues):
        before, now = ([run[name] for run in each] for each in (other, mine))
        if _distinct(before) != _distinct(now):
            return f"{name} is {_shown(_distinct(before))} there, {_shown(_distinct(now))} here"
    return None if other == mine else "of other runs"


def _fields(model: type[BaseModel]) -> list[str]:
    return list(model.model_fields)


def _distinct(values: list[Any]) -> list[Any]:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _shown(values: list[Any]) -> str:
    """Write the values of an axis of a grid; many are cut short."""
    most = 4
    text = ", ".join("none" if value is None else _toml(value) for value in values[:most])
    return f"{text}, ..." if len(values) > most else text


def write(out: Path, result: TrainResult, stop: Stop | None = None) -> None:
    """Write the folder; what it held of another result is gone when this one is there."""
    stage = Path(tempfile.mkdtemp(dir=out, prefix=".mirrorax."))

    def clear() -> None:
        shutil.rmtree(stage, ignore_errors=True)

    if stop is not None:
        stop.cleanup.insert(0, clear)
    try:
        _write_files(stage, result)
        with contextlib.nullcontext() if stop is None else stop.held():
            _swap(stage, out)
    finally:
        clear()


def _swap(stage: Path, out: Path) -> None:
    """Move the old files away, then the new ones in: files of two results never lie together."""
    aside = stage / "before"
    aside.mkdir()
    moved: list[tuple[Path, Path]] = []

    def move(name: str, here: Path, there: Path) -> None:
        if (here / name).exists():
            os.replace(here / name, there / name)
            moved.append((here / name, there / name))

    try:
        for name in reversed(_NAMES):
            move(name, out, aside)
        for name in _NAMES:
            move(name, stage, out)
    except BaseException:
        for before, now in reversed(moved):
            os.replace(now, before)
        raise


def _write_files(out: Path, result: TrainResult) -> None:
    from mirrorax.mdpo import checkpoint

    put(out / "results.json", (result.to_json() + "\n").encode())
    put(out / "config.toml", config_text(result).encode())
    arrays = {"policies": result.policies}
    arrays |= {f"{_CURVE}{name}": curve for name, curve in result.curves.items()}
    meta = {
        "settings": result.settings.model_dump(mode="json"),
        "runs": [run.model_dump(mode="json") for run in result.runs],
        "return_bounds": list(result.return_bounds),
        "continued_from": list(result.continued_from),
    }
    checkpoint.save(out / "policies.npz", arrays, meta)
    if "return" in result.curves:
        from mirrorax.cli.curves import draw_curves

        save_figure(str(out / "learning_curve.png"), lambda ax: draw_curves(ax, result))


def read(folder: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Read (policies, settings and runs) back."""
    path = Path(folder)
    if not path.is_dir():
        raise UserError(f"folder: there is no folder {folder!r}")
    if not (path / "policies.npz").is_file():
        raise UserError(f"folder: {folder!r} holds no policies.npz; write one with train --out")
    from mirrorax.mdpo import checkpoint

    arrays, meta = checkpoint.load(path / "policies.npz")
    policies, runs = arrays.get("policies"), meta.get("runs")
    if not (
        policies is not None
        and policies.ndim == 2
        and policies.dtype == np.float32
        and isinstance(meta.get("settings"), dict)
        and isinstance(runs, list)
        and all(isinstance(run, dict) for run in runs)
        and len(runs) == len(policies) > 0
    ):
        raise UserError(f"folder: {folder!r} holds a policies.npz that is not one of train's")
    return policies, meta
