"""The environment of processes that train on a CPU: one core and one thread each.

One process with XLA's own threads on two cores is much slower than two single-threaded processes.
"""

from __future__ import annotations

import os

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
