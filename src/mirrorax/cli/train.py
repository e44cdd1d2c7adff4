"""`mirrorax train`: train MDPO(h, D) on one environment, over seeds and temperatures."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import plugins, training
from mirrorax.cli import Stop, flags
from mirrorax.envs import suite
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import columns, counted
from mirrorax.runs.settings import GRID, Settings, preset
from mirrorax.spec import toml
from mirrorax.training import folder

if TYPE_CHECKING:
    from mirrorax.training.result import TrainResult

EXAMPLES = """examples:
  mirrorax train --env Catch --alpha 0.05 --lam 1 --steps 150000
  mirrorax train --env CartPole --potential entropy --drift kl --alpha 0.2 --lam 0.1
  mirrorax train --env DeepSea --alpha 0.01,0.1 --lam 0,1 --seeds 3 --steps 200000 --out runs/sea
  mirrorax train --env Catch --alpha-schedule learned --w 0.3 --lam-schedule linear --json
  mirrorax train --config catch.toml --preset paper
  mirrorax train --env Catch --tensorboard logs      then: tensorboard --logdir logs

Several values, separated by commas, span a grid; every point is trained with every seed.
--config names a TOML file of the same fields (env = "Catch", alpha = [0.01, 0.1], ...). --preset
wins over the file, and every other flag wins over both.
"""

#: fields that are neither settings nor values of a run
_OTHER = ("env", "seeds", "preset", "lanes", "layout")

FLAGS = """
@environment
--seeds N,N         a number of seeds, or a list such as 3,8; 7, is seed 7 alone (5)
@preset
--config FILE.toml  read fields from a file; --preset and flags win
--out DIR           write results, curves, configuration and policies there
--overwrite         replace another result in the folder of --out
--log NAME:TARGET   write learning curves for a viewer: tensorboard:DIR, wandb:PROJECT or
                    mlflow:URI; :TARGET may be left out
