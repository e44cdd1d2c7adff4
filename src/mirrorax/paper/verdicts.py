"""All claims of the paper, judged on the runs there are.

The rules stand beside each verdict. A claim whose runs are missing, or
have one seed, is not decided. That something exists (a good cell) can be shown on part of a grid,
but only the whole grid can show that it does not; values on part of a grid are not the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mirrorax.paper import claims_on_pairs, claims_on_region, claims_on_temperatures
from mirrorax.paper.claim import Claim
from mirrorax.paper.runs import Runs

_JUDGES: Sequence[Callable[[Runs, np.random.Generator], Claim]] = (
    claims_on_pairs.values,
    claims_on_pairs.order,
    claims_on_region.baseline_is_l,
    claims_on_region.necessary,
    claims_on_region.apmd,
    claims_on_pairs.solved,
    claims_on_temperatures.constant_lam,
    claims_on_temperatures.alpha_handling,
    claims_on_temperatures.growth("alpha"),
    claims_on_temperatures.growth("lam"),
    claims_on_region.boards_are_l,
)


def judge(runs: Runs, rng: np.random.Generator) -> tuple[Claim, ...]:
    """Judge every claim, each with a stream of random numbers of its own."""
    streams = rng.spawn(len(_JUDGES))
    return tuple(judge(runs, each) for judge, each in zip(_JUDGES, streams, strict=True))
