"""Where a search is kept: Optuna's journal, a file of JSON lines, held by one process at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirrorax.errors import UserError, shown
from mirrorax.store.files import MARK as STORE_MARK

JOURNAL = "search.jsonl"


def import_optuna() -> Any:
    """Import Optuna, or say how to get it."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            "tune: Optuna is not installed; pip install 'mirrorax[tune]' (or, without it, take "
            "the range of 'mirrorax suggest' and a sweep over it)"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextmanager
def open_journal(folder: Path | None) -> Iterator[Any]:
    """Hold the journal of a search, in memory where there is no folder, against a second holder."""
    optuna = import_optuna()
    if folder is None:
        yield optuna.storages.InMemoryStorage()
        return
    import fcntl

    from optuna.storages.journal import JournalFileBackend

    if (folder / STORE_MARK).exists():
        raise UserError(
            f"store: {str(folder)!r} holds the runs of sweeps; choose another folder for a search"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "search.lock").open("w")
    except OSError as error:
        raise UserError(f"store: cannot use {str(folder)!r}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(f"store: another search is running in {str(folder)!r}") from None
        path = folder / JOURNAL
        _check_journal(path)
        try:
            storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
        except Exception:  # whatever Optuna raises for lines that are not its own
            raise damaged(str(path)) from None
        yield storage


def _check_journal(path: Path) -> None:
    """Refuse a file that is no journal; cut off a last line that was not written to its end."""
    if not path.exists():
        return
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            if not isinstance(json.loads(line), dict):
                raise ValueError
        if whole != data:
            path.write_bytes(whole)
    except OSError as error:
        raise UserError(f"store: cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise damaged(str(path)) from None


def damaged(path: str = JOURNAL) -> UserError:
    """Build the error for a file that is no journal of a search."""
    return UserError(f"store: {path!r} is damaged or not the journal of a search")


def check_batch(recorded: Any, trials: Container[int], axes: Iterable[str]) -> None:
    """Refuse what a journal has for a batch, unless it is what a search writes."""
    fields = ("trials", "cells", "scores", "reached", "curves")
    names = set(axes)
    if not (
        isinstance(recorded, dict)
        and _is_number(recorded.get("cost"))
        and all(isinstance(recorded.get(name), list) for name in fields)
        and len({len(recorded[name]) for name in fields}) == 1
        and all(isinstance(number, int) and number in trials for number in recorded["trials"])
        and all(isinstance(cell, dict) and set(cell) == names for cell in recorded["cells"])
        and all(_is_number(value) for cell in recorded["cells"] for value in cell.values())
        and all(isinstance(update, int) for update in recorded["reached"])
        and all(map(_is_curve, recorded["curves"]))
    ):
        raise damaged()
    check_scores(recorded["scores"], len(recorded["cells"]))


def check_scores(recorded: Any, count: int) -> None:
    """Refuse what a journal has for the scores of some runs, unless it is what a search writes."""
    if not (
        isinstance(recorded, list)
        and len(recorded) == count
        and all(score is None or _is_number(score) for score in recorded)
    ):
        raise damaged()


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Name the first field in which two sets of arguments differ, with both values."""
    for name in dict.fromkeys((*now, *before)):
        stored, here = before.get(name), now.get(name)
        if stored == here:
            continue
        if isinstance(stored, dict) and isinstance(here, dict):
            return difference(stored, here)
        return f"{name}: {shown(stored)}, here {shown(here)}"
    return "another version"


def read_scores(recorded: Sequence[float | None]) -> list[float]:
    """Return scores as they were before JSON: NaN for a run that diverged."""
    return [math.nan if score is None else score for score in recorded]


def _is_curve(points: Any) -> bool:
    return isinstance(points, list) and all(
        isinstance(point, list)
        and len(point) == 2
        and isinstance(point[0], int)
        and _is_number(point[1])
        for point in points
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