--tensorboard DIR   the same as --log tensorboard:DIR
--lanes N           runs trained side by side (set by the device)
--layout NAME       update lane by lane (map), or batched (vmap) (set by the device)
@plugin
@json
--quiet             show no progress bar
# values of a run; several, with commas, span a grid
@GRID
# settings, the same for all runs
@settings
"""


def _from_file(path: str) -> dict[str, Any]:
    where = f"config: {path}"
    data = toml.parse(toml.read_text(path, where), where)
    if "environment" in data and "env" in data:
        raise UserError(f"{where}: both env and environment; give one of them")
    if "environment" in data:
        data["env"] = data.pop("environment")
    allowed = (*_OTHER, *GRID, *(name for name in Settings.model_fields if name != "environment"))
    for name in data:
        if name not in allowed:
            raise unknown(where, name, allowed)
    plugins.expect(data.pop("plugins", []), where)  # the names say which are used
    return data


def gather(args: argparse.Namespace) -> dict[str, Any]:
    """Join file and flags into the arguments of a request: file < preset < other flags."""
    fields = {} if args.config is None else _from_file(args.config)
    if args.preset is not None:
        fields |= preset(args.preset)
    typed = {name: getattr(args, name, None) for name in (*_OTHER, *GRID)}
    fields |= {name: value for name, value in typed.items() if value is not None}
    fields |= flags.typed_settings(args)
    if "env" not in fields:
        raise UserError("env: missing; for example --env Catch")
    return fields


def run(args: argparse.Namespace) -> int:
    """Train, show, write."""
    request = training.make_request(**gather(args))
    out = None if args.out is None else Path(args.out)
    if args.overwrite and out is None:
        raise UserError("--overwrite: there is nothing to replace without --out DIR")
    if out is not None and not args.overwrite:
        folder.check_free(out, request.chunk)
    failure = None
    with Stop() as stop, contextlib.nullcontext() if out is None else folder.open_folder(out, stop):
        result = _train(args, request, stop)
        if out is not None:
            failure = _write(out, result, stop, args.overwrite)
    if args.json:
        print(result.to_json())
    else:
        _show(result, None if failure else args.out)
    if failure:
        raise failure
    return 0


def _train(args: argparse.Namespace, request: training.Request, stop: Stop) -> TrainResult:
    from mirrorax.callbacks import make_logger
    from mirrorax.mdpo.machine import enable_cache

    logs = [] if args.tensorboard is None else [f"tensorboard:{args.tensorboard}"]
    logs += [] if args.log is None else [args.log]
    callbacks = [make_logger(text) for text in logs]
    enable_cache()
    stop.check()
    result = training.train_request(
        request,
        on_segment=lambda _: stop.check(),
        callbacks=callbacks,
        progress=False if args.json or args.quiet else None,
    )
    stop.check()
    return result


def _write(out: Path, result: TrainResult, stop: Stop, overwrite: bool) -> UserError | None:
    """Write the folder; return a failure, because the result is shown all the same."""
    try:
        if not overwrite:  # another process may have written there during the training
            folder.check_free(out, result.chunk)
        folder.write(out, result, stop)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"out: cannot write into {str(out)!r}: {error.strerror or error}")
    return None


def _show(result: TrainResult, out: str | None) -> None:
    reached = {
        "return": [f"{value:.4g}" for value in result.returns.mean(1)],
        "diverged": [f"update {at}" if at >= 0 else "no" for at in result.diverged_at],
    }
    show_result(result.title, result, reached)
    if result.bounds_source == "estimated":
        meaning = suite.estimated_in_words(*result.return_bounds)
        print(f"the bounds of returns are estimated: {meaning}")
    print(conditions(result))
    print(f"{result.wall_seconds:.1f} s, {counted(len(result.runs), 'run')} on {result.device}")
    if out:
        print(f"written to {out}; see 'mirrorax play {out}'")


def show_result(title: str, result: TrainResult, more: Mapping[str, Sequence[str]]) -> None:
    """Print a row for each run, a row for each point of the grid, and the mean over all.

    `more` are further columns of the first table.
    """
    names, scores = result.varying, (result.normalized, result.greedy_normalized)
    rows = [["run", *names, "seed", "normalised", "greedy", *more]]
    for index, run in enumerate(result.runs):
        values = [f"{getattr(run, name):g}" for name in names]
        both = [f"{score[index]:.3f}" for score in scores]
        rest = [column[index] for column in more.values()]
        rows.append([str(index), *values, str(run.seed), *both, *rest])
    print(f"{title}\n{columns(rows, left=0)}")
    if len(result.cells) > 1:
        rows = [[*names, "runs", "normalised", "95% interval", "greedy"]]
        for cell in result.cells:
            values = [f"{cell[name]:g}" for name in names]
            mean, greedy = f"{cell['mean']:.3f}", f"{cell['greedy_mean']:.3f}"
            words = result.seeds_in_words(cell["scores"])
            rows.append([*values, str(cell["runs"]), mean, words, greedy])
        print(f"\nover seeds\n{columns(rows, left=0)}")
    words = result.seeds_in_words(scores[0].tolist(), noun="run")
    words = f"95% interval over runs {words}" if words.startswith("[") else words
    print(f"\nnormalised return {result.mean:.3f}  ({words});  greedy {scores[1].mean():.3f}")


def conditions(result: TrainResult) -> str:
    """Say what all runs have in common, for the line below the table."""
    settings, values, parts = result.settings, result.runs[0], []
    for name, weight in (("alpha", "w"), ("lam", "v")):
        used = weight if getattr(values, name) is None else name
        number = "" if used in result.varying else f" {getattr(values, used):g}"
        parts.append(f"{used}{number} ({getattr(settings, f'{name}_schedule')})")
    if settings.temperature_units != "reward":
        parts.append(f"in units of {settings.temperature_units}")
    return ", ".join([*parts, f"{settings.steps:,} steps"])
