"""The machine: the cache of compiled programs, memory, and the processes that train on a CPU.

The cache is a folder named after the versions and the machine, because a compiled program holds
machine code. `MIRRORAX_COMPILE_CACHE` is another folder, or `off`.

One process with XLA's own threads on two cores is much slower than two single-threaded processes.
Importing this module needs no jax; `enable_cache` and `program_sizes` do.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mirrorax.errors import UserError

if TYPE_CHECKING:
    from mirrorax.mdpo.program import Program


VARIABLE = "MIRRORAX_COMPILE_CACHE"


def _machine() -> str:
    """Return a short digest of the processor's kind and abilities."""
    seen = [platform.machine(), platform.processor(), platform.node()]
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        seen += sorted({line for line in lines if line.startswith(("model name", "flags"))})
    except OSError:
        pass  # no such file outside Linux: the names above have to do
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:12]


def cache_folder(name: str) -> Path | None:
    """Return the folder of one kind of cached data, or None where the cache is off."""
    choice = os.environ.get(VARIABLE, "")
    if choice.lower() == "off":
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(choice) if choice else base / "mirrorax" / name


def enable_cache() -> Path | None:
    """Turn the cache on for this process; return its folder, or None where it is off."""
    import jax
    from jaxlib.version import __version__ as jaxlib_version

    root = cache_folder("xla")
    if root is None:
        return None
    folder = root / f"jax-{jax.__version__}-jaxlib-{jaxlib_version}-{_machine()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None  # a home that cannot be written costs time, not results
    update: Callable[[str, object], None] = jax.config.update
    update("jax_compilation_cache_dir", str(folder))
    # Small programs too: there are about thirty at every start.
    update("jax_persistent_cache_min_compile_time_secs", 0.0)
    return folder


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

    from mirrorax.mdpo import replay
    from mirrorax.mdpo.program import make_values
    from mirrorax.mdpo.update import init_learner

    settings, env = program.settings, program.env
    row = replay.width(env) * np.dtype(env.memory_dtype).itemsize
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


XLA_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
#: variables that keep a process to one thread
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": XLA_FLAGS,
}
#: the same, and on a CPU
ONE_CPU = {**ONE_THREAD, "JAX_PLATFORMS": "cpu"}


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return this process's environment with other variables; XLA flags are added to the user's."""
    flags = [os.environ.get("XLA_FLAGS", ""), variables.get("XLA_FLAGS", "")]
    return {**os.environ, **variables, "XLA_FLAGS": " ".join(flags).strip()}


def cores() -> list[int]:
    """Return the cores this process may use."""
    try:
        return sorted(os.sched_getaffinity(0))
    except AttributeError:
        return list(range(os.cpu_count() or 1))
