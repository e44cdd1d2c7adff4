"""`mirrorax train`: train MDPO(h, D) on one environment, over seeds and temperatures."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import plugins
from mirrorax.cli import flags
from mirrorax.cli.terminal import Stop, conditions, show_result
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import counted

if TYPE_CHECKING:
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
#: fields that have another name as a flag
_FLAGS = {"environment": "env", "seed": "seeds"}


FLAGS = """
@environment
--seeds N,N         number of seeds, or seeds with commas; 7, is seed 7 (5)
@preset
--config FILE.toml  read fields from a file; --preset and flags win
--out DIR           write results, curves, configuration and policies there
--overwrite         replace another result in the folder of --out
--tensorboard DIR   write learning curves for TensorBoard there
@lanes
@plugin
@json
--quiet             show no progress bar
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for every field."""
    parser.usage = "mirrorax train --env NAME [options]"
    flags.add_values(parser, "values of a run; several, with commas, span a grid", flags.VALUES)
    flags.add_settings(parser, "settings, the same for all runs")


def _seeds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        seeds = [int(part) for part in value.removesuffix(",").split(",")]
    except ValueError:
        raise UserError(f"seeds: {value!r} is not a whole number or a list of them") from None
    return seeds[0] if "," not in value else seeds


def _from_file(path: str) -> dict[str, Any]:
    from mirrorax.runs.settings import Settings
    from mirrorax.spec import toml

    where = f"config: {path}"
    data = toml.parse(toml.read_text(path, where), where)
    if "environment" in data and "env" in data:
        raise UserError(f"{where}: both env and environment; give one of them")
    if "environment" in data:
        data["env"] = data.pop("environment")
    allowed = (*_OTHER, *flags.VALUES, *(f for f in Settings.model_fields if f != "environment"))
    for name in data:
        if name not in allowed:
            raise unknown(where, name, allowed)
    return data


def gather(args: argparse.Namespace, from_file: dict[str, Any]) -> dict[str, Any]:
    """Join file and flags into the arguments of a request."""
    from mirrorax.runs.settings import preset

    flags.load_plugins(args)
    if args.config is not None:
        from_file |= _from_file(args.config)
        plugins.expect(from_file.get("plugins", []), f"config: {args.config}")
    fields = dict(from_file)
    if args.preset is not None:
        # file < preset flag < other flags
        fields |= preset(args.preset)
    typed = {name: getattr(args, name, None) for name in (*_OTHER, *flags.VALUES)}
    fields |= {name: value for name, value in typed.items() if value is not None}
    fields |= flags.typed_settings(args)
    if "env" not in fields:
        raise UserError("env: missing; for example --env Catch")
    fields = flags.read_settings(fields)
    fields.pop("plugins", None)  # their versions are checked; the names say which are used
    fields["grid"] = {
        name: flags.numbers(name, fields.pop(name)) for name in flags.VALUES if name in fields
    }
    if "seeds" in fields:
        fields["seeds"] = _seeds(fields["seeds"])
    return fields


def run(args: argparse.Namespace) -> int:
    """Train, show, write."""
    from_file: dict[str, Any] = {}
    from mirrorax.training import make_request

    with flags.naming(args, _FLAGS, from_file):
        return _run(args, make_request(**gather(args, from_file)))


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

    callbacks = []
    if args.tensorboard is not None:
        from mirrorax.callbacks import TensorBoard

        callbacks.append(TensorBoard(args.tensorboard))
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
