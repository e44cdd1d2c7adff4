"""Exact Policy Mirror Descent on finite MDPs, in float64 with numpy."""

from mirrorax.tabular.evaluation import (
    ExactValues,
    Optimum,
    evaluate,
    optimum,
    to_paper,
    to_sac,
    uniform_policy,
)
from mirrorax.tabular.mdp import MDP, catch, chain, deepsea, garnet
from mirrorax.tabular.mirror import best_response, mirror_step, objective
from mirrorax.tabular.pmd import LearnedLam, Trace, promised_rate, solve

__all__ = [
    "MDP",
    "ExactValues",
    "LearnedLam",
    "Optimum",
    "Trace",
    "best_response",
    "catch",
    "chain",
    "deepsea",
    "evaluate",
    "garnet",
    "mirror_step",
    "objective",
    "optimum",
    "promised_rate",
    "solve",
    "to_paper",
    "to_sac",
    "uniform_policy",
]
