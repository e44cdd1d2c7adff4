"""`mirrorax sweep`: plan, run, status, verify, export, import."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError, plain
from mirrorax.formatting import counted, whole

if TYPE_CHECKING:
    from mirrorax.spec.study import Study

_EXAMPLES = """\
examples:
  mirrorax sweep plan   study.toml --store results       what is left to do, and how long it takes
  mirrorax sweep plan   study.toml --store results --speedup 20 --nodes 4
  mirrorax sweep run    study.toml --store results       the same command starts and resumes
  mirrorax sweep status results --watch                  from another terminal
  mirrorax sweep verify results
  mirrorax sweep export results --to runs.csv
  mirrorax sweep import --store results --from runs.parquet    runs exported elsewhere

exit codes: 0 all done; 1 something failed, is damaged or could not be written; 2 a mistake in the
input; 130 or 143 after Ctrl-C or SIGTERM.
"""


def _count(text: str) -> int:
    value = whole(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "whole number above 0"  # what argparse calls the type in its message


def _factor(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError
    return value


_factor.__name__ = "number above 0"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions and their flags."""
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=type(parser)
    )

    def action(name: str, text: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=text, description=text, allow_abbrev=False)

    plan = action("plan", "Say what a study has left to do; write nothing.")
    run = action("run", "Run what a study has left to do; the same command resumes it.")
    for each in (plan, run):
        each.add_argument("study", metavar="STUDY.toml", help="the study, a TOML file")
        each.add_argument("--store", metavar="DIR", required=True, help="the folder of results")
        flags.add_plugin(each)
    _add_sizes(plan)
    plan.add_argument(
        "--measure", action="store_true", help="train a little of each configuration and time it"
    )
    plan.add_argument(
        "--speedup",
        type=_factor,
        metavar="S",
        help="also estimate the time on a GPU that is S times as fast as a worker here",
    )
    plan.add_argument(
        "--nodes", type=_count, metavar="N", help="also estimate the time on N machines (Ray)"
    )
    plan.add_argument(
        "--node-workers", type=_count, metavar="W", help="workers on each machine (as many as here)"
    )
    add_engine(run)
    status = action("status", "Say how a sweep is doing, while it runs or afterwards.")
    flags.add_place(status, "the store of the sweep")
    status.add_argument("--watch", action="store_true", help="update every second until Ctrl-C")
    verify = action("verify", "Check every file of a store; name the damaged ones.")
    flags.add_place(verify, "the store to check")
    imported = action("import", "Put exported runs into a store; runs it has are kept.")
    imported.add_argument("--store", metavar="DIR", required=True, help="the folder of results")
    imported.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        required=True,
        help="the exported file (FILE.parquet), or a folder of such files",
    )
    export = action("export", "Write all runs, or those of one study, to one file.")
    flags.add_place(export, "the store to export")
    flags.add_plugin(export)
    export.add_argument("--study", metavar="STUDY.toml", help="export only the runs of this study")
    export.add_argument(
        "--to", metavar="FILE", required=True, help="the file to write: FILE.csv or FILE.parquet"
    )
    export.add_argument(
        "--no-provenance", action="store_true", help="leave out times, versions, device and host"
    )


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lanes", type=_count, metavar="N", help="runs trained side by side (chosen to fit)"
    )
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="worker processes (one for each core)"
    )
    parser.add_argument("--gpus", type=_count, metavar="N", help="one worker on each of N GPUs")
    parser.add_argument("--retry-failed", action="store_true", help="run failed runs again")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Declare everything about running a study but the study and the store."""
    _add_sizes(parser)
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="train on this machine or on a Ray cluster (local)",
    )
    parser.add_argument(
        "--address",
        default="auto",
        metavar="HOST:PORT",
        help="the Ray cluster (auto: the one here)",
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failed chunk")
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="take the store from a process on another machine that has ended",
    )
    parser.add_argument(
        "--chunk-timeout",
        type=_count,
        metavar="SECONDS",
        help="end a worker whose chunk takes longer; the chunk is tried again",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Do the action; return the exit code."""
    from mirrorax.cli.sweep_plan import show_plan

    actions = {
        "plan": show_plan,
        "run": _run,
        "status": _status,
        "verify": _verify,
        "export": _export,
        "import": _import,
    }
    return reported(lambda: actions[args.action](args))


