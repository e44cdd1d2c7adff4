"""Pictures of exact Policy Mirror Descent. Each takes data and an axis and returns the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirrorax.tabular.pmd import Trace

#: colours of alphas and dashes of lambdas, and the most cells that a legend names
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", ":", "-.")
_NAMED = 12


def convergence(trace: Trace, ax: Any, *, title: str = "") -> Any:
    """Draw the gap to the optimum over the iterations on a log axis, with the promised rate.

    Gaps below the error of the optimum are drawn at that error. For a grid of temperatures no rate
    is drawn, and each cell is a line: of a small grid in the colour of its alpha and the dashes of
    its lambda, otherwise thin.
    """
    gap = np.asarray(trace.gap)
    single = gap.ndim == 1
    gap = gap.reshape(len(gap), -1)
    steps = np.arange(len(gap))
    floor = max(trace.optimum.error, np.finfo(float).tiny)
    lines = ax.semilogy(steps, np.maximum(gap, floor), color="#0072B2", lw=1.8 if single else 0.8)
    cells = "" if single else f" ({gap.shape[1]} cells)"
    named = not single and _name_lines(lines, trace)
    if not named:
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
    beside: Any = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if named else {}
    ax.legend(frameon=False, **beside)
    if title:
        ax.set_title(title)
    return ax


def _name_lines(lines: Sequence[Any], trace: Trace) -> bool:
    """Label each line of a small grid with its temperatures; False where that is not possible."""
    if len(lines) > _NAMED or not len(trace.alphas):
        return False
    if (trace.alphas != trace.alphas[0]).any() or (trace.lams != trace.lams[0]).any():
        return False  # they change along the way
    cells = list(zip(trace.alphas[0].ravel(), trace.lams[0].ravel(), strict=True))
    alphas, lams = (sorted(set(values)) for values in zip(*cells, strict=True))
    if len(set(cells)) < len(cells) or len(alphas) > len(_COLOURS) or len(lams) > len(_DASHES):
        return False
    for line, (alpha, lam) in zip(lines, cells, strict=True):
        line.set(color=_COLOURS[alphas.index(alpha)], ls=_DASHES[lams.index(lam)], lw=1.2)
        line.set_label(f"alpha {alpha:g}, lam {lam:g}")
    return True
