"""A driver process for the fault tests: `drive.py STUDY STORE [options]`."""

import argparse
import os
import signal
import sys
import time

import standin

from mirrorax.errors import UserError
from mirrorax.spec.study import read
from mirrorax.store.files import StoreError
from mirrorax.sweep.driver import run_study
from mirrorax.sweep.engine import InlineEngine
from mirrorax.sweep.engines.local import LocalEngine


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("study")
    parser.add_argument("store")
    parser.add_argument("--engine", default="inline")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--kill-at", type=int, default=-1, help="SIGKILL at this fault point")
    parser.add_argument("--slow-points", type=float, default=0.0)
    parser.add_argument("--retry-failed", action="store_true")
    args = parser.parse_args()
    reached = 0

    def fault(point: str) -> None:
        nonlocal reached
        if reached == args.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        reached += 1
        if args.slow_points:
            time.sleep(args.slow_points)

    def make_engine(logs):
        if args.engine == "inline":
            return InlineEngine(standin.train_chunk)
        return LocalEngine(logs=logs, workers=2, function="standin:train_chunk")

    try:
        summary = run_study(
            read(args.study),
            args.store,
            engine=make_engine,
            progress=False,
            lanes=args.lanes,
            retry_failed=args.retry_failed,
            fault=fault,
        )
    except (UserError, StoreError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"points {reached} done {summary.done} failed {summary.failed}", flush=True)
    return summary.exit_code


if __name__ == "__main__":
    sys.exit(main())
