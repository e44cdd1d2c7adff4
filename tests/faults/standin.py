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

KILLED, RAISES, NO_MEMORY, SEGFAULT, EXITS, ONCE, WRONG = (
    901.0,
    902.0,
    903.0,
    904.0,
    905.0,
    906.0,
    907.0,
)


def run_chunk(settings, columns, keys, *, lanes=None, on_segment=None):
    start = time.perf_counter()
    segments = int(os.environ.get("STANDIN_SEGMENTS", "2"))
    pause = float(os.environ.get("STANDIN_SECONDS", "0")) / segments
    _misbehave(set(np.asarray(columns["lam"]).tolist()))
    for segment in range(segments):
        time.sleep(pause)
        if on_segment is not None:
            on_segment(SimpleNamespace(fraction=(segment + 1) / segments))
    draws = [
        np.random.default_rng(key.tolist()).random((2, settings.eval_episodes)) for key in keys
    ]
    both = np.array(draws) * 100
    diverged = np.array([int(key[1]) % 50 if key[0] % 7 == 0 else -1 for key in keys])
    curves = {"return": both[:, 0, :3]} if settings.eval_every else {}
    return SimpleNamespace(
        returns=both[:, 0],
        greedy_returns=both[:, 1],
        diverged_at=diverged,
        wall_seconds=time.perf_counter() - start,
        lanes=lanes,
        device="standin",
        curves=curves,
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


def instant(settings, columns, keys, *, lanes=None, on_segment=None):
    """Finish at once, for measuring the driver."""
    count = len(keys)
    returns = np.zeros((count, settings.eval_episodes))
    return SimpleNamespace(
        returns=returns,
        greedy_returns=returns,
        diverged_at=np.full(count, -1),
        wall_seconds=0.001,
        lanes=lanes,
        device="standin",
        curves={},
    )
