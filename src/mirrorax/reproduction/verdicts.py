"""All claims of the paper, judged on the runs there are.

The rules stand beside each verdict. A claim whose runs are missing, or
have one seed, is not decided. That something exists (a good cell) can be shown on part of a grid,
but only the whole grid can show that it does not; values on part of a grid are not the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mirrorax.reproduction import handling, pairs, shape
from mirrorax.reproduction.claim import Claim
from mirrorax.reproduction.data import Runs

_JUDGES: Sequence[Callable[[Runs, np.random.Generator], Claim]] = (
    pairs.values,
    pairs.order,
    shape.baseline_is_l,
    shape.necessary,
    shape.apmd,
    pairs.solved,
    handling.constant_lam,
    handling.alpha_handling,
    handling.growth("alpha"),
    handling.growth("lam"),
    shape.boards_are_l,
)


def judge(runs: Runs, rng: np.random.Generator) -> tuple[Claim, ...]:
    """Judge every claim, each with a stream of random numbers of its own."""
    streams = rng.spawn(len(_JUDGES))
    return tuple(judge(runs, each) for judge, each in zip(_JUDGES, streams, strict=True))
