"""Pictures of exact Policy Mirror Descent. Each takes data and an axis and returns the axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirrorax.tabular.pmd import Trace


def convergence(trace: Trace, ax: Any, *, title: str = "") -> Any:
    """Draw the gap to the optimum over the iterations on a log axis, with the promised rate.

    Gaps below the error of the optimum are drawn at that error. For a grid of temperatures each
    cell is a thin line, and no rate is drawn.
    """
    gap = np.asarray(trace.gap)
    single = gap.ndim == 1
    gap = gap.reshape(len(gap), -1)
    steps = np.arange(len(gap))
    floor = max(trace.optimum.error, np.finfo(float).tiny)
    lines = ax.semilogy(steps, np.maximum(gap, floor), color="#0072B2", lw=1.8 if single else 0.8)
    cells = "" if single else f" ({gap.shape[1]} cells)"
    lines[0].set_label(f"gap, max over states of V* − V{cells}")
    if single and trace.promised_rate is not None:
        rate = float(trace.promised_rate)
        ax.semilogy(
            steps,
            gap[0, 0] * rate**steps,
            color="#D55E00",
            ls="--",
            lw=1.4,
            label=f"promised rate, {rate:.3g} per step",
        )
    if (gap <= 10 * floor).any():
        ax.axhline(floor, color="0.6", lw=1, ls=":", label="error of the optimum")
    ax.set_xlabel("iteration")
    ax.set_ylabel("gap to the regularised optimum")
    ax.set_xlim(0, max(len(gap) - 1, 1))
    ax.legend(frameon=False)
    if title:
        ax.set_title(title)
    return ax
