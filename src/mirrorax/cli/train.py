"""`mirrorax train`: train MDPO(h, D) on one environment, over seeds and temperatures."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import plugins
from mirrorax.cli import Stop, flags
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import columns, counted

if TYPE_CHECKING:
    import numpy as np

    from mirrorax.callbacks import Callback
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training import Request
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

#: how many points a learning curve has, unless --eval-every is given
_CURVE_POINTS = 20
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
@lanes
@plugin
@json
--quiet             show no progress bar
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for every field."""
    from mirrorax.runs.settings import GRID

    parser.usage = "mirrorax train --env NAME [options]"
    flags.add_values(parser, "values of a run; several, with commas, span a grid", GRID)
    flags.add_settings(parser, "settings, the same for all runs")


def _from_file(path: str) -> dict[str, Any]:
    from mirrorax.runs.settings import GRID, Settings
    from mirrorax.spec import toml

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
    from mirrorax.runs.settings import GRID, preset

    flags.load_plugins(args)
    fields = {} if args.config is None else _from_file(args.config)
    if args.preset is not None:
        fields |= preset(args.preset)
    typed = {name: getattr(args, name, None) for name in (*_OTHER, *GRID)}
    fields |= {name: value for name, value in typed.items() if value is not None}
    fields |= flags.typed_settings(args)
    if "env" not in fields:
        raise UserError("env: missing; for example --env Catch")
    fields["grid"] = {name: fields.pop(name) for name in GRID if name in fields}
    return fields


def run(args: argparse.Namespace) -> int:
    """Train, show, write."""
    from mirrorax.training import make_request

    with flags.naming(args):
        return _run(args, make_request(**gather(args)))


def _run(args: argparse.Namespace, request: Request) -> int:
    from mirrorax.training import folder

    out = None if args.out is None else Path(args.out)
    if args.overwrite and out is None:
        raise UserError("--overwrite: there is nothing to replace without --out DIR")
    if out is not None and not args.overwrite:
        folder.check_free(out, request.settings, request.runs)
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


def _train(args: argparse.Namespace, request: Request, stop: Stop) -> TrainResult:
    from mirrorax.mdpo.machine import enable_cache
    from mirrorax.training import train_request

    callbacks: list[Callback] = []
    if args.tensorboard is not None or args.log is not None:
        from mirrorax.callbacks import TensorBoard, make_logger

        if args.tensorboard is not None:
            callbacks.append(TensorBoard(args.tensorboard))
        if args.log is not None:
            callbacks.append(make_logger(args.log))
    enable_cache()
    stop.check()
    result = train_request(
        request,
        curve_points=_CURVE_POINTS,
        on_segment=lambda _: stop.check(),
        callbacks=callbacks,
        progress=False if args.json or args.quiet else None,
    )
    stop.check()
    return result


def _write(out: Path, result: TrainResult, stop: Stop, overwrite: bool) -> UserError | None:
    """Write the folder; return a failure, because the result is shown all the same."""
    from mirrorax.training import folder

    try:
        if not overwrite:  # another process may have written there during the training
            folder.check_free(out, result.settings, result.runs)
        folder.write(out, result, stop)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"out: cannot write into {str(out)!r}: {error.strerror or error}")
    return None


def _show(result: TrainResult, out: str | None) -> None:
    settings, runs = result.settings, result.runs
    show_result(
        f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}",
        runs,
        {
            "return": [f"{value:.4g}" for value in result.returns.mean(1)],
            "diverged": [f"update {at}" if at >= 0 else "no" for at in result.diverged_at],
        },
        result.cells,
        (result.normalized, result.greedy_normalized),
        result.bounds_source == "known",
    )
    if result.bounds_source == "estimated":
        from mirrorax.envs.suite import estimated_in_words

        meaning = estimated_in_words(*result.return_bounds)
        print(f"the bounds of returns are estimated: {meaning}")
    print(conditions(settings, runs))
    print(f"{result.wall_seconds:.1f} s, {counted(len(runs), 'run')} on {result.device}")
    if out:
        print(f"written to {out}; see 'mirrorax play {out}'")


def show_result(
    title: str,
    runs: Sequence[RunValues],
    reached: Mapping[str, Sequence[str]],
    cells: Sequence[Mapping[str, Any]],
    scores: tuple[np.ndarray, np.ndarray],
    known: bool,
) -> None:
    """Print a row for each run, a row for each point of the grid, and the mean over all.

    `reached` are further columns; `scores` are the normalised returns, stochastic and greedy;
    `known` says whether the bounds of returns are known.
    """
    import numpy as np

    from mirrorax.analysis.few_seeds import UNIT, seeds_in_words
    from mirrorax.training.result import varying

    bounds = UNIT if known else None
    names = varying(runs)
    head = ["run", *names, "seed", "normalised", "greedy", *reached]
    body = [
        [
            str(index),
            *(f"{getattr(run, name):g}" for name in names),
            str(run.seed),
            *(f"{score[index]:.3f}" for score in scores),
            *(column[index] for column in reached.values()),
        ]
        for index, run in enumerate(runs)
    ]
    print(f"{title}\n{columns([head, *body], left=0)}")
    if len(cells) > 1:
        head = [*names, "runs", "normalised", "95% interval", "greedy"]
        body = [
            [
                *(f"{cell[name]:g}" for name in names),
                str(cell["runs"]),
                f"{cell['mean']:.3f}",
                seeds_in_words(np.array([cell["scores"]]), bounds),
                f"{cell['greedy_mean']:.3f}",
            ]
            for cell in cells
        ]
        print(f"\nover seeds\n{columns([head, *body], left=0)}")
    stochastic, greedy = scores
    words = seeds_in_words(stochastic[None], bounds, noun="run")
    words = f"95% interval over runs {words}" if words.startswith("[") else words
    print(f"\nnormalised return {stochastic.mean():.3f}  ({words});  greedy {greedy.mean():.3f}")


def conditions(settings: Settings, runs: Sequence[RunValues]) -> str:
    """Say what all runs have in common, for the line below the table."""
    from mirrorax.training.result import varying

    values, apart = runs[0], varying(runs)
    first = "w" if values.alpha is None else "alpha"
    parts = []
    second = "v" if values.lam is None else "lam"
    for name, schedule in ((first, settings.alpha_schedule), (second, settings.lam_schedule)):
        number = "" if name in apart else f" {getattr(values, name):g}"
        parts.append(f"{name}{number} ({schedule})")
    if settings.temperature_units != "reward":
        parts.append(f"in units of {settings.temperature_units}")
    return ", ".join([*parts, f"{settings.steps:,} steps"])
