"""`mirrorax train`: train MDPO(h, D) on one environment, over seeds and temperatures."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax import plugins
from mirrorax.cli import plugin
from mirrorax.cli.flags import Typed, naming, numbers, settings_from
from mirrorax.errors import UserError, unknown
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from mirrorax.cli.live import Stop
    from mirrorax.runs.settings import RunValues, Settings
    from mirrorax.training import TrainResult

_EXAMPLES = """examples:
  mirrorax train --env Catch
  mirrorax train --env CartPole-v1 --potential entropy --drift kl --alpha 0.01 --lam 0.1 --seeds 5
  mirrorax train --env DeepSea --alpha 0.01,0.1 --lam 0,1 --seeds 3 --steps 200000 --out runs/sea
  mirrorax train --env Catch --alpha-schedule learned --w 0.3 --lam-schedule linear --json
  mirrorax train --config catch.toml --preset paper
  mirrorax train --env Catch --tensorboard logs      then: tensorboard --logdir logs

--config names a TOML file of the same fields (env = "Catch", alpha = [0.01, 0.1], ...). What
--preset sets wins over the file, and every other flag over both.
Several values, separated by commas, span a grid; every point is trained with every seed.
"""

#: traced values a flag may give several of
_TRACED = ("alpha", "lam", "w", "gamma", "reward_scale", "actor_lr", "critic_lr")
#: how many points a learning curve has, where nothing else is asked for
_CURVE_POINTS = 20
#: fields that are no settings of a run
_OTHER = ("env", "seeds", "preset", "lanes", "layout")
#: fields that have another name as a flag
_FLAGS = {"environment": "env", "seed": "seeds"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags: one for every field."""
    from mirrorax.runs.settings import PRESETS, RunValues, Settings

    parser.epilog = _EXAMPLES
    parser.register("action", None, Typed)
    add = parser.add_argument
    add("--env", "--environment", dest="env", help="CartPole, Acrobot, Catch, DeepSea(16), ...")
    add("--seeds", help="a number of seeds, or seeds with commas; 7, is seed 7 alone (5)")
    add("--preset", help=f"one of {', '.join(PRESETS)} (default)")
    add("--config", metavar="FILE.toml", help="read fields from a file; --preset, then flags win")
    add("--out", metavar="DIR", help="write results, curves, configuration and policies there")
    add("--overwrite", action="store_true", help="replace another result in the folder of --out")
    add("--tensorboard", metavar="DIR", help="write learning curves for TensorBoard there")
    add("--json", action="store_true", help="print one JSON object and nothing else")
    add("--quiet", action="store_true", help="no progress bar")
    add("--lanes", type=int, help="runs side by side (a fixed number per kind of device)")
    plugin.add_flag(parser)
    add("--layout", help="map | vmap: updates lane by lane or batched (what suits the device)")
    values = parser.add_argument_group("temperatures and other numbers of a run")
    for name in _TRACED:
        default = RunValues.model_fields[name].default
        shown = "where alpha is learned: 0.5" if name == "w" else default
        values.add_argument(f"--{name.replace('_', '-')}", help=f"({shown})")
    fields = parser.add_argument_group("settings")
    for name, info in Settings.model_fields.items():
        if name not in ("environment", "plugins"):
            choices = getattr(info.annotation, "__args__", ())
            words = " | ".join(c for c in choices if isinstance(c, str))
            shown = ",".join(map(str, info.default)) if name == "hidden" else info.default
            fields.add_argument(f"--{name.replace('_', '-')}", help=f"{words} ({shown})".strip())


