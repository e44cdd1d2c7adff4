"""A self-test of ten seconds, for `mirrorax doctor`: `python -m mirrorax.selftest` prints JSON.

It runs in its own process, so that the doctor survives and reports what kills it: a jaxlib for
another processor, a driver, too little memory. It prints one line per finding, so that those before
a crash are not lost.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: The learned policy must close this share of the gap between a random and the best policy.
LEARNED_SHARE = 0.9
#: How far a mirror step may be from its closed form.
STEP_ERROR = 1e-9
#: The configuration whose speed is compared with the shipped table.
SPEED_ENVIRONMENT = "CartPole"


def devices() -> dict[str, Any]:
    """Import jax and look at what computes."""
    import jax

    everything = jax.devices()
    return {
        "jax": jax.__version__,
        "platform": everything[0].platform,
        "kind": everything[0].device_kind,
        "count": len(everything),
    }


def cache() -> dict[str, Any]:
    """Look at the compilation cache on disk, and turn it on for what follows."""
    from mirrorax.mdpo.machine import VARIABLE, enable_cache

    folder = enable_cache()
    off = os.environ.get(VARIABLE, "").lower() == "off"
    if folder is None:
        return {"folder": None, "off": off, "files": 0, "bytes": 0, "writable": False}
    sizes = [entry.stat().st_size for entry in Path(folder).iterdir() if entry.is_file()]
    return {
        "folder": str(folder),
        "off": False,
        "files": len(sizes),
        "bytes": sum(sizes),
        "writable": os.access(folder, os.W_OK),
    }


def exact_step() -> dict[str, Any]:
    """Compare the exact mirror step with its closed form for entropy and KL.

    argmin <p, -Q> + alpha h(p) + lam KL(p, q) is proportional to
    q^(lam / (alpha + lam)) exp(Q / (alpha + lam)).
    """
    import numpy as np

    from mirrorax.tabular import mirror_step

    q_values, old = np.array([1.0, 0.0, 2.0, -1.0]), np.array([0.1, 0.2, 0.3, 0.4])
    alpha, lam = 0.3, 0.7
    closed = old ** (lam / (alpha + lam)) * np.exp(q_values / (alpha + lam))
    closed /= closed.sum()
    step = mirror_step(q_values, old, "entropy", "kl", alpha, lam)
    error = float(np.abs(np.asarray(step) - closed).max())
    return {"error": error, "allowed": STEP_ERROR, "ok": error <= STEP_ERROR}


def learning() -> dict[str, Any]:
    """Train on a small board and let the exact solver judge the policy that was learned."""
    import jax.numpy as jnp
    import numpy as np

    from mirrorax import tabular
    from mirrorax.mdpo.session import Session
    from mirrorax.runs.chunk import make_chunk
    from mirrorax.runs.settings import make_settings

    gamma, runs = 0.9, 4
    mdp = tabular.catch(5, 3, gamma=gamma)
    settings = make_settings(
        environment="Catch(5x3)",
        steps=64 * 1000,
        env_steps_per_update=64,
        batch_size=128,
        buffer_size=6400,
        hidden=(32,),
        tau=0.8,
    )
    columns = {"gamma": [gamma], "alpha": [0.02], "lam": [0.2]}
    columns |= {"actor_lr": [0.01], "critic_lr": [0.01]}
    keys = np.arange(2 * runs, dtype=np.uint32).reshape(runs, 2)
    session = Session(make_chunk(settings, {k: v * runs for k, v in columns.items()}, runs, keys))
    session.run()
    seen = jnp.asarray(mdp.observations, jnp.float32).T
    assert session.program is not None

    def value(policy: Any) -> float:
        return float(mdp.initial @ tabular.evaluate(mdp, policy).v)

    random = value(tabular.uniform_policy(mdp))
    best = float(mdp.initial @ tabular.optimum(mdp, "zero", 0.0).v)
    values = []
    for parameters in session.policies:
        logits = np.asarray(session.program.actor(jnp.asarray(parameters), seen).T, np.float64)
        chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
        values.append(value(chances / chances.sum(axis=-1, keepdims=True)))
    # The median: one run in a few may fail to learn and say nothing against the machine.
    share = (float(np.median(values)) - random) / (best - random)
    return {"share": share, "allowed": LEARNED_SHARE, "ok": share >= LEARNED_SHARE}


def _best_rate(work: Callable[[], float], seconds: float) -> float:
    """Return the best rate of `work` per second of this process, over some seconds of the wall."""
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        amount = work()
        best = max(best, amount / max(time.process_time() - start, 1e-9))
    return best


def products() -> dict[str, Any]:
    """Measure the rate of float32 matrix products on one core."""
    import jax
    import jax.numpy as jnp

    size, times = 512, 20
    a, b = jnp.full((size, size), 0.001), jnp.ones((size, size))
    chain = jax.jit(lambda a, b: jax.lax.fori_loop(0, times, lambda _, x: a @ x, b))
    chain(a, b).block_until_ready()

    def work() -> float:
        chain(a, b).block_until_ready()
        return 2.0 * size**3 * times

    return {"gflops": _best_rate(work, 1.0) / 1e9}


def speed() -> dict[str, Any]:
    """Measure what a run of the default settings would take, beside the shipped table."""
    import jax
    import numpy as np

    from mirrorax.mdpo.program import default_lanes
    from mirrorax.mdpo.session import Session
    from mirrorax.runs.chunk import make_chunk
    from mirrorax.runs.settings import make_settings
    from mirrorax.sweep.measure import modelled_seconds

    settings = make_settings(environment=SPEED_ENVIRONMENT)
    lanes = default_lanes()
    keys = np.arange(2 * lanes, dtype=np.uint32).reshape(lanes, 2)
    session = Session(make_chunk(settings, {}, lanes, keys))
    start = time.perf_counter()
    session.advance(1)
    compiling = time.perf_counter() - start

    def work() -> float:
        session.advance(4)
        return 4.0 * lanes

    cpu = jax.default_backend() == "cpu"
    measured = settings.updates / _best_rate(work, 2.0)
    # Seconds of this process are core-seconds on a CPU; elsewhere the device does the work.
    expected = modelled_seconds(settings) if cpu else None
    return {
        "environment": SPEED_ENVIRONMENT,
        "core_seconds_per_run": measured if cpu else None,
        "expected_core_seconds": expected,
        "ratio": measured / expected if expected else None,
        "first_call_seconds": compiling,
        "lanes": lanes,
    }


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "devices": devices,
    "cache": cache,
    "exact_step": exact_step,
    "learning": learning,
    "products": products,
    "speed": speed,
}


def findings(names: tuple[str, ...] = tuple(CHECKS)) -> Iterator[dict[str, Any]]:
    """Yield what each check found, or the error it raised."""
    for name in names:
        start = time.perf_counter()
        try:
            finding = CHECKS[name]()
        except Exception as error:  # whatever is wrong with the installation
            finding = {"error_raised": " ".join(f"{type(error).__name__}: {error}".split())[:500]}
        yield {"check": name, "seconds": time.perf_counter() - start, **finding}


def main() -> int:
    """Keep to one core, as the workers of a sweep do, and print the findings."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = tuple(sys.argv[1:]) or tuple(CHECKS)
    for finding in findings(names):
        print(json.dumps(finding), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
