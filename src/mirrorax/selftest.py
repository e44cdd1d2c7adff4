"""A self-test of ten seconds, for `mirrorax doctor`: `python -m mirrorax.selftest` prints JSON.

Each check returns a status ("ok", "remark" or "wrong"), a text for a person, and its numbers.

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

from mirrorax.errors import in_one_line
from mirrorax.formatting import counted

#: The learned policy must close this share of the gap between a random and the best policy.
LEARNED_SHARE = 0.9
#: How far a mirror step may be from its closed form.
STEP_ERROR = 1e-9
#: Slower than the shipped table by more than this is worth a remark.
SLOW = 2.0
#: The configuration whose speed is compared with the shipped table.
SPEED_ENVIRONMENT = "CartPole"


#: What a check returns: "status", "text", and its numbers.
Finding = dict[str, Any]


def finding(status: str, text: str, **facts: Any) -> Finding:
    """Return what a check says: the status is "ok", "remark" or "wrong"."""
    return {"status": status, "text": text, **facts}


def device() -> Finding:
    """Import jax and look at what computes."""
    import jax

    first, count = jax.devices()[0], len(jax.devices())
    facts = {"jax": jax.__version__, "platform": first.platform, "kind": first.device_kind}
    text = f"{count} x {first.platform} ({first.device_kind}), jax {jax.__version__}"
    return finding("ok", text, count=count, **facts)


def cache() -> Finding:
    """Look at the compilation cache on disk, and turn it on for what follows."""
    from mirrorax.mdpo.machine import VARIABLE, enable_cache

    folder = enable_cache()
    if os.environ.get(VARIABLE, "").lower() == "off":
        return finding("remark", "off: every start compiles again", folder=None)
    if folder is None or not os.access(folder, os.W_OK):
        text = f"{folder or 'its folder cannot be made'}: cannot be written, so it is not used"
        return finding("remark", text, folder=None)
    sizes = [entry.stat().st_size for entry in Path(folder).iterdir() if entry.is_file()]
    text = f"{folder} ({counted(len(sizes), 'file')}, {sum(sizes) / 2**20:.0f} MiB)"
    return finding("ok", text, folder=str(folder), files=len(sizes), bytes=sum(sizes))


def mirror_step() -> Finding:
    """Compare the exact mirror step with its closed form for entropy and KL.

    argmin <p, -Q> + alpha h(p) + lam KL(p, q) is proportional to
    q^(lam / (alpha + lam)) exp(Q / (alpha + lam)).
    """
    import numpy as np

    from mirrorax import tabular

    q_values, old = np.array([1.0, 0.0, 2.0, -1.0]), np.array([0.1, 0.2, 0.3, 0.4])
    alpha, lam = 0.3, 0.7
    closed = old ** (lam / (alpha + lam)) * np.exp(q_values / (alpha + lam))
    closed /= closed.sum()
    step = tabular.mirror_step(q_values, old, "entropy", "kl", alpha, lam)
    error = float(np.abs(np.asarray(step) - closed).max())
    text = f"differs from its closed form by {error:.1e} (allowed {STEP_ERROR:.0e})"
    return finding("ok" if error <= STEP_ERROR else "wrong", text, error=error)


def learning() -> Finding:
    """Train on a small board and let the exact solver judge the policy that was learned."""
    import jax.numpy as jnp
    import numpy as np

    from mirrorax import tabular
    from mirrorax.training import train

    gamma = 0.9
    mdp = tabular.catch(5, 3, gamma=gamma)
    sizes = {"env_steps_per_update": 64, "batch_size": 128, "buffer_size": 6400, "hidden": (32,)}
    rates = {"gamma": gamma, "actor_lr": 0.01, "critic_lr": 0.01, "tau": 0.8}
    options: dict[str, Any] = {**sizes, **rates, "seeds": 4, "lanes": 4, "curve_points": 0}
    result = train("Catch(5x3)", alpha=0.02, lam=0.2, steps=64_000, progress=False, **options)
    actor = result.sessions[0].program.actor
    seen = jnp.asarray(mdp.observations, jnp.float32).T

    def value(policy: Any) -> float:
        return float(mdp.initial @ tabular.evaluate(mdp, policy).v)

    random = value(tabular.uniform_policy(mdp))
    best = float(mdp.initial @ tabular.optimum(mdp, "zero", 0.0).v)
    values = []
    for parameters in result.policies:
        logits = np.asarray(actor(jnp.asarray(parameters), seen).T, np.float64)
        chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
        values.append(value(chances / chances.sum(axis=-1, keepdims=True)))
    # The median: one run in a few may fail to learn and say nothing against the machine.
    share = (float(np.median(values)) - random) / (best - random)
    text = (
        f"closed {share:.1%} of the gap between a random and the best policy "
        f"(at least {LEARNED_SHARE:.0%})"
    )
    return finding("ok" if share >= LEARNED_SHARE else "wrong", text, share=share)


def _best_rate(work: Callable[[], float], seconds: float) -> float:
    """Return the best rate of `work` per second of this process, over some seconds of the wall."""
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.process_time()
        amount = work()
        best = max(best, amount / max(time.process_time() - start, 1e-9))
    return best


def products() -> Finding:
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

    gflops = _best_rate(work, 1.0) / 1e9
    return finding("ok", f"{gflops:.0f} GFLOP/s in float32 on one core", gflops=gflops)


def speed() -> Finding:
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
    session.advance(1)

    def work() -> float:
        session.advance(4)
        return 4.0 * lanes

    # Seconds of this process are core-seconds on a CPU; elsewhere the device does the work.
    if jax.default_backend() != "cpu":
        text = "not compared: the expected speeds are of CPU cores"
        return finding("ok", text, ratio=None)
    return judge_speed(settings.updates / _best_rate(work, 2.0), modelled_seconds(settings))


def judge_speed(measured: float, expected: float) -> Finding:
    """Compare the core-seconds of a run with those that are expected."""
    ratio = measured / expected
    slow = ratio > SLOW
    text = (
        f"{measured:.1f} core-seconds for a run of 10^6 steps on {SPEED_ENVIRONMENT}, "
        f"{ratio:.2f} times the expected {expected:.1f}{'; is the machine busy?' if slow else ''}"
    )
    facts = {"core_seconds_per_run": measured, "expected_core_seconds": expected, "ratio": ratio}
    return finding("remark" if slow else "ok", text, **facts)


CHECKS: dict[str, Callable[[], Finding]] = {
    "device": device,
    "compile cache": cache,
    "mirror step": mirror_step,
    "learning": learning,
    "matrix products": products,
    "speed": speed,
}


def findings(names: tuple[str, ...] = tuple(CHECKS)) -> Iterator[Finding]:
    """Yield what each check found, or the error it raised."""
    for name in names:
        start = time.perf_counter()
        try:
            found = CHECKS[name]()
        except Exception as error:  # whatever is wrong with the installation
            found = finding("wrong", in_one_line(error))
        yield {"check": name, "seconds": time.perf_counter() - start, **found}


def main() -> int:
    """Keep to one core, as the workers of a sweep do, and print the findings."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for each in findings():
        print(json.dumps(each), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
