"""`mirrorax sweep`: plan, run, status, verify, export, import."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import plugin
from mirrorax.errors import UserError, plain
from mirrorax.formatting import counted, duration, whole

if TYPE_CHECKING:
    from mirrorax.spec.study import Study
    from mirrorax.sweep.plan import Plan

_EXAMPLES = """\
examples:
  mirrorax sweep plan   study.toml --store results
  mirrorax sweep plan   study.toml --store results --speedup 20 --nodes 4
  mirrorax sweep run    study.toml --store results       start and resume are the same
  mirrorax sweep status --store results --watch          from another terminal
  mirrorax sweep verify --store results
  mirrorax sweep export --store results --to runs.csv
  mirrorax sweep import --store results --from runs.parquet  what another machine exported

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
    """Declare the commands and their flags."""
    parser.epilog = _EXAMPLES
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=type(parser)
    )

    def command(name: str, text: str, *, study: bool = False) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if study:
            made.add_argument("study", metavar="STUDY.toml", help="the study, a TOML file")
        made.add_argument("--store", metavar="DIR", required=True, help="the folder of results")
        return made

    plan = command("plan", "Say what a study has left to do; write nothing.", study=True)
    run = command("run", "Run what a study has left to do, from the start or again.", study=True)
    add_sizes(plan)
    plan.add_argument(
        "--measure", action="store_true", help="time one segment per configuration, in a child"
    )
    plan.add_argument(
        "--speedup",
        type=_factor,
        metavar="S",
        help="also say how long it takes on a GPU that is S times as fast as a worker here",
    )
    plan.add_argument(
        "--nodes", type=_count, metavar="N", help="also say how long it takes on N machines (Ray)"
    )
    plan.add_argument(
        "--node-workers", type=_count, metavar="W", help="workers on each of them (as many as here)"
    )
    add_engine(run)
    status = command("status", "Say how a sweep is doing, while it runs or after.")
    status.add_argument("--watch", action="store_true", help="keep looking until Ctrl-C")
    command("verify", "Check every file of a store; name the damaged ones.")
    imported = command("import", "Put exported runs into a store; those it has stay.")
    imported.add_argument(
        "--from", dest="source", metavar="PATH", required=True, help="FILE.parquet, or a folder"
    )
    export = command("export", "Write all runs, or those of one study, to one file.")
    for each in (plan, run, export):
        plugin.add_flag(each)
    export.add_argument("--study", metavar="STUDY.toml", help="only the runs of this study")
    export.add_argument("--to", metavar="FILE", required=True, help="FILE.csv or FILE.parquet")
    export.add_argument(
        "--no-provenance", action="store_true", help="leave out times, versions, device and host"
    )


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """Declare how many run side by side."""
    parser.add_argument("--lanes", type=_count, metavar="N", help="runs trained side by side")
    parser.add_argument("--workers", type=_count, metavar="N", help="worker processes")
    parser.add_argument("--gpus", type=_count, metavar="N", help="one worker on each of N GPUs")
    parser.add_argument("--retry-failed", action="store_true", help="run failed runs again")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Declare everything about running a study but the study and the store."""
    add_sizes(parser)
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="who computes")
    parser.add_argument(
        "--address", default="auto", metavar="HOST:PORT", help="the Ray cluster (default: auto)"
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failed chunk")
    parser.add_argument(
        "--take-over", action="store_true", help="take the store from a dead holder elsewhere"
    )
    parser.add_argument(
        "--chunk-timeout",
        type=_count,
        metavar="SECONDS",
        help="kill a worker whose chunk takes longer (it is tried again)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    actions = {
        "plan": _plan,
        "run": _run,
        "status": _status,
        "verify": _verify,
        "export": _export,
        "import": _import,
    }
    return reported(lambda: actions[args.action](args))


def reported(action: Callable[[], int]) -> int:
    """Do something with a store and an engine; what goes wrong with them is one line and a 1."""
    from mirrorax.store.errors import StoreError
    from mirrorax.sweep.engine import EngineError

    try:
        return action()
    except (StoreError, EngineError) as error:
        text = "\n".join(map(plain, str(error).splitlines()))  # it may end with lines of a log
        print(f"mirrorax: error: {text}", file=sys.stderr)
        return 1


def _plan(args: argparse.Namespace) -> int:
    if args.node_workers and not args.nodes:
        raise UserError(f"--node-workers: {args.node_workers} on how many nodes? give --nodes N")
    from mirrorax.spec.study import read
    from mirrorax.store import names, shards, studies
    from mirrorax.sweep import plan as planning
    from mirrorax.sweep.processes import cores

    plugin.load(args)
    study = read(args.study)
    root = names.existing(args.store) if Path(args.store).exists() else None
    runs = studies.runs_of(study, root)
    lanes = planning.lanes_for(runs, root, args.lanes, gpu=bool(args.gpus))
    damaged = shards.damaged(root) if root is not None else {}
    table = planning.known(root, without=damaged)
    plan = planning.make(runs, table, lanes=lanes, retry_failed=args.retry_failed)
    if args.measure and plan.chunks:
        plan = planning.make(
            runs,
            table,
            lanes=lanes,
            retry_failed=args.retry_failed,
            measured=_measured(plan),
        )
    workers = args.workers or args.gpus or len(cores())
    failed = int(plan.failed.sum())
    again = " (to be run again)" if args.retry_failed and failed else ""
    chunks = len(plan.chunks)
    used = len({chunk.configuration for chunk in plan.chunks})
    left, source = plan.seconds / workers, plan.rates.source
    rows = [
        ("study", study.name),
        ("runs in all", f"{len(runs):,}"),
        ("done", f"{int(plan.done.sum()):,}"),
        ("failed", f"{failed:,}{again}"),
        ("to do", f"{int(plan.todo.sum()):,}"),
    ]
    if chunks:
        need = plan.worker_bytes()
        memory = "checked when the sweep starts"
        if need is not None:
            memory = f"about {need / 2**30:.1f} GiB in each worker"
        rows += [
            (
                "chunks",
                f"{chunks:,} of up to {counted(lanes, 'lane')}, {counted(used, 'configuration')}",
            ),
            ("memory", memory),
            (
                "time left",
                f"about {duration(left)} on {counted(workers, 'worker')} (from {source})",
            ),
            *_elsewhere(plan, workers, args),
        ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    if guessed := plan.guessed():
        print(
            f"the time is a guess for {', '.join(guessed)}, which nobody has measured; "
            "--measure tries it here"
        )
    if not chunks:
        hint = "; --retry-failed runs the failed runs again" if failed else ""
        print(f"nothing is left to do{hint}")
    for name in sorted(damaged):
        print(f"damaged, 'sweep run' sets it aside and runs its runs again: shards/{name}")
    if plan.beyond:
        own = any(settings.plugins for settings in runs.configurations)
        hint = " (with another version of a plugin they are other runs)" if own else ""
        print(f"{plan.beyond:,} runs in the store are not in this study; they are kept{hint}")
    for name, values in plan.mixed.items():
        print(f"this store mixes results with different {name}: {', '.join(values)}")
    return 0


def _elsewhere(plan: Plan, workers: int, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Say what the same would take on a GPU or on a cluster, from the rate here."""
    rows = []
    factor = ""
    if args.speedup:
        factor = f"{args.speedup:g} times as fast as a worker here (given, not measured)"
        seconds = plan.seconds_on(1, args.speedup)
        rows.append(("GPU node", f"about {duration(seconds)} on one GPU, {factor}"))
    if args.nodes:
        each = args.node_workers or workers
        seconds = plan.seconds_on(args.nodes * each)
        where = f"{counted(args.nodes, 'node')} of {counted(each, 'worker')} like those here"
        rows.append(("Ray cluster", f"about {duration(seconds)} on {where}"))
    if args.nodes and args.speedup:
        seconds = plan.seconds_on(args.nodes, args.speedup)
        where = f"{counted(args.nodes, 'node')} with a GPU each, {factor}"
        rows.append(("Ray, GPUs", f"about {duration(seconds)} on {where}"))
    if rows and len(plan.chunks) < (args.nodes or 1) * (args.node_workers or workers):
        count = len(plan.chunks)
        there = f"there {'is' if count == 1 else 'are'} only {counted(count, 'chunk')}"
        rows.append(("note", f"{there}: more workers than that would idle"))
    return rows


