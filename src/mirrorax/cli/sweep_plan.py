"""`mirrorax sweep plan`: what a study has left to do, and how long it takes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError
from mirrorax.formatting import columns, counted, duration

if TYPE_CHECKING:
    from mirrorax.sweep.plan import Plan


def show_plan(args: argparse.Namespace) -> int:
    """Print the plan; write nothing."""
    if args.node_workers and not args.nodes:
        raise UserError(f"--node-workers: {args.node_workers} on how many nodes? give --nodes N")
    from mirrorax.mdpo.machine import cores
    from mirrorax.runs import results
    from mirrorax.spec.study import read
    from mirrorax.store import files, reading, studies
    from mirrorax.sweep import plan as planning

    flags.load_plugins(args)
    study = read(args.study)
    root = files.existing(args.store) if Path(args.store).exists() else None
    runs = studies.runs_of(study, root)
    lanes = planning.lanes_for(runs, root, args.lanes, gpu=bool(args.gpus))
    damaged, stored = {}, results.concat([])
    if root is not None:
        damaged = reading.damaged(root)
        stored = reading.Reader(root, ["wall_seconds"], damaged).results()
    plan = planning.make(runs, stored, lanes=lanes, retry_failed=args.retry_failed)
    if args.measure and plan.chunks:
        plan = planning.make(
            runs, stored, lanes=lanes, retry_failed=args.retry_failed, measured=_measured(plan)
        )
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
    for name in sorted(damaged):
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
    count = len(plan.chunks)
    used = counted(len({chunk.configuration for chunk in plan.chunks}), "configuration")
    time_left = duration(plan.seconds_on(1) / workers)
    memory = "checked when the sweep starts"
    if largest := plan.largest():
        need = largest[1].worker_bytes(plan.lanes)
        memory = f"about {need / 2**30:.1f} GiB in each worker"
    rows = [
        ("chunks", f"{count:,} of up to {counted(plan.lanes, 'lane')}, {used}"),
        ("memory", memory),
        (
            "time left",
            f"about {time_left} on {counted(workers, 'worker')} (from {plan.rates.source})",
        ),
    ]
    factor = f"{args.speedup or 1:g} times as fast as a worker here (given, not measured)"
    each = args.node_workers or workers
    if args.speedup:
        seconds = duration(plan.seconds_on(1, args.speedup))
        rows.append(("GPU node", f"about {seconds} on one GPU, {factor}"))
    if args.nodes:
        seconds = duration(plan.seconds_on(args.nodes * each))
        where = f"{counted(args.nodes, 'node')} of {counted(each, 'worker')} like those here"
        rows.append(("Ray cluster", f"about {seconds} on {where}"))
    if args.nodes and args.speedup:
        seconds = duration(plan.seconds_on(args.nodes, args.speedup))
        where = f"{counted(args.nodes, 'node')} with a GPU each, {factor}"
        rows.append(("Ray, GPUs", f"about {seconds} on {where}"))
    if (args.nodes or args.speedup) and count < (args.nodes or 1) * each:
        chunks = f"there {'is' if count == 1 else 'are'} only {counted(count, 'chunk')}"
        rows.append(("note", f"{chunks}: more workers than that would idle"))
    return rows


def _measured(plan: Plan) -> dict[Any, float]:
    from mirrorax.sweep import worker
    from mirrorax.sweep.engine import EngineError
    from mirrorax.sweep.measure import measure_seconds

    try:
        return measure_seconds(plan, worker.CHUNK_FUNCTION)
    except RuntimeError as error:
        raise EngineError(str(error)) from None
