"""Where a search is kept: Optuna's journal, a file of JSON lines, held by one process at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirrorax.errors import UserError
from mirrorax.store.names import MARK as STORE_MARK

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
        yield optuna.storages.JournalStorage(JournalFileBackend(str(path)))


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
    except ValueError:
        raise UserError(f"store: {str(path)!r} is damaged or not the journal of a search") from None
