"""How commands read a store: what is wrong with it is one line, not a traceback."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def read_runs(directory: str) -> pa.Table:
    """Return the runs of a store; damaged shards are named on standard error and left out."""
    from mirrorax.errors import UserError
    from mirrorax.store import load
    from mirrorax.store.errors import DamagedShardWarning, StoreError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedShardWarning)
        try:
            table = load(directory)
        except StoreError as error:
            raise UserError(f"store: {error}") from error
    for warning in caught:
        print(f"mirrorax: note: {warning.message}", file=sys.stderr)
    return table


def read_curves(directory: str) -> pa.Table | None:
    """Return the learning curves of a store, or nothing where no study asked for them."""
    from mirrorax.errors import UserError
    from mirrorax.store import load_curves
    from mirrorax.store.errors import DamagedShardWarning, StoreError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DamagedShardWarning)
        try:
            table = load_curves(directory)
        except (UserError, StoreError):
            return None
    for warning in caught:
        print(f"mirrorax: note: {warning.message}", file=sys.stderr)
    return table
