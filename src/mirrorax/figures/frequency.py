"""Performance-frequency curves with bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from mirrorax.analysis.estimates import Interval, frequency_band
from mirrorax.errors import UserError
from mirrorax.figures.style import COLUMN, LABEL, LINES, MANY, PAGE, new, wrapped
from mirrorax.formatting import Shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mirrorax.analysis.summary import RobustnessTable

_BANDS = 4  # curves up to which each has a band


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyCurve(Shown):
    """freq(tau) of one algorithm at some levels, with the ends of its band (NaN without one)."""

    label: str
    levels: Float[np.ndarray, " levels"]
    values: Float[np.ndarray, " levels"]
    low: Float[np.ndarray, " levels"]
    high: Float[np.ndarray, " levels"]


def frequency_curve(
    label: str,
    runs: Float[np.ndarray, "alpha lam env seed"],
    *,
    cells: Bool[np.ndarray, "alpha lam"] | None = None,
    start: float = 0.8,
) -> FrequencyCurve:
    """Compute the curve and its 95% band from `start` to 1."""
    levels = np.linspace(start, 1.0, 101)
    estimates = frequency_band(runs, levels.tolist(), cells=cells)
    values = np.array([e.value for e in estimates])
    ends = (e.interval() or Interval(np.nan, np.nan) for e in estimates)
    low, high = np.array([(i.low, i.high) for i in ends]).T
    return FrequencyCurve(label, levels, values, low, high)


def draw_frequency(curves: Sequence[FrequencyCurve], ax: Axes) -> Axes:
    """Draw the share of temperature pairs that reach each level.

    Lines differ in dash as well as in colour. Up to four have 95% bands; more of them would hide
    each other, so then the first alone has one.
    """
    from matplotlib.ticker import MultipleLocator

    if not curves:
        raise UserError("frequency: there is no curve to draw")
    note = None
    for k, curve in enumerate(curves):
        colour, dash = MANY[k % len(MANY)], LINES[k % len(LINES)]
        name = wrapped(curve.label, LABEL)
        ax.plot(curve.levels, curve.values, color=colour, linestyle=dash, label=name)
        if np.isfinite(curve.low).any() and (k == 0 or len(curves) <= _BANDS):
            ax.fill_between(curve.levels, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
            note = "95% band of the first" if len(curves) > _BANDS else "95% bands"
    ax.set_xlim(curves[0].levels[0], curves[0].levels[-1])
    if np.ptp(curves[0].levels) <= 0.3:
        ax.xaxis.set_major_locator(MultipleLocator(0.05))
    ax.set_ylim(bottom=0)
    ax.set_xlabel(r"performance level $\tau$")
    ax.set_ylabel(r"share of pairs ($\alpha$, $\lambda$) with $d \geq \tau$")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), title=note, handlelength=2.4)
    return ax


def pictures(table: RobustnessTable) -> Iterator[tuple[str, Figure]]:
    """Draw all algorithms, from a little below the best score and no higher than 0.8."""
    rows = table.rows
    best = max(row.best for row in rows)
    start = float(np.clip(np.floor(10 * best - 2) / 10, 0.0, 0.8))
    curves = []
    for k, row in enumerate(rows):
        short = row.reference.label if row.reference else ""
        name = f"{short or k + 1}  {row.label}" if len(rows) > 1 else row.label
        curves.append(frequency_curve(name, row.landscape.runs(), cells=row.mask, start=start))
    figure, ax = new(PAGE, COLUMN * 0.9)
    draw_frequency(curves, ax)
    yield "frequency", figure
