"""`mirrorax tune`: find temperatures for an environment with a fixed budget of runs."""

from __future__ import annotations

import argparse
import sys
from math import isnan, nan
from typing import TYPE_CHECKING

from mirrorax.cli import flags
from mirrorax.errors import UserError
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from mirrorax.tuning.cells import CheckedCell, SearchRecord
    from mirrorax.tuning.tune import TuneResult, TuneTask

EXAMPLES = """examples:
  mirrorax tune --env Catch --budget 64 --steps 100000
  mirrorax tune --plugin mine --env Maze --budget 256 --store maze_search
  mirrorax tune --env CartPole --potential "tsallis(0.5)" --drift kl --lam-range 0.1,10
  mirrorax tune --env Catch --alpha-schedule learned           searches w and lam

The budget counts runs of full length; a run that is stopped half-way counts as half. Three quarters
are for the search; the rest chooses among the best cells and checks the winner on fresh seeds.
With --store the same command resumes after Ctrl-C or a crash.
"""


FLAGS = """
@environment
--budget N=256      runs of full length
--store DIR         keep the search in this folder, so that it can resume
--seed N=0          seed of the whole search
--alpha-range LOW,HIGH      range of alpha (around the suggestion)
--lam-range LOW,HIGH        range of lam (around the suggestion)
--results PATH      results to start from, see 'mirrorax suggest'
@preset
@lanes
@plugin
@json
--quiet             show no progress
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for every setting, and for the values that all runs share."""
    from mirrorax.runs.settings import OTHER_NUMBERS

    parser.usage = "mirrorax tune --env NAME [options]"
    flags.add_values(parser, "values that all runs share", OTHER_NUMBERS)
    flags.add_settings(
        parser, "settings, as in 'mirrorax train'; the pair is the suggested one unless given"
    )


def _range(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name}: {text!r} is not allowed: two numbers, LOW,HIGH") from None


def run(args: argparse.Namespace) -> int:
    """Search, and show the result."""
    from mirrorax.cli.terminal import Stop
    from mirrorax.runs.settings import OTHER_NUMBERS
    from mirrorax.tuning import tune

    if args.env is None:
        raise UserError("env: missing; for example --env Catch")
    flags.load_plugins(args)
    with flags.naming(args, {"environment": "env"}):
        fields = flags.read_settings(flags.typed_settings(args))
        values = {name: getattr(args, name) for name in OTHER_NUMBERS}
        task = tune.prepare(
            args.env,
            budget=args.budget,
            seed=args.seed,
            preset=args.preset or "default",
            alpha_range=_range("alpha_range", args.alpha_range),
            lam_range=_range("lam_range", args.lam_range),
            results=args.results,
            lanes=args.lanes,
            layout=args.layout,
            **{name: flags.numbers(name, text) for name, text in values.items()},
            **fields,
        )
    progress = _Progress(task, args.store, hidden=args.json or args.quiet)
    from mirrorax.mdpo.machine import enable_cache

    enable_cache()
    with Stop("the same command resumes" if args.store else "") as stop, flags.naming(args):
        result = tune.run_task(
            task, store=args.store, on_batch=progress, on_segment=lambda _: stop.check()
        )
    if args.json:
        print(result.to_json())
    else:
        _show(result)
    return 0


