"""`mirrorax play`: evaluate trained policies again, and record one as an animated GIF."""

from __future__ import annotations

import argparse
import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import plugin
from mirrorax.cli.flags import Typed, naming
from mirrorax.errors import UserError, in_one_line
from mirrorax.formatting import counted

if TYPE_CHECKING:
    from mirrorax.cli.live import Stop
    from mirrorax.runs.settings import RunValues, Settings

_EXAMPLES = """examples:
  mirrorax play runs/catch
  mirrorax play runs/catch --episodes 100 --json
  mirrorax play runs/catch --gif catch.gif --run 2 --greedy
"""


#: how long the last picture of a GIF is shown
_LAST_MILLISECONDS = 1500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.epilog = _EXAMPLES
    parser.register("action", None, Typed)
    add = parser.add_argument
    add("folder", help="what 'mirrorax train --out' wrote")
    add("--episodes", type=int, default=10, help="episodes of each run (10)")
    add("--seed", type=int, default=0, help="of the episodes (0)")
    add("--gif", metavar="FILE.gif", help="record an episode, where the environment can be drawn")
    add("--run", type=int, default=0, help="which run to record, counted from 0 (0)")
    add("--greedy", action="store_true", help="record the greedy policy")
    plugin.add_flag(parser)
    add("--json", action="store_true", help="print one JSON object and nothing else")


def _check(args: argparse.Namespace) -> None:
    if args.episodes < 1:
        raise UserError(f"episodes: {args.episodes} is not allowed: at least 1")
    if not 0 <= args.seed < 2**32:
        raise UserError(f"seed: {args.seed} is not allowed: 0 to {2**32 - 1}")
    if args.run < 0:
        raise UserError(f"run: {args.run} is not allowed: runs are counted from 0")
    if args.gif is not None:
        _check_gif(args.gif)
    if not Path(args.folder).is_dir():
        raise UserError(f"folder: there is no folder {args.folder!r}")


def _check_gif(text: str) -> None:
    """Refuse a path that cannot be written, before anything is played."""
    path = Path(text)
    if path.suffix.lower() != ".gif":
        raise UserError(f"gif: {text!r} is not allowed: a name that ends in .gif")
    if not path.parent.is_dir():
        raise UserError(f"gif: {text!r}: there is no folder {str(path.parent)!r}")
    if path.is_dir():
        raise UserError(f"gif: {text!r} is a folder; name a file")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".mirrorax."):
            pass
    except OSError as error:
        raise UserError(f"gif: cannot write {text!r}: {error.strerror}") from None


def run(args: argparse.Namespace) -> int:
    """Evaluate, show, record."""
    from mirrorax.cli.live import Stop, leave

    try:
        with naming(args), Stop() as stop:
            return _run(args, stop)
    except KeyboardInterrupt:
        leave()


