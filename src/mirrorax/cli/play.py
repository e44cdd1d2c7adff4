"""`mirrorax play`: evaluate trained policies again, and record an episode as an animated GIF."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import flags
from mirrorax.errors import UserError, in_one_line
from mirrorax.formatting import counted

if TYPE_CHECKING:
    import numpy as np

    from mirrorax.cli.live import Stop
    from mirrorax.mdpo.program import Program
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
    parser.register("action", None, flags.Typed)
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="the folder that 'mirrorax train --out' wrote")
    add("--episodes", type=int, default=10, metavar="N", help="episodes of each run (10)")
    add("--seed", type=int, default=0, metavar="N", help="seed of the episodes (0)")
    add("--gif", metavar="FILE.gif", help="record an episode, if the environment can be drawn")
    add("--run", type=int, default=0, metavar="N", help="the run to record, counted from 0 (0)")
    add("--greedy", action="store_true", help="record the greedy policy")
    flags.add_plugin(parser)
    flags.add_json(parser)


def _check(args: argparse.Namespace) -> None:
    if args.episodes < 1:
        raise UserError(f"episodes: {args.episodes} is not allowed: at least 1")
    if not 0 <= args.seed < 2**32:
        raise UserError(f"seed: {args.seed} is not allowed: 0 to {2**32 - 1}")
    if args.run < 0:
        raise UserError(f"run: {args.run} is not allowed: runs are counted from 0")
    if args.gif is not None:
        from mirrorax.cli.output import check_target

        check_target("gif", args.gif, (".gif",))
    if not Path(args.folder).is_dir():
        raise UserError(f"folder: there is no folder {args.folder!r}")


def run(args: argparse.Namespace) -> int:
    """Evaluate, show, record."""
    from mirrorax.cli.live import Stop, leave

    try:
        with flags.naming(args), Stop() as stop:
            return _run(args, stop)
    except KeyboardInterrupt:
        leave()


def _run(args: argparse.Namespace, stop: Stop) -> int:
    _check(args)
    from mirrorax.cli.results import read

    policies, meta = read(args.folder)
    if not 0 <= args.run < len(policies):
        raise UserError(f"run: {args.run} is not allowed: 0 to {len(policies) - 1}")

    import numpy as np

    from mirrorax.mdpo.checkpoint import settings_in
    from mirrorax.mdpo.program import make_program
    from mirrorax.runs.settings import check_values

    flags.load_plugins(args)
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
    stop.check()
    result = _evaluate(program, policies, runs, keys, meta, args)
    failure = None
    if args.gif:
        stop.check()
        failure = _record(program, policies[args.run], keys[args.run], args, result)
    if args.json:
        print(json.dumps(result))
    else:
        _show(result, settings, runs, args.episodes)
    if failure:
        raise failure
    return 0


def _evaluate(
    program: Program,
    policies: np.ndarray,
    runs: list[RunValues],
    keys: np.ndarray,
    meta: dict[str, Any],
    args: argparse.Namespace,
) -> dict[str, Any]:
    """Play the episodes; return returns and scores as plain data."""
    import jax.numpy as jnp
    import numpy as np

    from mirrorax.envs.host import Gymnasium
    from mirrorax.mdpo import host
    from mirrorax.mdpo.program import as_keys
    from mirrorax.mdpo.rollout import evaluate, evaluation_keys
    from mirrorax.training.result import interval_of, mean_of_cells

    scale = np.array([values.reward_scale for values in runs])
    jax_scale = jnp.asarray(scale, jnp.float32)
    actors = jnp.asarray(policies)
    jax_keys = evaluation_keys(as_keys(keys), program.settings.updates)
    if isinstance(program.env, Gymnasium):
        both = host.evaluate(program, args.episodes, actors, keys, jax_keys, jax_scale)
    else:
        both = evaluate(program, args.episodes, actors, jax_keys, jax_scale)
    returns, greedy = (np.asarray(each, float) for each in both)
    low, high = _bounds(meta.get("return_bounds") or program.env.return_bounds, args.folder)
    normalized, greedy_normalized = (
        (each.mean(1) / np.float32(scale) - low) / (high - low) for each in (returns, greedy)
    )
    source = "estimated" if meta.get("return_bounds") else "known"
    return {
        "returns": returns.tolist(),
        "normalized": normalized.tolist(),
        "greedy_returns": greedy.tolist(),
        "greedy_normalized": greedy_normalized.tolist(),
        "mean": float(normalized.mean()),
        "interval": interval_of(normalized, source),
        "cells": mean_of_cells(runs, normalized, greedy_normalized, source),
        "bounds_source": source,
        "settings": meta["settings"],
        "runs": meta["runs"],
    }


def _bounds(value: Any, folder: str) -> tuple[float, float]:
    """Return the returns that count as 0 and 1."""
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low = high = 0.0
    if not low < high:
        raise UserError(f"folder: {folder!r}: its return_bounds are {value!r}; need low < high")
    return low, high


def _record(
    program: Program,
    policy: np.ndarray,
    key: np.ndarray,
    args: argparse.Namespace,
    result: dict[str, Any],
) -> UserError | None:
    """Write the GIF; return a failure, because the returns are shown all the same."""
    import jax.numpy as jnp

    from mirrorax.envs.render import frame_milliseconds
    from mirrorax.files import write_file
    from mirrorax.mdpo.record import record

    frames = record(program, jnp.asarray(policy), key, args.greedy)
    milliseconds = frame_milliseconds(program.env)
    data = io.BytesIO()
    frames[0].save(
        data,
        format="GIF",
        save_all=True,
        append_images=frames[1:],
        duration=[*[milliseconds] * (len(frames) - 1), _LAST_MILLISECONDS],
        loop=0,
        optimize=True,
    )
    try:
        write_file(args.gif, data.getvalue())
    except OSError as error:
        return UserError(f"gif: cannot write {args.gif!r}: {error.strerror or error}")
    result |= {"gif": args.gif, "frames": len(frames)}
    return None


def _show(result: dict[str, Any], settings: Settings, runs: list[RunValues], episodes: int) -> None:
    import numpy as np

    from mirrorax.cli import output

    screen = output.console()
    scores = np.array(result["normalized"]), np.array(result["greedy_normalized"])
    output.show_result(
        screen,
        f"{settings.environment}, {counted(episodes, 'episode')} each",
        runs,
        {
            "normalised": [f"{score:.3f}" for score in scores[0]],
            "greedy": [f"{score:.3f}" for score in scores[1]],
        },
        result["cells"],
        scores,
        result["bounds_source"] == "known",
        numbered=True,
    )
    screen.print(output.conditions(settings, runs))
    if "gif" in result:
        screen.print(f"{result['frames']} frames written to {result['gif']}")
