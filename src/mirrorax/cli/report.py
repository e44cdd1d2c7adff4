"""`mirrorax report`: one HTML page to explore a store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from mirrorax.cli import reference
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from pathlib import Path

    from mirrorax.analysis.reference import Reference

_EXAMPLES = """\
examples:
  mirrorax report --store runs --out report.html
  mirrorax report --store runs --out report.html --open
  mirrorax report --store runs --out report.html --figures figures
  mirrorax report --store runs --out report.html --reference last_year.toml
  mirrorax report --store runs --out report.html --watch      while a sweep runs; Ctrl-C ends
"""

_DAY = 86_400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    parser.add_argument("--store", required=True, metavar="DIR", help="the store of a sweep")
    parser.add_argument("--out", required=True, metavar="FILE", help="the HTML file to write")
    parser.add_argument(
        "--figures", metavar="DIR", help="also write every figure and the table to this folder"
    )
    reference.add_flag(parser)
    parser.add_argument("--title", metavar="TEXT", help="default: the name of the study")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    parser.add_argument(
        "--watch", action="store_true", help="build it again whenever the store has new runs"
    )
    parser.add_argument(
        "--every",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="how often --watch looks at the store (default: 10)",
    )


def run(args: argparse.Namespace) -> int:
    """Build the page, once or again and again."""
    import time
    import webbrowser

    from mirrorax.errors import UserError

    if not 0 < args.every <= _DAY:
        raise UserError(f"every: {args.every} is not a positive number of seconds up to {_DAY}")
    beside = reference.load(args)
    seen = _state(args.store)
    path = _make(args, beside)
    if path is not None and args.open:
        webbrowser.open(path.absolute().as_uri())
    opened = path is not None
    while args.watch:
        time.sleep(args.every)
        now = _state(args.store)
        if now == seen:
            continue
        seen = now
        try:
            path = _make(args, beside)
        except UserError as error:  # the next runs may mend it
            print(f"mirrorax: note: {error}", file=sys.stderr)
            continue
        if path is not None and args.open and not opened:
            opened = True
            webbrowser.open(path.absolute().as_uri())
    return 0


def _state(store: str) -> tuple[str, ...]:
    """The shards of the store, by name: a shard never changes, so a new state has other names."""
    from pathlib import Path

    return tuple(sorted(path.name for path in Path(store).glob("shards/*.parquet")))


def _make(args: argparse.Namespace, beside: Reference | None) -> Path | None:
    """Write the page; with --watch a store without runs is waited for, not an error."""
    import time
    from pathlib import Path

    from mirrorax.cli.stored import read_runs
    from mirrorax.errors import UserError
    from mirrorax.report import build, facts, write
    from mirrorax.store import studies

    table = read_runs(args.store)
    if table.num_rows == 0 and args.watch:
        print("waiting for the first runs", file=sys.stderr)
        return None
    known = studies.latest(Path(args.store))
    about = facts(
        table,
        title=args.title or (known.name if known else Path(args.store).name),
        made=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        planned=known.run_ids if known else None,
        study=known.text if known else "",
        refresh=max(1, round(args.every)) if args.watch else 0,
    )
    if args.figures:
        from mirrorax.figures.gallery import prepare

        prepare(args.figures)  # before anything is written
    path = write(build(table, about, reference=beside), args.out)
    megabytes = path.stat().st_size / 1e6
    print(f"{path}: {counted(about.done, 'run')}, {megabytes:.1f} MB")
    if args.figures:
        from mirrorax.figures.gallery import gallery

        try:
            planned = known.run_ids if known else None
            files, skipped = gallery(table, args.figures, planned=planned, reference=beside)
        except UserError as error:
            if not args.watch:
                raise
            print(f"mirrorax: note: {error}", file=sys.stderr)  # more runs may mend it
            return path
        print(f"{args.figures}: {counted(len(files), 'file')}")
        for reason in skipped:
            print(f"not drawn: {reason}", file=sys.stderr)
    return path
