"""`mirrorax sweep`: plan, run, status, verify, export, import."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mirrorax.cli.stored import damage_named, place_of
from mirrorax.errors import UserError, plain
from mirrorax.formatting import columns, counted, duration

if TYPE_CHECKING:
    from mirrorax.spec.study import Study
    from mirrorax.sweep.plan import Plan

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

#: flags of `@engine` that are options of `mirrorax.sweep`
_OPTIONS = (
    *("workers", "lanes", "gpus", "engine", "address"),
    *("fail_fast", "retry_failed", "take_over", "chunk_timeout"),
)
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
    actions = {"plan": _plan, "run": _run, "status": _status, "verify": _verify}
    return {**actions, "export": _export, "import": _import}[args.action](args)


def _plan(args: argparse.Namespace) -> int:
    """Print what a study has left to do, and how long it takes; write nothing."""
    if args.node_workers and not args.nodes:
        raise UserError(f"--node-workers: {args.node_workers} on how many nodes? give --nodes N")
    from mirrorax.mdpo.machine import cores
    from mirrorax.spec.study import expand, read
    from mirrorax.store import files, reading
    from mirrorax.sweep import plan as planning
    from mirrorax.sweep.measure import measure_seconds

    study = read(args.study)
    root = Path(args.store)
    if root.exists():
        files.existing(root)  # or it says what is wrong with it
    runs = expand(study)
    lanes = planning.lanes_for(runs, root, args.lanes, gpu=bool(args.gpus))
    reader = reading.Reader(root, ["wall_seconds"], every=True)
    stored = reader.results()
    make = partial(planning.make, runs, stored, lanes=lanes, retry_failed=args.retry_failed)
    plan = make()
    if args.measure and plan.chunks:
        plan = make(measured=measure_seconds(plan))
    workers = args.workers or args.gpus or len(cores())
    failed = int(plan.failed.sum())
    again = " (to be run again)" if args.retry_failed and failed else ""
    rows = [
        ("study", study.name),
        ("runs in all", f"{len(runs):,}"),
        ("done", f"{int(plan.done.sum()):,}"),
        ("failed", f"{failed:,}{again}"),
        ("to do", f"{int(plan.todo.sum()):,}"),
    ]
    if plan.chunks:
        rows += _costs(plan, workers, args)
    print(columns(rows, left=2))
    if guessed := plan.guessed():
        print(
            f"the time of {', '.join(guessed)} is a guess, because it was never measured; "
            "--measure measures it here"
        )
    if not plan.chunks:
        hint = "; --retry-failed runs the failed runs again" if failed else ""
        print(f"nothing is left to do{hint}")
    for name in sorted(reader.damaged):
        print(f"damaged, 'sweep run' sets it aside and runs its runs again: shards/{name}")
    if plan.beyond:
        own = any(settings.plugins for settings in runs.configurations)
        hint = " (with another version of a plugin they are other runs)" if own else ""
        print(f"{plan.beyond:,} runs in the store are not in this study; they are kept{hint}")
    for name, values in plan.mixed.items():
        print(f"this store mixes results with different {name}: {', '.join(values)}")
    return 0


def _costs(plan: Plan, workers: int, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the rows about chunks, memory and time, here and elsewhere."""
    count, largest = len(plan.chunks), plan.largest()
    used = counted(len({chunk.configuration for chunk in plan.chunks}), "configuration")
    memory = "checked when the sweep starts"
    if largest is not None:
        need = largest.worker_bytes(plan.lanes)
        memory = f"about {need / 2**30:.1f} GiB in each worker"
    here = f"{counted(workers, 'worker')} (from {plan.rates.source})"
    rows = [
        ("chunks", f"{count:,} of up to {counted(plan.lanes, 'lane')}, {used}"),
        ("memory", memory),
        ("time left", f"about {duration(plan.seconds_on(1) / workers)} on {here}"),
    ]
    factor = f"{args.speedup or 1:g} times as fast as a worker here (given, not measured)"
    nodes, each = counted(args.nodes or 1, "node"), args.node_workers or workers
    like = f"{nodes} of {counted(each, 'worker')} like those here"
    all_gpus = f"{nodes} with a GPU each, {factor}"
    elsewhere = [
        ("GPU node", args.speedup, 1, args.speedup, f"one GPU, {factor}"),
        ("Ray cluster", args.nodes, (args.nodes or 1) * each, 1, like),
        ("Ray, GPUs", args.nodes and args.speedup, args.nodes, args.speedup, all_gpus),
    ]
    for name, asked, number, speed, where in elsewhere:
        if asked:
            rows.append((name, f"about {duration(plan.seconds_on(number, speed))} on {where}"))
    if (args.nodes or args.speedup) and count < (args.nodes or 1) * each:
        chunks = f"there {'is' if count == 1 else 'are'} only {counted(count, 'chunk')}"
        rows.append(("note", f"{chunks}: more workers than that would idle"))
    return rows


def _run(args: argparse.Namespace) -> int:
    from mirrorax.spec.study import read

    return run_study(read(args.study), args)


def run_study(study: Study, args: argparse.Namespace) -> int:
    """Run what a study has left to do, with the flags of `@engine`."""
    from mirrorax.callbacks import make_logger
    from mirrorax.sweep.driver import run_study

    options = {name: getattr(args, name) for name in _OPTIONS}
    log = None if args.log is None else make_logger(args.log)
    summary = run_study(study, args.store, progress=not args.quiet, log=log, **options)
    print(f"{summary.done:,} of {summary.total:,} runs done, {summary.failed:,} failed")
    if summary.failed and not summary.session_failed and not args.retry_failed:
        print("failed runs are not run again; --retry-failed does that")
    if summary.stopped_by is not None:
        print("stopped; the same command resumes")
    elif summary.done and not args.quiet:
        print(f"look at it: mirrorax report {shlex.quote(args.store)} --open", file=sys.stderr)
    return summary.exit_code


def _status(args: argparse.Namespace) -> int:
    from mirrorax.store import files, reading
    from mirrorax.sweep.progress import STATUS_COLUMNS, read_status

    reader = reading.Reader(files.existing(place_of(args)), STATUS_COLUMNS)

    def text() -> str:
        now = read_status(reader)
        rows = [list(map(plain, row)) for row in now.rows()]
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
