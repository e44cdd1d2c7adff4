"""The folder of a result: `TrainResult.save` and `mirrorax train --out` write it.

`results.json` (what --json prints), `config.toml` (to train the same again), `policies.npz` (the
policies and the learning curves as plain arrays), `runs.parquet` (the runs as an export, so that
every reader of results takes the folder; not of a result of `more`), `learning_curve.png`. The
files of one result are made in a hidden folder and then moved into place together.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mirrorax.errors import UserError, in_one_line
from mirrorax.files import write_file
from mirrorax.runs.chunk import Chunk, chunk_of_runs
from mirrorax.runs.presets import LATER
from mirrorax.runs.settings import GRID, check_values
from mirrorax.spec.toml import value_text, written

if TYPE_CHECKING:
    from mirrorax.cli import Stop
    from mirrorax.training.result import TrainResult

_CURVE = "curve."
#: what of `results.json` stands beside the policies, too
_BESIDE = ("settings", "runs", "return_bounds", "bounds_source", "continued_from")

#: The files, in the order in which they are moved into place: with the last one it is complete.
_NAMES = ("policies.npz", "runs.parquet", "config.toml", "learning_curve.png", "results.json")


def _config(settings: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of `mirrorax train --config` that train these runs."""
    fields = {"env": settings["environment"], **settings}
    del fields["environment"]
    for name in (*GRID, "seed"):
        values = list(dict.fromkeys(run.get(name) for run in runs))
        fields["seeds" if name == "seed" else name] = values
        if len(values) == 1 and name != "seed":
            fields[name] = values[0]
    return fields


def _as_data(chunk: Chunk) -> dict[str, Any]:
    """Return what was trained as plain data."""
    values = [run.model_dump(mode="json") for run in chunk.runs]
    return {"settings": chunk.settings.model_dump(mode="json"), "runs": values}


def config_text(result: TrainResult) -> str:
    """Write settings and values as TOML that `mirrorax train --config` takes."""
    # Results depend on lanes and layout in the last bits.
    machine = {"lanes": result.lanes, "layout": result.layout}
    text = written(_config(**_as_data(result.chunk)) | machine)
    if not result.continued_from:
        return text
    updates = ", ".join(map(str, result.continued_from))
    return f"# The result was trained on from update {updates}; this trains in one go.\n{text}"


def check_free(out: Path, chunk: Chunk) -> None:
    """Refuse a folder that holds anything but the result of these same runs."""
    try:
        present = [name for name in _NAMES if (out / name).exists()]
    except OSError as error:
        raise UserError(f"out: cannot look into {str(out)!r}: {error.strerror}") from None
    if not present:
        return
    content = f"{present[0]}, but no finished result"
    if "results.json" in present:
        difference = _difference(out / "results.json", _config(**_as_data(chunk)))
        if difference is None:
            return
        content = f"another result ({difference})"
    raise UserError(
        f"out: {str(out)!r} holds {content}; name another folder, or give --overwrite to replace it"
    )