def reported(action: Callable[[], int]) -> int:
    """Do something with a store and an engine; an error of theirs is one line and exit code 1."""
    from mirrorax.store.files import StoreError
    from mirrorax.sweep.engine import EngineError

    try:
        return action()
    except (StoreError, EngineError) as error:
        text = "\n".join(map(plain, str(error).splitlines()))  # it may end with lines of a log
        print(f"mirrorax: error: {text}", file=sys.stderr)
        return 1


def _run(args: argparse.Namespace) -> int:
    from mirrorax.spec.study import read

    flags.load_plugins(args)
    return run_study(read(args.study), args)


def run_study(study: Study, args: argparse.Namespace) -> int:
    """Run what a study has left to do, with the flags of `add_engine`."""
    from mirrorax.sweep import execute, progress
    from mirrorax.sweep.driver import sweep
    from mirrorax.sweep.engine import Engine

    if args.engine == "ray" and args.chunk_timeout:
        raise UserError("--chunk-timeout: a worker of this machine can be ended, not one of Ray's")
    if args.engine != "ray" and args.address != "auto":
        raise UserError(f"--address: {args.address!r} is for --engine ray")
    if args.engine == "ray":
        from mirrorax.sweep.engines import ray

        ray.check(args.address)  # before the store is made

    def make_engine(logs: Path) -> Engine:
        if args.engine == "ray":
            return ray.RayEngine(
                address=args.address,
                workers=args.workers or args.gpus,
                gpus=1.0 if args.gpus else 0.0,
                function=execute.CHUNK_FUNCTION,
            )
        from mirrorax.sweep.engines.local import LocalEngine

        return LocalEngine(
            logs=logs,
            workers=args.workers,
            gpus=args.gpus or 0,
            function=execute.CHUNK_FUNCTION,
            chunk_timeout=args.chunk_timeout,
        )

    summary = sweep(
        study,
        args.store,
        make_engine,
        lanes=args.lanes,
        gpu=bool(args.gpus),
        fail_fast=args.fail_fast,
        retry_failed=args.retry_failed,
        take_over=args.take_over,
        check_memory=args.engine == "local" and not args.gpus,
        display=progress.make_display(quiet=args.quiet),
    )
    print(f"{summary.done:,} of {summary.total:,} runs done, {summary.failed:,} failed")
    if summary.failed and not summary.session_failed and not args.retry_failed:
        print("failed runs are not run again; --retry-failed does that")
    if summary.stopped_by is not None:
        print("stopped; the same command resumes")
    elif summary.done and not args.quiet:
        print(f"look at it: mirrorax report {shlex.quote(args.store)} --open", file=sys.stderr)
    return summary.exit_code


def _status(args: argparse.Namespace) -> int:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    from mirrorax.store import files
    from mirrorax.sweep import status

    watcher = status.Watcher(files.existing(flags.place_of(args)))

    def picture() -> Group:
        now = watcher.status()
        head, *body = status.rows_of(now)
        table = Table(box=None, pad_edge=False)
        for index, name in enumerate(head):
            table.add_column(name, justify="left" if index < 2 else "right", no_wrap=True)
        for row in body:
            table.add_row(*(Text(cell) for cell in row))
        return Group(Text(status.summary(now)), table)

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=160)
    if not args.watch:
        console.print(picture())
        return 0
    return _watch(console, picture)


def _watch(console: Any, picture: Callable[[], Any]) -> int:
    import time

    from rich.live import Live

    with Live(picture(), console=console, auto_refresh=False) as view:
        while True:
            time.sleep(1.0)
            view.update(picture(), refresh=True)


def _verify(args: argparse.Namespace) -> int:
    from mirrorax.store.reading import verify

    sound, wrong = verify(flags.place_of(args))
    for name, why in wrong.items():
        print(f"damaged: {plain(name)}: {plain(why)}")
    print(f"{counted(sound, 'file')} sound, {len(wrong):,} damaged")
    return 1 if wrong else 0


def _export(args: argparse.Namespace) -> int:
    from mirrorax.cli.stored import damage_named
    from mirrorax.spec.study import read
    from mirrorax.store.exporting import export

    flags.load_plugins(args)
    place = flags.place_of(args)
    with damage_named() as damaged:
        study = read(args.study) if args.study else None
        count = export(place, args.to, provenance=not args.no_provenance, study=study)
    print(f"{counted(count, 'run')} written to {args.to}")
    return 1 if damaged else 0


def _import(args: argparse.Namespace) -> int:
    from mirrorax.store.legacy import import_runs

    new, total = import_runs(args.store, args.source)
    print(f"{new:,} of {total:,} runs are new in {args.store}")
    return 0
