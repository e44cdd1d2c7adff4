"""How large a drift can be: the number that the weight `v` of a learned lambda is a part of.

    reference(D) = max over actions a of D((e_a + u) / 2, u)

with u the uniform policy and e_a the policy that always takes a: the drift of a step that takes an
undecided policy half-way to a decided one. It is finite and positive for every drift that is built
in, forward KL included, which is infinite at the vertices. With n actions:

    kl               log n - H((e_a + u) / 2)
    forward_kl       log 2 - log(1 + 1/n) / n - (1 - 1/n) log(1/n) - log n
    bregman(lp(2))   (1 - 1/n) / 4
    bregman(max)     1/2
    squared_tv       (1 - 1/n)^2 / 4
"""

from __future__ import annotations

import numpy as np

from mirrorax.errors import UserError
from mirrorax.regularizers.drifts import Drift


def reference_drift(drift: Drift, actions: int) -> float:
    """Return the reference drift for this number of actions; a `UserError` if there is none."""
    uniform = np.full(actions, 1 / actions)
    decided = (np.eye(actions) + uniform) / 2
    value = float(np.max(np.asarray(drift.value(decided, uniform), np.float64)))
    if not (np.isfinite(value) and value > 0):
        raise UserError(
            f"lam_schedule: a learned lambda needs a drift that grows with the step; "
            f"{drift} has {value:g} for half a step from the uniform policy"
        )
    return value
