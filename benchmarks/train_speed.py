"""How fast the trainer is, as ratios measured in one run on one machine.

    python benchmarks/train_speed.py                 # everything below, about eight minutes
    python benchmarks/train_speed.py --only CartPole --seconds 2
    python benchmarks/train_speed.py --presets --skip compile memory workers --peer peer/bin/python

1. Core-seconds of a run against the SGEMM floor: the floating-point operations of the algorithm's
   matrix products over the single-core rate of such products, measured here. Those of an update, in
   the best of many short slices, times the number of updates of a run.
2. The same program with every lane batched (plain `vmap`), beside it.
3. The presets `default` (10^6 steps) and `paper` (16 x 10^6 steps), and `each`: 256 steps in each
   environment but 10^6 in all, 244 updates. Where the time goes; the paper's whole study in
   core-hours.
4. Compile time and load time from the persistent cache, of each environment; memory of a lane; two
   workers against one.
5. With `--peer`, rejax beside it (see `train_peer.py`), in turns on the same core: the ratio of
   runs per core-hour.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mirrorax.mdpo.machine import XLA_FLAGS

os.environ["XLA_FLAGS"] = XLA_FLAGS

import jax
import jax.numpy as jnp
import numpy as np

from mirrorax.mdpo import replay
from mirrorax.mdpo.program import default_lanes
from mirrorax.mdpo.session import Session
from mirrorax.mdpo.train import evaluate, evaluation_keys
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import make_settings

#: where this benchmark may run; all of it but compiling and the two workers keeps to the last one
CORES = sorted(os.sched_getaffinity(0))
PRESETS = ("default", "each", "paper")
SUITE = ("CartPole", "Acrobot", "Catch", "DeepSea")
#: environments of the paper's study: configurations of 4,205 runs each, 120 in all
STUDY = {"CartPole": 37, "Acrobot": 27, "Catch": 27, "DeepSea": 27}
SCALED_CATCH = ("Catch(20x10)", "Catch(30x15)")
RUNS_PER_CONFIGURATION = 4205


def products(program) -> tuple[float, float]:
    """Return the FLOPs of the matrix products of an update: of its rollout, and of its learning."""
    weights = [math.prod(shape) for shape in program.actor.shapes if len(shape) == 2]
    forward = sum(2 * size for size in weights)
    # Backwards: a weight gradient in every layer, an input gradient in all but the first.
    backward = forward + sum(2 * size for size in weights[1:])
    s = program.settings
    critics = program.num_critics
    per_sample = s.actor_epochs * (forward + backward)  # the first gives the old policy too
    per_sample += critics * forward  # Q for the actor, used again by the critics' gradient
    per_sample += forward + critics * forward  # the target: policy and target critics
    per_sample += critics * (s.critic_epochs * backward + (s.critic_epochs - 1) * forward)
    asked = (program.table_rounds or s.rollout_length) * s.num_envs
    columns = program.num_memories or s.batch_size
    return float(forward * asked), float(per_sample * columns * s.batches_per_update)


def sgemm_rate(seconds: float = 1.0) -> float:
    """Return the best single-core rate of float32 products, in FLOP/s."""
    best = 0.0
    for shape in ((64, 64, 512), (512, 512, 512)):
        a = jnp.ones(shape[:2]) * 0.01
        b = jnp.ones(shape[1:])
        chain = jax.jit(lambda a, b: jax.lax.fori_loop(0, 200, lambda _, x: a @ x, b))
        chain(a, b).block_until_ready()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.process_time()
            chain(a, b).block_until_ready()
            best = max(best, 200 * 2 * np.prod(shape) / (time.process_time() - start))
    return best


def make_session(name: str, preset: str, lanes: int, layout: str) -> Session:
    fields = {"steps_counted": "per_env"} if preset == "each" else {}
    settings = make_settings("default" if fields else preset, environment=name, **fields)
    keys = np.random.default_rng(0).integers(0, 2**32, (lanes, 2), dtype=np.uint32)
    return Session(make_chunk(settings, {}, lanes, keys), layout=layout)


def core_seconds(session: Session, seconds: float) -> float:
    """Return core-seconds of one update of one lane: the best of many short measurements.

    Time of the process, not of the wall, and the best, because others may use the machine too; the
    rate of the floor is a best as well.
    """
    session.advance(2)
    start = time.process_time()
    session.advance(2)
    count = max(1, round(0.15 / max((time.process_time() - start) / 2, 1e-6)))
    best, end = float("inf"), time.process_time() + seconds
    while time.process_time() < end:
        start = time.process_time()
        session.advance(count)
        best = min(best, (time.process_time() - start) / count)
    return best / session.lanes


def measure(name: str, preset: str, seconds: float, rate: float, with_vmap: bool) -> dict:
    session = make_session(name, preset, default_lanes(), "map")
    spent = core_seconds(session, seconds)
    # Without a lane to update only rollout, replay and random numbers are left.
    session.runs = 0
    rollout = core_seconds(session, seconds / 3)
    acting, learning = products(session.program)
    settings = session.settings
    floor = (acting + learning) / rate
    runs = settings.updates
    row = {
        "environment": name,
        "preset": preset,
        "steps": settings.steps,
        "updates": settings.updates,
        "core_seconds": spent * runs,
        "floor": floor * runs,
        "ratio": spent / floor,
        "rollout": rollout * runs,
        "update": (spent - rollout) * runs,
        "update_floor": learning / rate * runs,
    }
    if with_vmap:
        del session
        row["vmap"] = core_seconds(make_session(name, preset, default_lanes(), "vmap"), seconds)
        row["vmap"] *= runs
    return row


def show(rows: list[dict]) -> None:
    head = "{:14} {:8} {:>8} {:>7} {:>7} {:>9} {:>9} {:>9} {:>8}"
    line = "{:14} {:8} {:8.2f} {:7.2f} {:7.2f} {:9.2f} {:9.2f} {:9.2f} {:>8}"
    print(head.format("core-seconds", "", "run", "floor", "ratio", "rollout", "update", "", "vmap"))
    for r in rows:
        vmap = f"{r['vmap']:.2f}" if "vmap" in r else ""
        numbers = (r["core_seconds"], r["floor"], r["ratio"], r["rollout"], r["update"])
        print(line.format(r["environment"], r["preset"], *numbers, r["update_floor"], vmap))
    print("  (update: in all, then the floor of its products alone)")
    for preset in dict.fromkeys(r["preset"] for r in rows):
        steps, updates = next((r["steps"], r["updates"]) for r in rows if r["preset"] == preset)
        print(f"  ({preset}: a run is {steps:,} environment steps, {updates:,} updates)")


def study(rows: list[dict]) -> None:
    for preset in PRESETS:
        found = {r["environment"]: r for r in rows if r["preset"] == preset}
        if not set(STUDY) <= set(found):
            continue
        for what in ("core_seconds", "floor"):
            total = sum(count * found[name][what] for name, count in STUDY.items())
            # The two larger boards, where not measured, by their products.
            for name in SCALED_CATCH:
                if name in found:
                    total += found[name][what]
                else:
                    larger, plain = (
                        sum(products(make_session(n, preset, 1, "map").program))
                        for n in (name, "Catch")
                    )
                    total += found["Catch"][what] * larger / plain
            hours = total * RUNS_PER_CONFIGURATION / 3600
            print(f"the paper's study (504,600 runs), {preset}, {what}: {hours:,.0f} core-hours")


def compile_time(name: str) -> None:
    """Time a session, its first segment and its evaluation in a fresh process.

    Everything but imports and updates, first without and then with a cache.
    """
    with tempfile.TemporaryDirectory() as folder:
        for label in ("compiled", "from the cache"):
            env = {**os.environ, "MIRRORAX_COMPILE_CACHE": folder, "XLA_FLAGS": ""}
            cores = ",".join(map(str, CORES))
            command = [sys.executable, __file__, "--child-compile", name, cores]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            print(f"{name}: training and evaluation {label}: {done.stdout.strip()} s")


def child_compile(name: str, cores: str) -> None:
    os.sched_setaffinity(0, map(int, cores.split(",")))
    from mirrorax.mdpo.machine import enable_cache

    enable_cache()
    start = time.perf_counter()
    session = make_session(name, "default", default_lanes(), "map")
    session.advance(0)
    keys = evaluation_keys(session._keys, session.total)
    actors, scale = session._state.learner.actor, session._values.reward_scale
    evaluate.lower(session.program, 10, actors, keys, scale).compile()
    print(f"{time.perf_counter() - start:.2f}")


def memory() -> None:
    for name in SUITE:
        session = make_session(name, "default", 1, "map")
        env, settings = session.program.env, session.settings
        rows = settings.replay_slots * settings.num_envs
        size = rows * replay.width(env) * np.dtype(env.memory_dtype).itemsize
        rest = sum(leaf.nbytes for leaf in jax.tree.leaves(session._state)) - size
        print(f"{name}: replay of a lane {size / 1e6:.2f} MB, all else {rest / 1e6:.2f} MB")


def workers(name: str, seconds: float) -> None:
    """Compare updates per second of one pinned worker and of two at the same time.

    By the wall, which is what counts where the cores are free, and by the workers' own time, which
    shows what they cost each other (caches, memory) where the machine has other work too.
    """
    rates: dict[int, np.ndarray] = {}
    for count in (1, 2, 1, 2):
        start_at = time.time() + 25
        command = [sys.executable, __file__, "--child-worker", name, str(start_at), str(seconds)]
        children = [
            subprocess.Popen([*command, str(core)], stdout=subprocess.PIPE, text=True)
            for core in CORES[:count]
        ]
        found = sum(np.array(child.communicate()[0].split(), float) for child in children)
        rates[count] = np.maximum(rates.get(count, 0.0), found)
    wall, own = rates[2] / rates[1]
    print(f"{name}: two workers on two cores: {wall:.2f} times one by the wall, {own:.2f} by cores")


def child_worker(name: str, start_at: float, seconds: float, core: int) -> None:
    os.sched_setaffinity(0, {core})
    session = make_session(name, "default", default_lanes(), "map")
    session.advance(3)
    time.sleep(max(0.0, start_at - time.time()))
    start, used, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - start < seconds:
        session.advance(10)
        done += 10
    print(done / (time.perf_counter() - start), done / (time.process_time() - used))


def peer(python: str, seconds: float) -> dict:
    """Compare runs per core-hour on CartPole with rejax's, each at its best, in turns."""
    script = str(Path(__file__).with_name("train_peer.py"))
    ours, theirs = float("inf"), {}
    session = make_session("CartPole", "default", default_lanes(), "map")
    for _ in range(2):
        ours = min(ours, core_seconds(session, seconds) * session.settings.updates)
        command = [python, script, "--json", "--seconds", str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for lanes, found in json.loads(done.stdout).items():
            theirs[lanes] = min(found, theirs.get(lanes, found))
    ours = min(ours, core_seconds(session, seconds) * session.settings.updates)
    for lanes, found in theirs.items():
        print(f"CartPole: rejax SAC, {lanes:>2} lanes: {found:.2f} core-seconds a run")
    lanes = min(theirs, key=lambda name: theirs[name])
    ratio = theirs[lanes] / ours
    print(f"CartPole: ours, {session.lanes} lanes: {ours:.2f} core-seconds a run")
    print(f"CartPole: {ratio:.2f} times the runs per core-hour of rejax at its best, {lanes} lanes")
    return {"ours": ours, "rejax": theirs, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=SUITE)
    parser.add_argument("--presets", nargs="*", default=PRESETS)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--skip", nargs="*", default=(), help="vmap compile memory workers")
    parser.add_argument("--peer", metavar="PYTHON", help="of rejax's environment: run it beside")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--child-compile", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--child-worker", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child_compile:
        return child_compile(*args.child_compile)
    if args.child_worker:
        name, start_at, seconds, core = args.child_worker
        return child_worker(name, float(start_at), float(seconds), int(core))
    # As a sweep's workers are: a process that may wander pays for it in its caches.
    os.sched_setaffinity(0, {CORES[-1]})
    rate = sgemm_rate()
    print(
        f"SGEMM on one core: {rate / 1e9:.1f} GFLOP/s; {default_lanes()} lanes; "
        f"jax {jax.__version__}"
    )
    rows = []
    for preset in args.presets:
        for name in args.only:
            rows.append(measure(name, preset, args.seconds, rate, "vmap" not in args.skip))
            again = sgemm_rate(0.3)
            rows[-1]["sgemm_after"] = again
            print(".", end="", flush=True)
    print()
    if rows:
        show(rows)
        study(rows)
    beside = peer(args.peer, args.seconds) if args.peer else None
    if "compile" not in args.skip:
        for name in args.only:
            compile_time(name)
    if "memory" not in args.skip:
        memory()
    if "workers" not in args.skip:
        workers(args.only[0], 10.0)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"sgemm": rate, "rows": rows, "peer": beside}, file, indent=1)
    return None


if __name__ == "__main__":
    main()
