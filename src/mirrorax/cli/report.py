"""`mirrorax report`: one HTML page to explore results."""

from __future__ import annotations

import argparse
import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorax.cli.stored import load_reference, place_of, read_runs
from mirrorax.errors import UserError
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from mirrorax.analysis.reference import Reference

EXAMPLES = """\
examples:
  mirrorax report runs --open                       writes runs.html and shows it
  mirrorax report results/paper --out paper.html
  mirrorax report runs --figures figures            and every figure as a file
  mirrorax report runs --reference last_year.toml
  mirrorax report runs --watch                      while a sweep runs; Ctrl-C ends
"""

FLAGS = """
@results
--out FILE          the HTML file to write (the name of RESULTS with .html)
--figures DIR       also write every figure and the table to this folder
@reference
--title TEXT        title of the page (the study's name)
--open              show the page in the browser
--watch             build it again whenever the store has new runs
--every X>0<=86400=10   how often --watch looks for new runs, in seconds
"""


def run(args: argparse.Namespace) -> int:
    """Build the page, once or whenever there are new runs."""
    place = place_of(args)
    if args.out is None:
        args.out = f"{Path(place).resolve().stem}.html"
    reference = load_reference(args)
    seen: tuple[str, ...] | None = None
    opened = False
    while True:
        if (shards := _shards(place)) != seen:
            try:
                path = _make(args, place, reference)
            except UserError as error:
                if seen is None or not args.watch:
                    raise
                print(f"mirrorax: note: {error}", file=sys.stderr)  # later runs may settle it
                path = None
            seen = shards
            if path is not None and args.open and not opened:
                opened = True
                webbrowser.open(path.absolute().as_uri())
        if not args.watch:
            return 0
        time.sleep(args.every)


def _shards(place: str) -> tuple[str, ...]:
    """The names of a store's shards. A shard never changes, so new runs have new names."""
    return tuple(sorted(path.name for path in Path(place).glob("shards/*.parquet")))


def _make(args: argparse.Namespace, place: str, reference: Reference | None) -> Path | None:
    """Write the page and the figures; None if --watch has to wait for the first runs."""
    from mirrorax.report import facts, fill, write
    from mirrorax.report.payload import payload

    table, study = read_runs(place)
    if args.watch and not len(table):
        print("waiting for the first runs", file=sys.stderr)
        return None
    planned = study.run_ids if study else None
    about = facts(
        table,
        title=args.title or (study.name if study else Path(place).resolve().name),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        planned=planned,
        study=study.text if study else "",
        refresh=max(1, round(args.every)) if args.watch else 0,
    )
    if args.figures:
        from mirrorax.figures.gallery import gallery, prepare

        prepare(args.figures)  # before anything is written
    data = payload(table, about, reference=reference)
    path: Path = write(fill(data, about["title"]), args.out)
    print(*data.get("groups", [data])[0]["headline"], sep="\n")
    print(f"{path}: {counted(about['done'], 'run')}, {path.stat().st_size / 1e6:.1f} MB")
    if args.figures:
        try:
            files, skipped = gallery(table, args.figures, planned=planned, reference=reference)
        except UserError as error:
            if not args.watch:
                raise
            print(f"mirrorax: note: {error}", file=sys.stderr)
            return path
        print(f"{args.figures}: {counted(len(files), 'file')}")
        for reason in skipped:
            print(f"not drawn: {reason}", file=sys.stderr)
    return path