class _Progress:
    """One line on standard error per batch."""

    def __init__(self, task: TuneTask, store: str | None, hidden: bool) -> None:
        self._budget, self._hidden = task.budget, hidden
        ranges = ", ".join(f"{a.name} in [{a.low:g}, {a.high:g}]" for a in task.axes)
        pair = f"({task.settings.potential}, {task.settings.drift})"
        self._print(f"searching {pair} on {task.settings.environment}: {ranges}")
        if store is None:
            self._print("without --store an interrupted search is lost")

    def __call__(self, record: SearchRecord, part: str) -> None:
        spent = f"{record.spent:6.1f} of {self._budget} runs"
        if part == "search":
            batch = record.batches[-1]
            best = record.best_single
            so_far = "every run diverged so far" if isnan(best) else f"best run so far {best:.3f}"
            cells = counted(len(batch.cells), "cell")
            self._print(f"{spent}  batch {batch.number + 1}: {cells}, {so_far}")
        elif part == "choose":
            self._print(f"{spent}  {counted(len(record.candidates), 'cell')} with further seeds")
        else:
            self._print(f"{spent}  the best of them and its neighbours with fresh seeds")

    def _print(self, text: str) -> None:
        if not self._hidden:
            print(text, file=sys.stderr, flush=True)


def verdict(result: TuneResult) -> str:
    """Say in words what the neighbours show about the best cell."""
    whole = result.best.whole or (nan,)
    low, high = result.interval or (min(whole), max(whole))
    lost = sum(cell.diverged > 0 for cell in result.neighbours)
    if result.diverged or lost:
        places = [*(["here"] if result.diverged else ()), *(["close by"] if lost else ())]
        return f"not safe: runs diverged {' and '.join(places)}; lower learning rates may help"
    # A tenth of the range of scores; where the range is not known, the spread of the seeds.
    tolerance = 0.1 if result.units == "normalised return" else high - low
    fewest = min(len(cell.scores) for cell in result.neighbours)
    if result.largest_rise > tolerance and result.mean + result.largest_rise > high:
        few = f" (by {counted(fewest, 'seed')}: it may be luck)" if fewest < 5 else ""
        return (
            f"not settled: a neighbour is {result.largest_rise:.3f} above{few}; "
            "use a larger --budget or more --steps"
        )
    if result.largest_drop <= tolerance:
        return f"a forgiving place: no neighbour is more than {tolerance:.3g} below"
    return f"sensitive: a neighbour is {result.largest_drop:.3f} below"


def _seeds(best: CheckedCell) -> str:
    if not best.diverged:
        return f"{len(best.scores)} fresh seeds"
    return f"{len(best.whole)} of {len(best.scores)} fresh seeds; the others diverged"


def _show(result: TuneResult) -> None:
    settings = result.settings
    names = list(result.cell)
    cell = ", ".join(f"{name} {value:g}" for name, value in result.cell.items())
    print(f"({settings.potential}, {settings.drift}) on {settings.environment}: {cell}")
    count = len(result.scores)
    if result.diverged == count:
        print(f"  all {count} fresh seeds diverged")
    else:
        words = result.seeds_in_words
        interval = f"95% interval {words}" if words.startswith("[") else words
        print(f"  {result.units} {result.mean:.3f}, {interval}, over {_seeds(result.best)}")
    print(f"  (the best single run of the search had {result.searched:.3f}: not a result)")
    print()
    print("half a decade away" if "w" not in names else "one step away")
    width = max(len(f"{n.cell[name]:g}") for n in result.neighbours for name in names)
    for neighbour in result.neighbours:
        print(f"  {_neighbour(neighbour, result, width)}")
    print(f"  {verdict(result)}")
    print()
    tried = sum(len(batch.cells) for batch in result.search.batches)
    print(f"{result.spent:.1f} of {result.budget} runs used, {tried} cells tried")
    print(f"try   {result.command}")


def _neighbour(neighbour: CheckedCell, result: TuneResult, width: int) -> str:
    place = "  ".join(f"{name} {value:<{width}g}" for name, value in neighbour.cell.items())
    seeds = counted(len(neighbour.scores), "seed")
    if isnan(neighbour.mean):
        return f"{place}  diverged  ({seeds})"
    if isnan(result.mean):
        return f"{place}  {neighbour.mean:.3f}  ({seeds})"
    seeds += f", {neighbour.diverged} diverged" if neighbour.diverged else ""
    return f"{place}  {neighbour.mean:.3f}  ({neighbour.mean - result.mean:+.3f}, {seeds})"
