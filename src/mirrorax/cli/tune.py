"""`mirrorax tune`: find temperatures for an environment with a fixed budget of runs."""

from __future__ import annotations

import argparse
import sys
from math import isnan, nan
from typing import TYPE_CHECKING, Any

from mirrorax.cli import plugin
from mirrorax.cli.flags import Typed, naming, settings_from
from mirrorax.errors import UserError
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from mirrorax.tuning.search import Checked, Found
    from mirrorax.tuning.tune import TuneResult

_EXAMPLES = """examples:
  mirrorax tune --env Catch --budget 64 --steps 100000
  mirrorax tune --plugin mine --env Maze --budget 256 --store maze_search
  mirrorax tune --env CartPole --potential "tsallis(0.5)" --drift kl --lam-range 0.1,10
  mirrorax tune --env Catch --alpha-schedule learned           searches w and lam

The budget counts runs of full length; one that is stopped half-way is half a run. Three quarters
are for the search, the rest chooses among the best cells and checks the winner on fresh seeds.
With --store the same command goes on after Ctrl-C, or after the machine was switched off.
"""

#: settings that have a flag of their own above
_OWN = ("environment", "potential", "drift", "steps", "plugins")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    from mirrorax.runs.settings import OTHER_NUMBERS, PRESETS, RunValues, Settings

    parser.epilog = _EXAMPLES
    parser.register("action", None, Typed)
    add = parser.add_argument
    add("--env", "--environment", dest="env", help="CartPole, Catch, Maze, ...")
    add("--budget", type=int, default=256, help="runs of full length (256)")
    add("--potential", help="the potential h (the suggested one)")
    add("--drift", help="the drift D (the suggested one)")
    add("--steps", help="environment steps of a run (the preset's)")
    add("--store", metavar="DIR", help="keep the search there, to go on after an interruption")
    add("--seed", type=int, default=0, help="of the whole search (0)")
    add("--alpha-range", metavar="LOW,HIGH", help="where to search (around the suggestion)")
    add("--lam-range", metavar="LOW,HIGH", help="where to search (around the suggestion)")
    add("--results", metavar="PATH", help="results to start from, see 'mirrorax suggest'")
    add("--preset", default="default", help=f"one of {', '.join(PRESETS)} (default)")
    add("--lanes", type=int, help="runs side by side (a fixed number per kind of device)")
    add("--layout", help="map | vmap: updates lane by lane or batched (what suits the device)")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    add("--quiet", action="store_true", help="say nothing on the way")
    plugin.add_flag(parser)
    values = parser.add_argument_group("numbers that all runs share")
    for name in OTHER_NUMBERS:
        values.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            help=f"({RunValues.model_fields[name].default})",
        )
    fields = parser.add_argument_group("settings of the trainer, as in 'mirrorax train'")
    for name, info in Settings.model_fields.items():
        if name not in _OWN:
            shown = ",".join(map(str, info.default)) if name == "hidden" else info.default
            fields.add_argument(f"--{name.replace('_', '-')}", help=f"({shown})")


def _range(name: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"{name}: {text!r} is not allowed: two numbers, LOW,HIGH") from None


def run(args: argparse.Namespace) -> int:
    """Search, and tell what was found."""
    from mirrorax.cli.live import Stop, leave
    from mirrorax.runs.settings import OTHER_NUMBERS, Settings
    from mirrorax.tuning.tune import prepare, run_task

    if args.env is None:
        raise UserError("env: missing; for example --env Catch")
    names = [name for name in Settings.model_fields if name not in _OWN]
    asked = {name: getattr(args, name) for name in (*names, "steps", *OTHER_NUMBERS)}
    more = settings_from({name: value for name, value in asked.items() if value is not None})
    plugin.load(args)
    with naming(args, {"environment": "env"}):
        task = prepare(
            args.env,
            args.potential,
            args.drift,
            budget=args.budget,
            seed=args.seed,
            preset=args.preset,
            alpha_range=_range("alpha_range", args.alpha_range),
            lam_range=_range("lam_range", args.lam_range),
            results=args.results,
            lanes=args.lanes,
            layout=args.layout,
            **more,
        )
    shown = _Progress(task.budget, hidden=args.json or args.quiet)
    shown.start(task, args.store)
    from mirrorax.mdpo.compilation import enable_cache

    enable_cache()
    stop = Stop()

    def on_segment(progress: Any) -> None:
        stop.check()

    try:
        with stop, naming(args):
            result = run_task(task, store=args.store, on_batch=shown, on_segment=on_segment)
    except KeyboardInterrupt:
        if args.store:
            print("mirrorax: the same command goes on from here", file=sys.stderr)
        leave()
    if args.json:
        print(result.to_json())
    else:
        _show(result)
    return 0


