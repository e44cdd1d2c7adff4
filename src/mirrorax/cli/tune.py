"""`mirrorax tune`: find temperatures for an environment with a fixed budget of runs."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError
from mirrorax.formatting import columns, counted

if TYPE_CHECKING:
    from mirrorax.tuning.propose import Record
    from mirrorax.tuning.result import TuneResult
    from mirrorax.tuning.space import Range, Specification

EXAMPLES = """examples:
  mirrorax tune --env Catch --budget 64 --steps 100000
  mirrorax tune --plugin mine --env Maze --budget 256 --store maze_search
  mirrorax tune --env CartPole --potential "tsallis(0.5)" --drift kl --lam-range 0.1,10
  mirrorax tune --env Catch --alpha-schedule learned --lam-schedule learned    searches w and v
  mirrorax tune --env Catch --choose drift=kl/forward_kl --search gamma=0.9,0.999

Three quarters of the budget are for the search; the rest chooses among the best cells and checks
the winner on fresh seeds. With --store the same command resumes after Ctrl-C or a crash.
"""


FLAGS = """
@environment
--budget N=256      runs
--store DIR         keep the runs in this store, so that the search can resume
--optuna FILE       also write the search for Optuna: optuna-dashboard sqlite:///FILE
--seed N=0          seed of the whole search
--workers N         worker processes (all cores); 0: this process
--alpha-range LOW,HIGH      range of alpha (wide, and it grows)
--lam-range LOW,HIGH        range of lam (wide, and it grows)
--w-range LOW,HIGH          range of w (wide, and it grows)
--v-range LOW,HIGH          range of v (wide, and it grows)
--search RANGE+     further values to search, each NAME=LOW,HIGH: actor_lr, critic_lr, gamma
--choose CHOICE+    settings to choose among, each SETTING=A/B, e.g. drift=kl/'bregman(max)'
--results PATH      results to start from, see 'mirrorax suggest'
--lanes N           runs side by side in a worker (4)
@preset
@plugin
@json
--quiet             show no progress
# values that all runs share
@OTHER_NUMBERS
# settings, as in 'mirrorax train'
@settings
"""


def _range(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name}: {text!r} is not allowed: two numbers, LOW,HIGH") from None


def _named(flag: str, texts: list[str]) -> dict[str, str]:
    out = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"--{flag}: {text!r} is not allowed: expected NAME=...")
        out[name.strip().replace("-", "_")] = value
    return out


def run(args: argparse.Namespace) -> int:
    """Search, and show the result."""
    from mirrorax.cli import leave
    from mirrorax.runs.settings import OTHER_NUMBERS, TEMPERATURES
    from mirrorax.tuning import tune
    from mirrorax.tuning.result import check_new
    from mirrorax.tuning.task import prepare

    if args.env is None:
        raise UserError("env: missing; for example --env Catch")
    fields = flags.typed_settings(args)
    ranges = {
        name: _range(f"{name}_range", getattr(args, f"{name}_range")) for name in TEMPERATURES
    }
    ranges |= {n: _range(n, text) for n, text in _named("search", args.search or []).items()}
    choices: dict[str, Any] = {
        name: [flags.read_setting(name, part) for part in text.split("/")]
        for name, text in _named("choose", args.choose or []).items()
    }
    for name in ("potential", "drift"):
        if name in choices:
            fields[name] = choices.pop(name)
    spec = prepare(
        args.env,
        budget=args.budget,
        seed=args.seed,
        preset=args.preset or "default",
        ranges=ranges,
        choices=choices,
        results=args.results,
        lanes=args.lanes,
        **{name: getattr(args, name) for name in OTHER_NUMBERS},
        **fields,
    )
    if args.optuna is not None:
        check_new(Path(args.optuna))
    say = partial(print, file=sys.stderr, flush=True)
    progress = None if args.json or args.quiet else _progress(spec, say)
    if progress is not None and args.store is None:
        say("without --store an interrupted search is lost")
    try:
        result = tune.run_search(spec, store=args.store, workers=args.workers, on_batch=progress)
    except KeyboardInterrupt:
        sys.stdout.flush()
        leave("the same command resumes" if args.store else "")
    if args.json:
        print(result.to_json())
    else:
        _show(result)
    if args.optuna is not None:
        result.to_optuna(args.optuna)
    return 0


def _progress(spec: Specification, say: Callable[[str], None]) -> Callable[[Record, str], None]:
    """Say what is searched; return what says one line per batch."""
    pairs = ", ".join(dict.fromkeys(f"({a.potential}, {a.drift})" for a in spec.arms))
    say(f"searching {pairs} on {spec.arms[0].environment}: {_spans(spec.ranges)}")
    ranges = [spec.ranges]  # the last one is what is searched now

    def on_batch(record: Record, part: str) -> None:
        spent, best = f"{record.spent:4d} of {spec.budget.total} runs", record.searched
        if part == "choose":
            say(f"{spent}  {counted(len(record.candidates), 'cell')} with further seeds")
        elif part == "check":
            say(f"{spent}  the best of them and its neighbours with fresh seeds")
        else:
            so_far = "every run diverged so far" if isnan(best) else f"best run so far {best:.3f}"
            say(f"{spent}  batch {len(record.batches)}: {so_far}")
            if record.ranges != ranges[-1]:
                ranges.append(record.ranges)
                say(f"{'':{len(spent)}}  searching wider: {_spans(record.ranges)}")

    return on_batch


def _spans(ranges: Sequence[Range]) -> str:
    return ", ".join(f"{each.name} in [{each.low:g}, {each.high:g}]" for each in ranges)


def _show(result: TuneResult) -> None:
    word, text = result.verdict
    settings = result.settings
    cell = ", ".join(f"{name} {value:g}" for name, value in result.cell.items())
    head = "best of what was tried: " if word == "nothing" else ""
    print(f"{head}({settings.potential}, {settings.drift}) on {settings.environment}: {cell}")
    count, whole = len(result.scores), len(result.best.whole)
    if whole == 0:
        print(f"  all {count} fresh seeds diverged")
    else:
        words = result.seeds_in_words
        interval = f"95% interval {words}" if words.startswith("[") else words
        seeds = f"{whole} of {count} fresh seeds; the others diverged"
        seeds = f"{count} fresh seeds" if whole == count else seeds
        print(f"  {result.units} {result.mean:.3f}, {interval}, over {seeds}")
    if result.random is not None:
        best = result.specification.best
        most = "" if best is None else f", the best possible {best:.3f}"
        print(f"  random play has {result.random:.3f}{most}")
    print(f"  (the best single run of the search had {result.record.searched:.3f}: not a result)")
    print("\nclose by")
    print(textwrap.indent(columns(result.close_by), "  "))
    tried = len({item.run.cell for item in result.record.trials})
    used = f"{result.spent} of {result.specification.budget.total} runs used, {tried} cells tried"
    if word == "nothing":
        print(f"\n{used}\n{text}")
        return
    print(f"  {text}\n\n{used}\ntry   {result.command}")