def _seeds(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        found = [int(part) for part in given.removesuffix(",").split(",")]
    except ValueError:
        raise UserError(f"seeds: {given!r} is not a whole number or a list of them") from None
    return found[0] if "," not in given else found


def _from_file(path: str) -> dict[str, Any]:
    from mirrorax.runs.settings import Settings
    from mirrorax.spec import toml

    where = f"config: {path}"
    data = toml.parse(toml.read_text(path, where), where)
    if "environment" in data and "env" in data:
        raise UserError(f"{where}: both env and environment; give one of them")
    if "environment" in data:
        data["env"] = data.pop("environment")
    allowed = (*_OTHER, *_TRACED, *(f for f in Settings.model_fields if f != "environment"))
    for name in data:
        if name not in allowed:
            raise unknown(where, name, allowed)
    return data


def _gather(args: argparse.Namespace, from_file: dict[str, Any]) -> dict[str, Any]:
    """Join file and flags into the arguments of `mirrorax.train`."""
    from mirrorax.runs.settings import Settings, make_settings
    from mirrorax.runs.settings import preset as presets

    plugin.load(args)
    if args.config is not None:
        from_file |= _from_file(args.config)
        plugins.expect(from_file.get("plugins", []), f"config: {args.config}")
    given = dict(from_file)
    if args.preset is not None:
        # file < preset flag < other flags
        given |= presets(args.preset)
    names = (*_OTHER, *_TRACED, *Settings.model_fields)
    given |= {name: value for name in names if (value := getattr(args, name, None)) is not None}
    if "env" not in given:
        raise UserError("env: missing; for example --env Catch")
    given = settings_from(given)
    given.pop("plugins", None)  # their versions are checked: the names say which are used
    for name in _TRACED:
        if name in given:
            given[name] = numbers(name, given[name])
    if "seeds" in given:
        given["seeds"] = _seeds(given["seeds"])
    static = {name: value for name, value in given.items() if name in Settings.model_fields}
    # Text becomes numbers here, and a mistake is found before anything heavy is imported.
    preset = given.get("preset", "default")
    made = make_settings(preset, environment=given["env"], **static)
    fields = made.model_dump()
    fields.pop("environment")
    rest = {name: value for name, value in given.items() if name not in Settings.model_fields}
    return {**rest, "env": made.environment, **fields}


def run(args: argparse.Namespace) -> int:
    """Train, show, write."""
    from_file: dict[str, Any] = {}
    with naming(args, _FLAGS, from_file):
        return _run(args, _gather(args, from_file))


def _run(args: argparse.Namespace, request: dict[str, Any]) -> int:
    from mirrorax.cli.live import Stop, leave
    from mirrorax.runs.settings import make_settings
    from mirrorax.training import GRID, check_lanes, check_layout, plan_runs

    settings = make_settings(
        environment=request["env"],
        **{k: v for k, v in request.items() if k not in (*_OTHER, *_TRACED)},
    )
    grid = {name: request.get(name) for name in GRID}
    runs = plan_runs(settings, grid, request.get("seeds", 5))
    check_lanes(request.get("lanes"))
    check_layout(request.get("layout"))
    check_free = _check_free(args, settings, runs)
    stop = Stop()
    try:
        with stop, _folder(args.out, stop) as out:
            result = _train(args, request, settings, stop)
            failed = _write(out, result, stop, check_free) if out is not None else None
    except KeyboardInterrupt:
        leave()
    if args.json:
        print(result.to_json())
    else:
        _show(result, None if failed else args.out)
    if failed:
        raise failed
    return 0


def _train(
    args: argparse.Namespace, request: dict[str, Any], settings: Settings, stop: Stop
) -> TrainResult:
    """Train, with a progress bar."""
    from mirrorax.cli.live import Bar

    callbacks = []
    if args.tensorboard is not None:
        from mirrorax.callbacks import TensorBoard

        callbacks.append(TensorBoard(args.tensorboard))

    from mirrorax.mdpo.compilation import enable_cache
    from mirrorax.mdpo.program import make_program
    from mirrorax.training import train

    enable_cache()
    # A mistake in something of the user's own is found before there is a progress bar.
    make_program(settings)
    stop.check()
    bar = Bar(request["env"], hidden=args.json or args.quiet)

    def on_segment(progress: Any) -> None:
        stop.check()
        bar(progress)

    # The preset is already in the fields.
    request = {name: value for name, value in request.items() if name != "preset"}
    with bar:
        # Looking on the way changes no result: it is not part of a run's specification.
        result = train(
            **request, curve_points=_CURVE_POINTS, on_segment=on_segment, callbacks=callbacks
        )
        stop.check()
    return result


@contextlib.contextmanager
def _folder(text: str | None, stop: Stop) -> Iterator[Path | None]:
    """Make the folder and a file in it, so that training is not in vain.

    What was made for nothing is taken away again.
    """
    if text is None:
        yield None
        return
    out = Path(text)
    new = [folder for folder in (out, *out.parents) if not folder.exists()]

    def tidy() -> None:
        with contextlib.suppress(OSError):  # a folder with something in it stays
            for folder in new:
                folder.rmdir()

    stop.cleanup.append(tidy)
    try:
        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"out: cannot make the folder {text!r}: {error.strerror}") from None
        try:
            with tempfile.NamedTemporaryFile(dir=out, prefix=".mirrorax."):
                pass
        except OSError as error:
            raise UserError(f"out: cannot write into {text!r}: {error.strerror}") from None
        yield out
    finally:
        tidy()


def _check_free(
    args: argparse.Namespace, settings: Settings, runs: list[RunValues]
) -> Callable[[], None]:
    """Refuse a folder of another result; return that check, for when this one is to go there."""
    from mirrorax.cli.results import check_free

    def check() -> None:
        if args.out is not None and not args.overwrite:
            check_free(Path(args.out), settings, runs)

    if args.overwrite and args.out is None:
        raise UserError("--overwrite: there is nothing to replace without --out DIR")
    check()
    return check


def _write(
    out: Path, result: TrainResult, stop: Stop, check_free: Callable[[], None]
) -> UserError | None:
    """Write the folder; a failure is returned, because the result is to be shown all the same."""
    from mirrorax.cli.results import write

    try:
        check_free()  # somebody else may have written there while this was training
        write(out, result, stop)
    except UserError as error:
        return error
    except OSError as error:
        return UserError(f"out: cannot write into {str(out)!r}: {error.strerror or error}")
    return None


def _show(result: TrainResult, out: str | None) -> None:
    from mirrorax.cli import summary
    from mirrorax.cli.output import console
    from mirrorax.envs import suite

    screen = console()
    settings, runs = result.settings, result.runs
    columns = {
        "normalised": [f"{score:.3f}" for score in result.normalized],
        "greedy": [f"{score:.3f}" for score in result.greedy_normalized],
        "return": [f"{value:.4g}" for value in result.returns.mean(1)],
        "diverged": [f"update {at}" if at >= 0 else "no" for at in result.diverged_at],
    }
    title = f"MDPO({settings.potential}, {settings.drift}) on {settings.environment}"
    summary.show_runs(screen, title, runs, columns)
    known = result.bounds_source == "known"
    summary.show_cells(screen, runs, result.cells, known)
    screen.print(summary.overall(result.normalized, result.greedy_normalized, known))
    if result.bounds_source == "estimated":
        meaning = suite.estimated_in_words(*result.return_bounds)
        screen.print(f"the bounds of returns are estimated: {meaning}")
    screen.print(summary.conditions(settings, runs))
    how_many = counted(len(result.runs), "run")
    screen.print(f"{result.wall_seconds:.1f} s, {how_many} on {result.device}")
    if out:
        screen.print(f"written to {out}; see 'mirrorax play {out}'")
