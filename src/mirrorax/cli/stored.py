"""How commands read a store: what is wrong with it is one line, not a traceback."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mirrorax.errors import plain

if TYPE_CHECKING:
    import pyarrow as pa


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


def read_runs(directory: str, *, exports: bool = False) -> pa.Table:
    """Return the runs of a store; damaged shards are named on standard error and left out.

    With `exports` it may be an exported file, or a folder of some, as well.
    """
    from mirrorax.errors import UserError
    from mirrorax.store import load
    from mirrorax.store.errors import StoreError

    with damage_named():
        try:
            if exports:
                from mirrorax.store.importing import read_results

                return read_results(directory, "store")
            return load(directory)
        except StoreError as error:
            raise UserError(f"store: {error}") from error


def read_curves(directory: str) -> pa.Table | None:
    """Return the learning curves of a store, or nothing where no study asked for them."""
    from mirrorax.errors import UserError
    from mirrorax.store import load_curves
    from mirrorax.store.errors import StoreError

    with damage_named():
        try:
            return load_curves(directory)
        except (UserError, StoreError):
            return None