def _difference(path: Path, ours: Mapping[str, Any]) -> str | None:
    """Say in what a stored result differs from that of our fields; None if it does not."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        # Compared as text and numbers: a name of a plugin may not be known here.
        theirs = {**json.loads(json.dumps(LATER)), **_config(stored["settings"], stored["runs"])}
        continued = list(stored.get("continued_from", []))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "it was not written by train"
    if continued:
        return f"it was trained on from update {continued[-1]}"
    for name, here in ours.items():
        there = theirs.get(name)
        if there != here:
            return f"{name} is {_shown(there)} there, {_shown(here)} here"
    return None


def _shown(value: Any) -> str:
    text = "none" if value is None else value_text(value)
    return text if len(text) <= 40 else f"{text[:36]} ..."


@contextlib.contextmanager
def open_folder(out: Path, stop: Stop) -> Iterator[None]:
    """Make the folder and try to write there, before the training; remove it if it stays empty."""
    new = [folder for folder in (out, *out.parents) if not folder.exists()]

    def tidy() -> None:
        with contextlib.suppress(OSError):  # a folder with something in it stays
            for folder in new:
                folder.rmdir()

    stop.cleanup.append(tidy)
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=out, prefix=".mirrorax."):
                pass
        except OSError as error:
            raise UserError(f"out: cannot write into {str(out)!r}: {error.strerror}") from None
        yield
    finally:
        tidy()


def write(out: Path, result: TrainResult, stop: Stop | None = None) -> None:
    """Write the folder; the files of a previous result are replaced together."""
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
    """Move the old files away, then the new ones in: files of two results are never mixed."""
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
    from mirrorax.runs import results
    from mirrorax.store import exporting

    write_file(out / "results.json", (result.to_json() + "\n").encode())
    write_file(out / "config.toml", config_text(result).encode())
    arrays = {"policies": result.policies}
    arrays |= {f"{_CURVE}{name}": curve for name, curve in result.curves.items()}
    data = result.to_dict()
    checkpoint.save(out / "policies.npz", arrays, {name: data[name] for name in _BESIDE})
    if not result.continued_from:  # else they are not the runs that their settings name
        exporting.write(results.from_arrow(result.to_arrow()), out / "runs.parquet")
    if "return" in result.curves:
        write_file(out / "learning_curve.png", draw_curves(result))


def draw_curves(result: TrainResult) -> bytes:
    """Return the picture of the learning curves as the bytes of a PNG file."""
    from mirrorax.figures import style

    return style.rendered(result.plot, "png", style.PAGE * 0.8)


def read_policies(
    folder: str | os.PathLike[str],
) -> tuple[np.ndarray, Chunk, dict[str, Any]]:
    """Read the policies of a folder, the runs they are of, and what else is there."""
    from mirrorax.mdpo import checkpoint

    where = f"folder: {str(folder)!r}"
    policies, meta = checkpoint.load_policies(folder, where)
    runs: Any = meta.get("runs")
    plain = isinstance(runs, list) and all(isinstance(run, dict) for run in runs)
    if not plain or len(runs) != len(policies):
        raise UserError(f"{where} holds a policies.npz that train did not write")
    settings = checkpoint.settings_in(meta, where)
    try:
        values = [check_values(settings, run) for run in runs]
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: runs: {in_one_line(error)}") from None
    bounds: Any = meta.get("return_bounds")
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise UserError(f"{where}: its return_bounds are {bounds!r}; need low < high")
    meta["return_bounds"] = low, high
    return policies, chunk_of_runs(settings, values), meta


def save(folder: str | os.PathLike[str], result: TrainResult) -> Path:
    """Write a result to a folder, which is made if need be; it must not hold another result."""
    out = Path(folder)
    check_free(out, result.chunk)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(out, result)
    except OSError as error:
        raise UserError(f"folder: cannot write into {str(out)!r}: {error.strerror}") from None
    return out


def load(folder: str | os.PathLike[str]) -> TrainResult:
    """Return the result that a folder holds. It cannot be trained on: states are not kept."""
    from mirrorax.runs.arrow import CURVE, read_lists
    from mirrorax.store.exporting import read_export
    from mirrorax.training.result import TrainResult

    policies, chunk, _ = read_policies(folder)
    if not (path := Path(folder) / "runs.parquet").is_file():
        raise UserError(
            f"folder: {str(folder)!r} has no runs.parquet: it was trained on by `more`; "
            "'mirrorax play' reads its policies"
        )
    stored = read_export(path, "folder")
    (origin,) = stored.origins
    chunk = replace(chunk, lanes=origin.provenance.get("lanes"))
    places = {run_id: row for row, run_id in enumerate(stored.ids.tolist())}
    try:
        rows = stored.take(np.array([places[run_id] for run_id in chunk.ids.tolist()])).rows
    except KeyError:
        raise UserError(f"folder: {str(folder)!r}: its files are of different runs") from None
    curves = [name for name in rows.column_names if name.startswith(CURVE)]
    return TrainResult(
        chunk=chunk,
        returns=read_lists(rows["returns"])[0],
        greedy_returns=read_lists(rows["greedy_returns"])[0],
        diverged_at=rows["diverged_at"].fill_null(-1).to_numpy(),
        wall_seconds=float(np.sum(rows["wall_seconds"].to_numpy())),
        bounds=origin.bounds,
        provenance=origin.provenance,
        curves={name.removeprefix(CURVE): read_lists(rows[name])[0] for name in curves},
        policies=policies,
    )
