"""The results that a command reads; whatever is wrong with a file of them is one line."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorax.cli import PAPERS
from mirrorax.errors import UserError, plain

if TYPE_CHECKING:
    from mirrorax.analysis.reference import Reference
    from mirrorax.runs.results import Results
    from mirrorax.store.reading import RecordedRuns


def place_of(args: argparse.Namespace) -> str:
    """Return the path that was given."""
    if args.results is not None and args.store is not None:
        raise UserError(f"--store: {args.store!r}: RESULTS is given too ({args.results!r})")
    path: str | None = args.results if args.results is not None else args.store
    if path is None:
        raise UserError("RESULTS: missing; for example 'results/paper', or the store of a sweep")
    return path


def load_reference(args: argparse.Namespace) -> Reference | None:
    """Return the reference of the flag, if any."""
    if args.reference is None:
        return None
    if args.reference in PAPERS:
        reference: Reference = importlib.import_module(PAPERS[args.reference]).reference()
        return reference
    from mirrorax.analysis.reference import read_reference

    return read_reference(args.reference)


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


def read_runs(place: str) -> tuple[Results, RecordedRuns | None]:
    """Return the runs of whatever holds results, and the latest study if it is a store."""
    from mirrorax.store import read_results
    from mirrorax.store.reading import latest_study

    with damage_named():
        return read_results(place), latest_study(Path(place))
