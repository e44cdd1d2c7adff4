"""How commands read a store: what is wrong with it is one line, not a traceback."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrorax.errors import plain

if TYPE_CHECKING:
    from mirrorax.runs.results import Results


@contextlib.contextmanager
def damage_named() -> Iterator[list[str]]:
    """Print what is left out as damaged on standard error; the list holds it when all is read."""
    from mirrorax.store.errors import DamagedShardWarning

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
    from mirrorax.store.errors import StoreError

    with damage_named():
        try:
            return read_results(place)
        except StoreError as error:
            raise UserError(f"store: {error}") from error
