"""How commands read results: whatever is wrong with a file is one line, not a traceback."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrorax.errors import plain

if TYPE_CHECKING:
    import pyarrow as pa

    from mirrorax.runs.results import Results
    from mirrorax.store.studies import RecordedRuns


@contextlib.contextmanager
def damage_named() -> Iterator[list[str]]:
    """Print the files that are left out as damaged; the list holds them at the end."""
    from mirrorax.store.files import DamagedShardWarning

    named: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedShardWarning)
        yield named
    named.extend(str(warning.message) for warning in caught)
    for text in named:
        print(f"mirrorax: note: {plain(text)}", file=sys.stderr)


def read_runs(place: str) -> Results:
    """Return the runs of a store, of an exported file, or of a folder of exported files.

    Damaged shards are left out and named on standard error.
    """
    from mirrorax.errors import UserError
    from mirrorax.store import read_results
    from mirrorax.store.files import StoreError

    with damage_named():
        try:
            return read_results(place)
        except StoreError as error:
            raise UserError(f"store: {error}") from error


def read_curves(place: str) -> pa.Table | None:
    """Return the learning curves of a store; None if it has none, or is an export."""
    from mirrorax.errors import UserError
    from mirrorax.store import load_curves
    from mirrorax.store.files import StoreError

    with damage_named():
        try:
            return load_curves(place)
        except (UserError, StoreError):
            return None


def read_study(place: str) -> RecordedRuns | None:
    """Return the latest study of a store; None for an export."""
    from pathlib import Path

    from mirrorax.store import studies

    root = Path(place)
    return studies.latest(root) if (root / "studies").is_dir() else None
