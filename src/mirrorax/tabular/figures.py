"""Pictures of exact Policy Mirror Descent. Each takes data and an axis and returns the axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrorax.tabular.pmd import Trace


def convergence(trace: Trace, ax: Any, *, title: str = "") -> Any:
    """Draw the gap to the optimum over the iterations on a log axis, with the promised rate.

    A gap that has met the rounding of the optimum is not drawn below it.
    """
    gap = np.asarray(trace.gap)
    if gap.ndim != 1:
        raise ValueError("convergence draws one trace: index the batch first")
    steps = np.arange(len(gap))
    floor = max(trace.optimum.error, np.finfo(float).tiny)
    shown = np.maximum(gap, floor)
    ax.semilogy(steps, shown, color="#0072B2", lw=1.8, label="gap, max over states of V* − V")
    if trace.promised_rate is not None:
        rate = float(trace.promised_rate)
        ax.semilogy(
            steps,
            gap[0] * rate**steps,
            color="#D55E00",
            ls="--",
            lw=1.4,
            label=f"promised rate, {rate:.4f} per step",
        )
    if (gap <= 10 * floor).any():
        ax.axhline(floor, color="0.6", lw=1, ls=":", label="error of the optimum")
    ax.set_xlabel("iteration")
    ax.set_ylabel("gap to the regularised optimum")
    ax.set_xlim(0, max(len(gap) - 1, 1))
    ax.grid(True, which="major", color="0.9", lw=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize="small")
    if title:
        ax.set_title(title, fontsize="medium")
    return ax
