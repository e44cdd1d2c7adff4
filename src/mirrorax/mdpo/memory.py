"""What a program needs: bytes per lane and work per pass, asked of the program itself.

Importing this module needs no jax; `program_sizes` does.
"""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.mdpo.program import Program

#: A worker's memory before its first lane: interpreter, jax, compiled programs.
BASE_BYTES = 550_000_000
#: Leave this share of the free memory to others.
_USABLE = 0.85


class Sizes(NamedTuple):
    """What one lane of a program needs."""

    #: replay buffer, networks with their optimisers, and the activations of an update
    lane_bytes: int
    #: floating-point operations of the actor for one observation
    flops: int

    def worker_bytes(self, lanes: int) -> int:
        """Return the memory of a process that trains so many lanes."""
        return BASE_BYTES + lanes * self.lane_bytes

    def lanes_that_fit(self, workers: int, free: int | None = None) -> int:
        """Return the largest lane width for which all workers fit in the free memory."""
        share = (available_bytes() if free is None else free) * _USABLE / max(workers, 1)
        return max(int((share - BASE_BYTES) // self.lane_bytes), 0)


def program_sizes(program: Program) -> Sizes:
    """Return the sizes of a program, by tracing it; nothing is computed or compiled."""
    import jax
    import numpy as np

    from mirrorax.mdpo import transitions
    from mirrorax.mdpo.program import make_values
    from mirrorax.mdpo.update import init_learner

    settings, env = program.settings, program.env
    row = transitions.width(env) * np.dtype(env.memory_dtype).itemsize
    values = jax.tree.map(lambda x: x[0], make_values({}, 1))

    def floats(*shape: int) -> Any:
        return jax.ShapeDtypeStruct(shape, np.float32)  # type: ignore[no-untyped-call]

    actor = floats(program.actor.num_parameters)
    critics = floats(program.num_critics, program.critic.num_parameters)
    learner = jax.eval_shape(partial(init_learner, program), actor, critics, values)

    def cost(batch: int, name: str) -> int:
        lowered = jax.jit(program.actor).lower(actor, floats(env.observation_size, batch))
        return int((lowered.cost_analysis() or {}).get(name, 0))

    parts = (
        settings.replay_slots * settings.num_envs * row,
        sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(learner)),
        cost(settings.batch_size, "bytes accessed"),  # about what an update keeps of a batch
    )
    return Sizes(sum(parts), cost(1, "flops"))


def check_memory(program: Program, lanes: int, copies: int = 1) -> None:
    """Refuse lanes that this machine cannot hold, before the system kills the process."""
    need, free = program_sizes(program).worker_bytes(copies * lanes), available_bytes()
    if need > free:
        raise UserError(
            f"lanes: {lanes} lanes with buffer_size = {program.settings.buffer_size} need about "
            f"{need / 2**30:.1f} GiB, {free / 2**30:.1f} GiB are free"
        )


def available_bytes() -> int:
    """Return the memory that is free for use on this machine, within the limits of its group."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            used = int((group / "memory.current").read_text())
            free = min(free, int(limit) - used)
    except (OSError, ValueError):
        pass
    return max(free, 0)
