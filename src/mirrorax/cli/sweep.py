"""`mirrorax sweep`: plan, run, status, verify, export, import."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrorax.cli import flags
from mirrorax.cli.stored import damage_named, place_of
from mirrorax.errors import UserError, plain
from mirrorax.formatting import columns, counted

if TYPE_CHECKING:
    from mirrorax.spec.study import Study

EXAMPLES = """\
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


_STUDY = """
STUDY.toml          the study, a TOML file
--store DIR!        the folder of results
@plugin
"""

ACTIONS = {
    "plan": (
        "Say what a study has left to do; write nothing.",
        f"""{_STUDY}
@sizes
--measure           train a little of each configuration and time it
--speedup X>0       also estimate the time on a GPU that is X times as fast as a worker here
--nodes N>=1        also estimate the time on N machines (Ray)
--node-workers N>=1     workers on each machine (as many as here)
""",
    ),
    "run": (
        "Run what a study has left to do; the same command resumes it.",
        f"{_STUDY}@engine",
    ),
    "status": (
        "Say how a sweep is doing, while it runs or afterwards.",
        """
@results
--watch             update every second until Ctrl-C
""",
    ),
    "verify": ("Check every file of a store; name the damaged ones.", "@results"),
    "import": (
        "Put exported runs into a store; runs it has are kept.",
        """
--store DIR!        the folder of results
--from PATH!        the exported file (FILE.parquet), or a folder of such files
""",
    ),
    "export": (
        "Write all runs, or those of one study, to one file.",
        """
@results
@plugin
--study STUDY.toml  export only the runs of this study
--to FILE!          the file to write: FILE.csv or FILE.parquet
--no-provenance     leave out times, versions, device and host
""",
    ),
}


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
    """Run what a study has left to do, with the flags of `@engine`."""
    from mirrorax.callbacks import make_logger
    from mirrorax.sweep import driver

    if args.engine == "ray" and args.chunk_timeout:
        raise UserError("--chunk-timeout: a worker of this machine can be ended, not one of Ray's")
    if args.engine != "ray" and args.address != "auto":
        raise UserError(f"--address: {args.address!r} is for --engine ray")
    summary = driver.run_study(
        study,
        args.store,
        engine=args.engine,
        address=args.address,
        workers=args.workers,
        gpus=args.gpus,
        chunk_timeout=args.chunk_timeout,
        progress=not args.quiet,
        lanes=args.lanes,
        fail_fast=args.fail_fast,
        retry_failed=args.retry_failed,
        take_over=args.take_over,
        log=None if args.log is None else make_logger(args.log),
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
    from mirrorax.store import files
    from mirrorax.sweep.progress import Watcher

    watcher = Watcher(files.existing(place_of(args)))

    def text() -> str:
        now = watcher.status()
        rows = [[plain(cell) for cell in row] for row in now.rows()]
        return f"{now.summary()}\n{columns(rows, left=2)}"

    if not args.watch:
        print(text())
        return 0
    from rich.live import Live
    from rich.text import Text

    with Live(Text(text()), auto_refresh=False) as view:
        while True:
            time.sleep(1.0)
            view.update(Text(text()), refresh=True)


def _verify(args: argparse.Namespace) -> int:
    from mirrorax.store.reading import verify

    sound, wrong = verify(place_of(args))
    for name, why in wrong.items():
        print(f"damaged: {plain(name)}: {plain(why)}")
    print(f"{counted(sound, 'file')} sound, {len(wrong):,} damaged")
    return 1 if wrong else 0


def _export(args: argparse.Namespace) -> int:
    from mirrorax.spec.study import read
    from mirrorax.store.exporting import export

    flags.load_plugins(args)
    place = place_of(args)
    with damage_named() as damaged:
        study = read(args.study) if args.study else None
        count = export(place, args.to, provenance=not args.no_provenance, study=study)
    print(f"{counted(count, 'run')} written to {args.to}")
    return 1 if damaged else 0


def _import(args: argparse.Namespace) -> int:
    from mirrorax.store.exporting import import_runs

    new, total = import_runs(args.store, getattr(args, "from"))
    print(f"{new:,} of {total:,} runs are new in {args.store}")
    return 0