class _Progress:
    """One line on standard error per batch."""

    def __init__(self, budget: int, hidden: bool) -> None:
        self._budget, self._hidden = budget, hidden

    def start(self, task: Any, store: str | None) -> None:
        ranges = ", ".join(f"{a.name} in [{a.low:g}, {a.high:g}]" for a in task.axes)
        pair = f"({task.settings.potential}, {task.settings.drift})"
        self._say(f"searching {pair} on {task.settings.environment}: {ranges}")
        if store is None:
            self._say("not kept: without --store an interrupted search is lost")

    def __call__(self, found: Found, part: str) -> None:
        spent = f"{found.spent:6.1f} of {self._budget} runs"
        if part == "search":
            batch = found.batches[-1]
            text = f"batch {batch.number + 1}: {counted(len(batch.cells), 'cell')}"
            best = found.searched
            so_far = "every run diverged so far" if isnan(best) else f"best run so far {best:.3f}"
            self._say(f"{spent}  {text}, {so_far}")
        elif part == "choose":
            self._say(f"{spent}  {counted(len(found.candidates), 'cell')} with further seeds")
        else:
            self._say(f"{spent}  the best of them and its neighbours with fresh seeds")

    def _say(self, text: str) -> None:
        if not self._hidden:
            print(text, file=sys.stderr, flush=True)


def _around(result: TuneResult) -> str:
    """Say in words what the neighbours tell of the place that was found."""
    whole = result.best.whole or (nan,)
    low, high = result.interval or (min(whole), max(whole))
    lost = sum(one.diverged > 0 for one in result.neighbours)
    if result.diverged or lost:
        places = [*(["here"] if result.diverged else ()), *(["close by"] if lost else ())]
        return f"not safe: runs diverged {' and '.join(places)}; lower learning rates may help"
    # A tenth of what there is to win; where that is not known, what seeds alone can make.
    much = 0.1 if result.units == "normalised return" else high - low
    shown = f"{much:.3g}"
    fewest = min(len(one.scores) for one in result.neighbours)
    if result.largest_rise > much and result.mean + result.largest_rise > high:
        few = f" (by {counted(fewest, 'seed')}: it may be luck)" if fewest < 5 else ""
        return (
            f"not settled: a neighbour is {result.largest_rise:.3f} above{few}; "
            "a larger --budget, or more --steps, would tell"
        )
    if result.largest_drop <= much:
        return f"a forgiving place: no neighbour is more than {shown} below"
    return f"sensitive: a neighbour is {result.largest_drop:.3f} below"


def _seeds(best: Checked) -> str:
    """Say over how many fresh seeds a mean is, and how many are not in it."""
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
        shown = f"95% interval {words}" if words.startswith("[") else words
        print(f"  {result.units} {result.mean:.3f}, {shown}, over {_seeds(result.best)}")
    print(f"  (the search itself saw {result.searched:.3f}, the best of many: not a result)")
    print()
    print("half a decade away" if "w" not in names else "one step away")
    width = max(len(f"{one.cell[n]:g}") for one in result.neighbours for n in names)
    for one in result.neighbours:
        place = "  ".join(f"{name} {one.cell[name]:<{width}g}" for name in names)
        if isnan(one.mean) or isnan(result.mean):
            shown = "diverged" if isnan(one.mean) else f"{one.mean:.3f}"
            print(f"  {place}  {shown}  ({counted(len(one.scores), 'seed')})")
            continue
        change = one.mean - result.mean
        seeds = counted(len(one.scores), "seed")
        seeds += f", {one.diverged} diverged" if one.diverged else ""
        print(f"  {place}  {one.mean:.3f}  ({change:+.3f}, {seeds})")
    print(f"  {_around(result)}")
    print()
    tried = sum(len(batch.cells) for batch in result.found.batches)
    print(f"{result.spent:.1f} of {result.budget} runs used, {tried} cells tried")
    print(f"try   {result.command}")