def _run(args: argparse.Namespace, stop: Stop) -> int:
    _check(args)
    from mirrorax.cli.results import read

    policies, meta = read(args.folder)
    if not 0 <= args.run < len(policies):
        raise UserError(f"run: {args.run} is not allowed: 0 to {len(policies) - 1}")

    import jax.numpy as jnp
    import numpy as np

    from mirrorax.envs.host import Gymnasium
    from mirrorax.mdpo import host
    from mirrorax.mdpo.checkpoint import settings_in
    from mirrorax.mdpo.evaluate import evaluate, evaluation_keys
    from mirrorax.mdpo.program import as_keys, make_program
    from mirrorax.runs.settings import check_values
    from mirrorax.training import interval_of, mean_of_cells

    plugin.load(args)
    settings = settings_in(meta, f"folder: {args.folder!r}")
    try:
        runs = [check_values(settings, values) for values in meta["runs"]]
    except (TypeError, ValueError) as error:
        raise UserError(f"folder: {args.folder!r}: runs: {in_one_line(error)}") from None
    program = make_program(settings)
    if policies.shape != (len(runs), program.actor.num_parameters):
        raise UserError(f"folder: {args.folder!r}: the policies do not fit their settings")
    if args.gif is not None:
        from mirrorax.envs.render import check_drawable

        check_drawable(program.env)
    keys = np.array([[args.seed, i] for i in range(len(runs))], np.uint32)
    scale = jnp.asarray([values.reward_scale for values in runs], jnp.float32)
    stop.check()
    actors, jax_keys = jnp.asarray(policies), evaluation_keys(as_keys(keys), settings.updates)
    if isinstance(program.env, Gymnasium):
        both = host.evaluate(program, args.episodes, actors, keys, jax_keys, scale)
    else:
        compiled = evaluate(program, args.episodes, actors, jax_keys, scale)
        both = np.asarray(compiled[0]), np.asarray(compiled[1])
    low, high = _bounds(meta.get("return_bounds") or program.env.return_bounds, args.folder)
    result: dict[str, Any] = {}
    for name, found in zip(("returns", "greedy_returns"), both, strict=True):
        result[name] = np.asarray(found, float).tolist()
        mean = np.asarray(found, float).mean(1) / np.asarray(scale, float)
        short = "normalized" if name == "returns" else "greedy_normalized"
        result[short] = ((mean - low) / (high - low)).tolist()
    scores, best = np.array(result["normalized"]), np.array(result["greedy_normalized"])
    source = "estimated" if meta.get("return_bounds") else "known"
    result |= {
        "mean": float(scores.mean()),
        "interval": interval_of(scores, source),
        "cells": mean_of_cells(runs, scores, best, source),
        "bounds_source": source,
        "settings": meta["settings"],
        "runs": meta["runs"],
    }
    failed = None
    if args.gif:
        from mirrorax.envs.render import frame_milliseconds
        from mirrorax.mdpo.record import record

        stop.check()
        policy = jnp.asarray(policies[args.run])
        frames = record(program, policy, keys[args.run], args.greedy)
        failed = _save(Path(args.gif), frames, frame_milliseconds(program.env))
        if not failed:
            result |= {"gif": args.gif, "frames": len(frames)}
    print(json.dumps(result)) if args.json else _show(result, settings, runs, args.episodes)
    if failed:
        raise failed
    return 0


def _bounds(given: Any, folder: str) -> tuple[float, float]:
    """Read the returns that count as 0 and 1; train writes them where nobody knows them."""
    try:
        low, high = map(float, given)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise UserError(f"folder: {folder!r}: its return_bounds are {given!r}; need low < high")
    return low, high


def _save(path: Path, frames: list[Any], milliseconds: int) -> UserError | None:
    """Write the GIF; a failure is returned, because the returns are to be shown all the same."""
    from mirrorax.cli.results import put

    data = io.BytesIO()
    frames[0].save(
        data,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        # How it ended is looked at longer than the way there.
        duration=[*[milliseconds] * (len(frames) - 1), _LAST_MILLISECONDS],
        loop=0,
        optimize=True,
    )
    try:
        put(path, data.getvalue())
    except OSError as error:
        return UserError(f"gif: cannot write {str(path)!r}: {error.strerror or error}")
    return None


def _show(result: dict[str, Any], settings: Settings, runs: list[RunValues], episodes: int) -> None:
    import numpy as np

    from mirrorax.cli import summary
    from mirrorax.cli.output import console

    scores = {"normalised": result["normalized"], "greedy": result["greedy_normalized"]}
    columns = {name: [f"{score:.3f}" for score in column] for name, column in scores.items()}
    screen = console()
    title = f"{settings.environment}, {counted(episodes, 'episode')} each"
    summary.show_runs(screen, title, runs, columns, numbered=True)
    known = result["bounds_source"] == "known"
    summary.show_cells(screen, runs, result["cells"], known)
    stochastic, greedy = map(np.array, scores.values())
    screen.print(summary.overall(stochastic, greedy, known))
    screen.print(summary.conditions(settings, runs))
    if "gif" in result:
        screen.print(f"{result['frames']} frames written to {result['gif']}")
