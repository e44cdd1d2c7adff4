"""Chunk functions that stand in for the trainer: quick, deterministic, and faulty on demand.

A run's result depends on its key alone, as the trainer's does. The value of `lam` asks for a fault.
"""

import ctypes
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from mirrorax.envs import suite
from mirrorax.mdpo import machine
from mirrorax.runs.chunk import Outcome

KILLED, RAISES, NO_MEMORY, SEGFAULT, EXITS, ONCE = 901.0, 902.0, 903.0, 904.0, 905.0, 906.0


def outcome(chunk, returns, greedy_returns, seconds, device="standin", **fields):
    """Return the outcome of a chunk with made-up returns."""
    return Outcome(
        chunk=chunk,
        returns=returns,
        greedy_returns=greedy_returns,
        diverged_at=fields.pop("diverged_at", np.full(len(chunk), -1)),
        wall_seconds=seconds,
        bounds=suite.environment(chunk.settings.environment).bounds or (0.0, None),
        provenance=machine.collect(device=device, lanes=chunk.lanes),
        **fields,
    )


def train_chunk(chunk, *, on_segment=None, device="standin"):
    start = time.perf_counter()
    segments = int(os.environ.get("STANDIN_SEGMENTS", "2"))
    pause = float(os.environ.get("STANDIN_SECONDS", "0")) / segments
    _misbehave(set(chunk.columns["lam"].tolist()))
    if on_segment is not None and "STANDIN_COMPILED" in os.environ:
        on_segment(SimpleNamespace(fraction=0.01))
        (Path(os.environ["STANDIN_COMPILED"]) / str(os.getpid())).touch()
    for segment in range(segments):
        time.sleep(pause)
        if on_segment is not None:
            on_segment(SimpleNamespace(fraction=(segment + 1) / segments))
    shape = (2, chunk.settings.eval_episodes)
    both = np.array([np.random.default_rng(key.tolist()).random(shape) for key in chunk.keys]) * 100
    diverged = [int(key[1]) % 50 if key[0] % 7 == 0 else -1 for key in chunk.keys]
    return outcome(
        chunk,
        both[:, 0],
        both[:, 1],
        time.perf_counter() - start,
        device,
        diverged_at=np.array(diverged),
        curves={"return": both[:, 0, :3]} if chunk.settings.eval_every else {},
    )


def _misbehave(asked):
    if KILLED in asked:
        print("about to be killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if SEGFAULT in asked:
        ctypes.string_at(0)
    if EXITS in asked:
        os._exit(3)
    if RAISES in asked:
        print("a line in the log", flush=True)
        raise ArithmeticError("this chunk always fails")
    if NO_MEMORY in asked:
        raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 123 bytes")
    if ONCE in asked:
        flag = Path(os.environ["STANDIN_FLAG"])
        if not flag.exists():
            flag.write_text("died once")
            os.kill(os.getpid(), signal.SIGKILL)
