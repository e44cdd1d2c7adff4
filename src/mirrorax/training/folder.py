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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mirrorax.errors import UserError, in_one_line
from mirrorax.files import write_file
from mirrorax.spec.toml import value_text

if TYPE_CHECKING:
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training.result import TrainResult


class Interrupts(Protocol):
    """What ends the process on Ctrl-C, and does this before."""

    cleanup: list[Callable[[], None]]

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Keep the process alive until the end of the block."""


_CURVE = "curve."

#: The files, in the order in which they are moved into place: with the last one it is complete.
_NAMES = ("policies.npz", "runs.parquet", "config.toml", "learning_curve.png", "results.json")

#: of a list of values this many are shown
_MOST_SHOWN = 4


def config_text(result: TrainResult) -> str:
    """Write settings and values as TOML that `mirrorax train --config` takes."""
    from mirrorax.runs.settings import GRID

    fields = result.settings.model_dump(mode="json")
    lines = [f"env = {value_text(fields.pop('environment'))}"]
    lines += [f"{name} = {value_text(value)}" for name, value in fields.items()]
    for name in GRID:
        values = list(dict.fromkeys(getattr(run, name) for run in result.runs))
        if values != [None]:
            lines.append(f"{name} = {value_text(values[0] if len(values) == 1 else values)}")
    lines.append(f"seeds = {value_text(list(dict.fromkeys(run.seed for run in result.runs)))}")
    # Results depend on these two in the last bits.
    lines.append(f"lanes = {value_text(result.lanes)}")
    if result.layout is not None:
        lines.append(f"layout = {value_text(result.layout)}")
    if result.continued_from:
        updates = ", ".join(map(str, result.continued_from))
        lines.insert(
            0, f"# The result was trained on from update {updates}; this trains in one go."
        )
    return "\n".join(lines) + "\n"


def check_free(out: Path, settings: Settings, runs: list[RunValues]) -> None:
    """Refuse a folder that holds anything but the result of these same runs."""
    try:
        present = [name for name in _NAMES if (out / name).exists()]
    except OSError as error:
        raise UserError(f"out: cannot look into {str(out)!r}: {error.strerror}") from None
    if not present:
        return
    if "results.json" not in present:
        content = f"{present[0]}, but no finished result"
    elif (difference := _difference(out / "results.json", settings, runs)) is not None:
        content = f"another result ({difference})"
    else:
        return
    raise UserError(
        f"out: {str(out)!r} holds {content}; name another folder, or give --overwrite to replace it"
    )


def _difference(path: Path, settings: Settings, runs: list[RunValues]) -> str | None:
    """Say in what a stored result differs from that of these runs; None if it does not."""
    from mirrorax.runs.presets import LATER
    from mirrorax.runs.settings import RunValues, Settings

    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        # Compared as text and numbers: a name of a plugin may not be known here.
        theirs = {n: stored["settings"].get(n, LATER.get(n)) for n in Settings.model_fields}
        their_runs = [{n: run[n] for n in RunValues.model_fields} for run in stored["runs"]]
        continued = list(stored.get("continued_from", []))
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "it was not written by train"
    if continued:
        return f"it was trained on from update {continued[-1]}"
    ours = settings.model_dump(mode="json")
    our_runs = [run.model_dump(mode="json") for run in runs]
    pairs = {n: ([list(v) if isinstance(v, tuple) else v], [ours[n]]) for n, v in theirs.items()}
    for n in RunValues.model_fields:
        pairs[n] = _distinct([run[n] for run in their_runs]), _distinct([r[n] for r in our_runs])
    for name, (there, here) in pairs.items():
        if there != here:
            return f"{name} is {_shown(there)} there, {_shown(here)} here"
    return None if their_runs == our_runs else "of other runs"


def _distinct(values: list[Any]) -> list[Any]:
    return [value for index, value in enumerate(values) if value not in values[:index]]


def _shown(values: list[Any]) -> str:
    text = ", ".join(
        "none" if value is None else value_text(value) for value in values[:_MOST_SHOWN]
    )
    return f"{text}, ..." if len(values) > _MOST_SHOWN else text


@contextlib.contextmanager
def open_folder(out: Path, stop: Interrupts) -> Iterator[None]:
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


def write(out: Path, result: TrainResult, stop: Interrupts | None = None) -> None:
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
    meta = {
        "settings": result.settings.model_dump(mode="json"),
        "runs": [run.model_dump(mode="json") for run in result.runs],
        "return_bounds": list(result.return_bounds),
        "bounds_source": result.bounds_source,
        "continued_from": list(result.continued_from),
    }
    checkpoint.save(out / "policies.npz", arrays, meta)
    if not result.continued_from:  # else they are not the runs that their settings name
        exporting.write(results.from_arrow(result.outcome.to_arrow()), out / "runs.parquet")
    if "return" in result.curves:
        from mirrorax.training.pictures import save_curves

        save_curves(out / "learning_curve.png", result)


def read_policies(
    folder: str | os.PathLike[str],
) -> tuple[np.ndarray, Settings, list[RunValues], dict[str, Any]]:
    """Read the policies of a folder, the settings and runs they are of, and what else is there."""
    from mirrorax.mdpo import checkpoint
    from mirrorax.runs.settings import check_values

    where, path = f"folder: {str(folder)!r}", Path(folder) / "policies.npz"
    if not path.is_file():
        raise UserError(f"{where} holds no policies.npz; write one with train --out")
    arrays, meta = checkpoint.load(path)
    policies, runs = arrays.get("policies"), meta.get("runs")
    if not (
        policies is not None
        and policies.ndim == 2
        and policies.dtype == np.float32
        and isinstance(runs, list)
        and all(isinstance(run, dict) for run in runs)
        and len(runs) == len(policies) > 0
    ):
        raise UserError(f"{where} holds a policies.npz that train did not write")
    settings = checkpoint.settings_in(meta, where)
    try:
        values = [check_values(settings, run) for run in runs]
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: runs: {in_one_line(error)}") from None
    if bounds := meta.setdefault("return_bounds", None):
        try:
            low, high = map(float, bounds)
        except (TypeError, ValueError):
            low = high = 0.0
        if not low < high:
            raise UserError(f"{where}: its return_bounds are {bounds!r}; need low < high")
        meta["return_bounds"] = low, high
    return policies, settings, values, meta


def save(folder: str | os.PathLike[str], result: TrainResult) -> Path:
    """Write a result to a folder, which is made if need be; it must not hold another result."""
    out = Path(folder)
    check_free(out, result.settings, result.runs)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write(out, result)
    except OSError as error:
        raise UserError(f"folder: cannot write into {str(out)!r}: {error.strerror}") from None
    return out


def load(folder: str | os.PathLike[str]) -> TrainResult:
    """Return the result that a folder holds. It cannot be trained on: states are not kept."""
    from mirrorax.runs.arrow import CURVE, read_lists
    from mirrorax.runs.chunk import Outcome, make_chunk
    from mirrorax.store.exporting import read_export
    from mirrorax.training.result import TrainResult

    policies, settings, runs, _ = read_policies(folder)
    if not (path := Path(folder) / "runs.parquet").is_file():
        raise UserError(
            f"folder: {str(folder)!r} has no runs.parquet: it was trained on by `more`, or written "
            "by an older version; 'mirrorax play' reads its policies"
        )
    stored = read_export(path, "folder")
    columns = {name: [getattr(run, name) for run in runs] for name in type(runs[0]).model_fields}
    (origin,) = stored.origins
    chunk = make_chunk(settings, columns, origin.provenance.get("lanes"))
    places = {run_id: row for row, run_id in enumerate(stored.ids.tolist())}
    try:
        rows = stored.take(np.array([places[run_id] for run_id in chunk.ids.tolist()])).rows
    except KeyError:
        raise UserError(f"folder: {str(folder)!r}: its files are of different runs") from None
    curves = [name for name in rows.column_names if name.startswith(CURVE)]
    outcome = Outcome(
        chunk=chunk,
        returns=read_lists(rows["returns"])[0],
        greedy_returns=read_lists(rows["greedy_returns"])[0],
        diverged_at=rows["diverged_at"].fill_null(-1).to_numpy(),
        wall_seconds=float(np.sum(rows["wall_seconds"].to_numpy())),
        bounds=origin.bounds,
        provenance=origin.provenance,
        curves={name.removeprefix(CURVE): read_lists(rows[name])[0] for name in curves},
    )
    return TrainResult(outcome, runs, policies)