def _measured(plan: Any) -> dict[Any, float]:
    from mirrorax.sweep import execute
    from mirrorax.sweep.engine import EngineError
    from mirrorax.sweep.measure import measure_seconds

    try:
        return measure_seconds(plan, execute.CHUNK_FUNCTION)
    except RuntimeError as error:
        raise EngineError(str(error)) from None


def _run(args: argparse.Namespace) -> int:
    from mirrorax.spec.study import read

    plugin.load(args)
    return run_study(read(args.study), args)


def run_study(study: Study, args: argparse.Namespace) -> int:
    """Run what a study has left to do, with the flags of `add_engine`."""
    from mirrorax.sweep import display, execute
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
        display=display.make(quiet=args.quiet),
    )
    print(f"{summary.done:,} of {summary.total:,} runs done, {summary.failed:,} failed")
    if summary.failed and not summary.session_failed and not args.retry_failed:
        print("failed runs are left alone; --retry-failed runs them again")
    if summary.stopped_by is not None:
        print("stopped; the same command goes on from here")
    elif summary.done and not args.quiet:
        print(f"look at it: {_look(args.store)}", file=sys.stderr)
    return summary.exit_code


def _look(store: str) -> str:
    """Return the command that shows what is in a store."""
    page = f"{Path(store).resolve().name}.html"
    return f"mirrorax report --store {shlex.quote(store)} --out {shlex.quote(page)}"


def _status(args: argparse.Namespace) -> int:
    from rich.console import Console, Group
    from rich.table import Table
    from rich.text import Text

    from mirrorax.store import names
    from mirrorax.sweep import status

    watcher = status.Watcher(names.existing(args.store))

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


def _watch(console: Any, picture: Any) -> int:
    import time

    from rich.live import Live

    with Live(picture(), console=console, auto_refresh=False) as view:
        while True:
            time.sleep(1.0)
            view.update(picture(), refresh=True)


def _verify(args: argparse.Namespace) -> int:
    from mirrorax.store.reading import verify

    sound, wrong = verify(args.store)
    for name, why in wrong.items():
        print(f"damaged: {plain(name)}: {plain(why)}")
    print(f"{counted(sound, 'file')} sound, {len(wrong):,} damaged")
    return 1 if wrong else 0


def _export(args: argparse.Namespace) -> int:
    from mirrorax.cli.stored import damage_named
    from mirrorax.spec.study import read
    from mirrorax.store.exporting import export

    plugin.load(args)
    with damage_named() as damaged:
        study = read(args.study) if args.study else None
        count = export(args.store, args.to, provenance=not args.no_provenance, study=study)
    print(f"{counted(count, 'run')} written to {args.to}")
    return 1 if damaged else 0


def _import(args: argparse.Namespace) -> int:
    from mirrorax.store.importing import import_runs

    new, total = import_runs(args.store, args.source)
    print(f"{new:,} of {total:,} runs are new in {args.store}")
    return 0
