"""The paper's figures and tables: what each shows, and so which runs it needs.

A panel is one algorithm on some environments: a heat map, a curve, a bar or a point, depending on
the figure. Figures 5 to 16 are those of the appendix, numbered in the order they appear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mirrorax.paper import catalogue
from mirrorax.paper.axes import (
    ALPHAS,
    BASELINE,
    CONSTANT,
    LAMS,
    MAX_RETURNS,
    PAIRS,
    SCALED_CATCH,
    SCHEDULES,
    SEEDS,
    SUITE,
    TSALLIS,
)
from mirrorax.spec.study import Block

Kind = Literal["maps", "table", "frequency", "best", "scaling"]


@dataclass(frozen=True)
class Panel:
    """One algorithm on some environments, each a name and a factor on its rewards."""

    title: str
    pair: tuple[str, str] = BASELINE
    schedules: tuple[str, str] = CONSTANT
    actor_q: str = "regularized"
    environments: tuple[tuple[str, float], ...] = tuple((name, 1.0) for name in SUITE)

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that tell its algorithm from the others of the paper."""
        return {
            "potential": self.pair[0],
            "drift": self.pair[1],
            "alpha_schedule": self.schedules[0],
            "lam_schedule": self.schedules[1],
            "actor_q": self.actor_q,
        }

    @property
    def labels(self) -> tuple[str, ...]:
        """The environments as the analysis names them."""
        return tuple(name if s == 1 else f"{name} x {s:g}" for name, s in self.environments)


@dataclass(frozen=True)
class Figure:
    """A figure or table of the paper."""

    name: str
    title: str
    kind: Kind
    panels: tuple[Panel, ...]

    @property
    def studies(self) -> tuple[str, ...]:
        """The studies it draws on."""
        return tuple(
            entry.name
            for entry in catalogue.ENTRIES
            if any(_shows(panel, entry.block) for panel in self.panels)
        )

    @property
    def runs(self) -> int:
        """How many runs the paper has behind it: all cells of each algorithm and environment."""
        shown = {
            (replace(p, title="", environments=()), e) for p in self.panels for e in p.environments
        }
        return len(shown) * len(ALPHAS) * len(LAMS) * SEEDS


def _shows(panel: Panel, block: Block) -> bool:
    """Whether some of a block's runs are a panel's."""
    made = {(name, scale) for name, scales in block.environments for scale in scales}
    return (
        dict(block.fixed).get("actor_q", "regularized") == panel.actor_q
        and panel.pair in block.pairs
        and panel.schedules in block.schedules
        and not made.isdisjoint(panel.environments)
    )


def _pairs(labels: str) -> tuple[Panel, ...]:
    return tuple(Panel(f"{label}: ({', '.join(PAIRS[label])})", PAIRS[label]) for label in labels)


def _schedule_panels(pair: tuple[str, str], learned: bool) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"alpha {alpha}, lam {lam}", pair, (alpha, lam))
        for alpha, lam in SCHEDULES
        if alpha.startswith("learned") == learned
    )


def _cartpoles(*returns: int) -> tuple[Panel, ...]:
    return tuple(
        Panel(f"maximum return {value}", environments=(("CartPole", MAX_RETURNS[value]),))
        for value in returns
    )


#: All reward scales of CartPole as one panel: what Figure 4 compares.
CARTPOLES = Panel(
    "CartPole", environments=tuple(("CartPole", scale) for scale in MAX_RETURNS.values())
)
_APMD = Panel("(entropy, kl), APMD", actor_q="unregularized")
_NAMED = Panel("(entropy, kl)")

FIGURES = (
    Figure("Figure 1a", "The baseline on the standard suite", "maps", (_NAMED,)),
    Figure(
        "Figure 1b",
        "The baseline on larger boards of Catch",
        "maps",
        (Panel("(entropy, kl)", environments=tuple((name, 1.0) for name in SCALED_CATCH)),),
    ),
    Figure("Figure 1c", "The baseline with APMD updates", "maps", (_APMD,)),
    Figure("Table 1", "Robustness of the eleven pairs", "table", _pairs("ABCDEFGHIJK")),
    Figure("Figure 2", "Performance frequency", "frequency", _pairs("ABCDEFGHIJK")),
    Figure(
        "Figure 3",
        "The best 1% and 10% of cells under eight schedules, two pairs",
        "best",
        tuple(
            Panel(f"alpha {a}, lam {b}", pair, (a, b))
            for pair in (BASELINE, TSALLIS)
            for a, b in SCHEDULES
        ),
    ),
    Figure(
        "Figure 4",
        "Minimal temperatures against the maximum return of CartPole",
        "scaling",
        _cartpoles(*MAX_RETURNS),
    ),
    Figure(
        "Figure 5",
        "Constant temperatures: KL, forward KL, APMD",
        "maps",
        (_NAMED, Panel("(entropy, forward_kl)", ("entropy", "forward_kl")), _APMD),
    ),
    Figure(
        "Figure 6",
        "The baseline in each environment",
        "maps",
        tuple(Panel(name, environments=((name, 1.0),)) for name in SUITE),
    ),
    Figure("Figure 7", "Pairs of regularisers", "maps", _pairs("KEIG")),
    Figure("Figure 8", "Pairs of regularisers", "maps", _pairs("FDJC")),
    Figure("Figure 9", "Pairs of regularisers", "maps", _pairs("HBA")),
    Figure("Figure 10", "Schedules of (entropy, kl)", "maps", _schedule_panels(BASELINE, False)),
    Figure("Figure 11", "Schedules of (entropy, kl)", "maps", _schedule_panels(BASELINE, True)),
    Figure("Figure 12", "Schedules of Tsallis 0.5", "maps", _schedule_panels(TSALLIS, False)),
    Figure("Figure 13", "Schedules of Tsallis 0.5", "maps", _schedule_panels(TSALLIS, True)),
    Figure("Figure 14", "CartPole, rescaled", "maps", _cartpoles(1000, 750, 500, 400)),
    Figure("Figure 15", "CartPole, rescaled", "maps", _cartpoles(333, 300, 200, 143)),
    Figure("Figure 16", "CartPole, rescaled", "maps", _cartpoles(100, 50, 5)),
)


def figures_of(study: str) -> tuple[str, ...]:
    """Return the figures that a study is part of."""
    return tuple(figure.name for figure in FIGURES if study in figure.studies)
