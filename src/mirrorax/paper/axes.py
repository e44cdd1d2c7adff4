"""What the paper varies, each written once: environments, pairs, schedules, temperatures, seeds."""

from __future__ import annotations

from mirrorax.analysis.temperature import Temperature
from mirrorax.envs.suite import SUITE
from mirrorax.paper.table_1 import reference

__all__ = ["SUITE"]

SCALED_CATCH = ("Catch(20x10)", "Catch(30x15)")
#: maximum return of CartPole -> factor on the rewards; 500 is the plain one
MAX_RETURNS = {
    1000: 2.0,
    750: 1.5,
    500: 1.0,
    400: 0.8,
    333: 0.666,
    300: 0.6,
    200: 0.4,
    143: 0.286,
    100: 0.2,
    50: 0.1,
    5: 0.01,
}
#: Table 1, in its order.
PAIRS = {str(row.label): (row.potential, row.drift) for row in reference().rows}
BASELINE = PAIRS["C"]
TSALLIS = PAIRS["I"]
CONSTANT = ("constant", "constant")
SCHEDULES = tuple(
    (alpha, lam)
    for alpha in ("constant", "linear", "learned", "learned_linear")
    for lam in ("constant", "linear")
)
#: The temperatures, and their names in a sentence.
NAMES: dict[Temperature, str] = {"alpha": "alpha", "lam": "lambda"}
#: The grids of the appendix on experiment details. Where alpha is learned they are those of w.
ALPHAS = (
    *(0.0, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.007, 0.008, 0.009),
    *(0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09),
    *(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
)
#: Uneven on purpose: neither 0.0025 nor 250.
LAMS = (
    *(0.0, 5e-5, 7.5e-5, 1e-4, 2.5e-4, 5e-4, 7.5e-4, 1e-3, 5e-3, 1e-2),
    *(2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(25.0, 50.0, 100.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 5e4),
)
SEEDS = 5
