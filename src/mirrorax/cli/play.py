"""`mirrorax play`: evaluate trained policies again, and record an episode as an animated GIF."""

from __future__ import annotations

import argparse
import io
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorax.cli import Stop
from mirrorax.cli.train import conditions, show_result
from mirrorax.errors import UserError
from mirrorax.files import check_target
from mirrorax.formatting import counted

if TYPE_CHECKING:
    import numpy as np

    from mirrorax.mdpo.program import Program
    from mirrorax.runs.chunk import Chunk
    from mirrorax.training.result import TrainResult

EXAMPLES = """examples:
  mirrorax play runs/catch
  mirrorax play runs/catch --episodes 100 --json
  mirrorax play runs/catch --gif catch.gif --run 2 --greedy
"""

#: how long the last picture of a GIF is shown
_LAST_MILLISECONDS = 1500


FLAGS = """
FOLDER              the folder that 'mirrorax train --out' wrote
--episodes N>=1=10  episodes of each run
--seed N>=0<4294967296=0    seed of the episodes
--gif FILE.gif      record an episode, with the return so far in its caption
--run N>=0=0        the run to record, counted from 0
--greedy            record the greedy policy
@plugin
@json
"""


def run(args: argparse.Namespace) -> int:
    """Evaluate, show, record."""
    with Stop() as stop:
        if args.gif is not None:
            check_target("gif", args.gif, (".gif",))
        if not Path(args.folder).is_dir():
            raise UserError(f"folder: there is no folder {args.folder!r}")
        return _play(args, stop)


def _play(args: argparse.Namespace, stop: Stop) -> int:
    import numpy as np

    from mirrorax.mdpo.program import make_program
    from mirrorax.training.folder import read_policies

    policies, chunk, meta = read_policies(args.folder)
    if args.run >= len(policies):
        raise UserError(f"run: {args.run} is not allowed: 0 to {len(policies) - 1}")
    program = make_program(chunk.settings)
    if policies.shape[1] != program.actor.num_parameters:
        raise UserError(f"folder: {args.folder!r}: the policies do not fit their settings")
    keys = np.array([[args.seed, i] for i in range(len(chunk))], np.uint32)
    stop.check()
    result = _evaluate(program, chunk, policies, keys, meta, args.episodes)
    failure, recorded = None, {}
    if args.gif:
        stop.check()
        try:
            recorded = _record(program, policies[args.run], keys[args.run], args)
        except UserError as error:
            failure = error  # the returns are shown all the same
    if args.json:
        print(json.dumps({**result.to_dict(), **recorded}))
    else:
        episodes = counted(args.episodes, "episode")
        show_result(f"{chunk.settings.environment}, {episodes} each", result, {})
        print(conditions(result))
        if recorded:
            print(f"{recorded['frames']} frames written to {args.gif}")
    if failure:
        raise failure
    return 0


def _evaluate(
    program: Program,
    chunk: Chunk,
    policies: np.ndarray,
    keys: np.ndarray,
    meta: dict[str, Any],
    episodes: int,
) -> TrainResult:
    """Play the episodes; return what training would have returned with these."""
    import jax.numpy as jnp
    import numpy as np

    from mirrorax.mdpo.program import as_keys
    from mirrorax.mdpo.session import device_name, evaluate
    from mirrorax.training.result import TrainResult

    start = time.perf_counter()
    scale = jnp.asarray(chunk.columns["reward_scale"], jnp.float32)
    actors, updates = jnp.asarray(policies), program.settings.updates
    returns, greedy = evaluate(program, episodes, actors, as_keys(keys), scale, updates)
    bounds = meta["return_bounds"]
    return TrainResult(
        chunk=chunk,
        returns=returns,
        greedy_returns=greedy,
        diverged_at=np.full(len(chunk), -1),
        wall_seconds=time.perf_counter() - start,
        bounds=bounds,
        provenance={"lanes": len(chunk), "device": device_name()},
        policies=policies,
        estimated=bounds if meta.get("bounds_source") == "estimated" else None,
    )


def _record(
    program: Program, policy: np.ndarray, key: np.ndarray, args: argparse.Namespace
) -> dict[str, Any]:
    """Write the GIF of one episode; return its name and how many pictures it has."""
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
    write_file(args.gif, data.getvalue(), "gif")
    return {"gif": args.gif, "frames": len(frames)}
