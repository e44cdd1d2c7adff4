"""The same chunks as tasks on a Ray cluster. Needs `pip install mirrorax[ray]`.

The driver sends the bytes of a chunk and gets back those of its outcome, so no shared file system
is needed. A task that is lost with its worker or its node is run again by Ray, at most `RETRIES`
times.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import time
from typing import Any

from mirrorax import plugins
from mirrorax.errors import UserError
from mirrorax.mdpo import machine
from mirrorax.sweep import engine, worker
from mirrorax.sweep.engine import Activity, Engine, EngineError, FinishedChunk
from mirrorax.sweep.plan import QueuedChunk

#: Tasks submitted per place on the cluster: one under way, one waiting next to it.
_AHEAD = 2


def check(address: str) -> None:
    """Raise what can be known to be wrong before anything is written or started.

    An address must answer: Ray itself waits for minutes.
    """
    if address != "auto":
        host, _, port = address.rpartition(":")
        if not host or not port.isascii() or not port.isdigit():
            raise UserError(f"address: {address!r}: expected auto or HOST:PORT, e.g. 10.0.0.5:6379")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except (OSError, OverflowError) as error:
            raise EngineError(f"no Ray cluster at {address!r}: {error}") from None
    if importlib.util.find_spec("ray") is None:
        raise UserError(
            "engine: 'ray' is not installed; install it with: pip install 'mirrorax[ray]'"
        )


def _remote(function_name: str, chunk: bytes, driver_plugins: list[str]) -> bytes:
    """Train one chunk in a Ray worker."""
    return worker.run_chunk(worker.resolve(function_name), chunk, driver_plugins)


class RayEngine(Engine):
    """Chunks as Ray tasks, each with a core or a share of a GPU."""

    def __init__(
        self,
        *,
        address: str = "auto",
        workers: int | None = None,
        gpus: float = 0.0,
        function: str | None = None,
    ) -> None:
        check(address)
        # A driver whose workers ask for no GPU must not hide the GPUs from the others.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray: Any = ray
        try:
            self._ray.init(address=address, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise EngineError(f"no Ray cluster at {address!r}: {first}") from None
        self._gpus = gpus
        self._fixed = workers
        environment = {} if gpus else machine.ONE_CPU
        resources: dict[str, Any] = {"num_gpus": gpus} if gpus else {"num_cpus": 1}
        self._run = self._ray.remote(
            max_retries=engine.RETRIES, runtime_env={"env_vars": environment}, **resources
        )(_remote)
        self._function = function or worker.CHUNK_FUNCTION
        self._under_way: dict[Any, tuple[QueuedChunk, float]] = {}
        self._configuration: int | None = None
        self.workers = self._places()

    def _places(self) -> int:
        """Return how many chunks the cluster computes at once, as it is now."""
        if self._fixed:
            return self._fixed
        total = self._ray.cluster_resources()
        if self._gpus:
            return max(int(total.get("GPU", 0) / self._gpus), 1)
        return max(int(total.get("CPU", 0)), 1)

    def busy(self) -> bool:
        """Return whether chunks are waiting or under way."""
        return bool(self._under_way) or len(self.queue) > 0

    def finished(self, timeout: float) -> list[FinishedChunk]:
        """Keep the cluster supplied; return the chunks that have ended."""
        self._submit()
        if not self._under_way:
            return []
        ready, _ = self._ray.wait(
            list(self._under_way), num_returns=1, timeout=timeout, fetch_local=False
        )
        if ready:  # others that have ended come along
            ready, _ = self._ray.wait(
                list(self._under_way), num_returns=len(self._under_way), timeout=0
            )
        return [self._ended(reference) for reference in ready]

    def _submit(self) -> None:
        self.workers = self._places()
        while len(self._under_way) < self.workers * _AHEAD:
            queued = self.queue.take(self._configuration)
            if queued is None:
                return
            self._configuration = queued.configuration
            data = queued.chunk.to_bytes()
            reference = self._run.remote(self._function, data, plugins.loaded())
            self._under_way[reference] = (queued, time.monotonic())

    def _ended(self, reference: Any) -> FinishedChunk:
        queued, _ = self._under_way.pop(reference)
        try:
            return engine.accept(queued, self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, worker.OutOfMemory):
                return engine.out_of_memory(queued, self.workers, str(cause))
            return engine.give_up(queued, f"{type(cause).__name__}: {cause}\n{str(error)[-3000:]}")
        except self._ray.exceptions.RayError as error:
            reason = f"{type(error).__name__}: {error}"[:3000]
            return engine.give_up(queued, reason, engine.RETRIES + 1)
        except engine.NoResult as error:
            return engine.give_up(queued, str(error))

    def cancel(self) -> None:
        """Submit nothing more and drop what is under way: a task cannot be asked to pause."""
        self.queue.clear()
        for reference in list(self._under_way):
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._under_way.clear()

    def activities(self) -> list[Activity]:
        """Return the chunks that have been submitted; Ray decides which of them run."""
        now = time.monotonic()
        return [
            Activity(f"task {queued.number}", queued, seconds=now - since)
            for queued, since in list(self._under_way.values())[: self.workers]
        ]

    def kill(self) -> None:
        """Do nothing: when the driver ends, Ray ends its tasks."""

    def close(self) -> None:
        """Leave the cluster; it ends what this driver has left under way."""
        self._ray.shutdown()
