"""Draw the pictures that the documentation and the README show.

    python docs/pictures.py

They are kept in docs/images, so that a page can be read without running anything.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mirrorax.regularizers.figures import drift_on_simplex, potential_on_simplex
from mirrorax.tabular import deepsea, garnet, solve
from mirrorax.tabular.figures import convergence

IMAGES = Path(__file__).parent / "images"
OLD_POLICY = (0.5, 0.3, 0.2)

#: picture -> the regularisers on it: a potential (h) and drifts (D)
ROWS = {
    "entropy": [("h", "entropy"), ("D", "kl"), ("D", "forward_kl")],
    "tsallis_half": [("h", "tsallis(0.5)"), ("D", "bregman(tsallis(0.5))")],
    "tsallis_three_halves": [("h", "tsallis(1.5)"), ("D", "bregman(tsallis(1.5))")],
    "lp": [("h", "lp(2)"), ("D", "bregman(lp(2))")],
    "max": [("h", "max"), ("D", "bregman(max)")],
    "squared_tv": [("D", "squared_tv")],
}


def new_figure(width, height, columns):
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def regularisers():
    for name, panels in ROWS.items():
        figure, axes = new_figure(2.9 * len(panels), 3.1, len(panels))
        for ax, (kind, regulariser) in zip(axes, panels, strict=True):
            if kind == "h":
                potential_on_simplex(regulariser, ax)
            else:
                drift_on_simplex(regulariser, OLD_POLICY, ax)
        figure.savefig(IMAGES / f"{name}.png")


def rates():
    figure, axes = new_figure(9, 3.6, 2)
    trace = solve(garnet(50, 4, seed=0, gamma=0.9), "entropy", "kl", 0.5, 2.0, 60)
    convergence(trace, axes[0], title="Garnet 50 x 4: PMD(entropy, kl), alpha 0.5, lam 2")
    trace = solve(deepsea(8), "tsallis(0.5)", "bregman(tsallis(0.5))", 0.01, 0.1, 60)
    convergence(trace, axes[1], title="DeepSea 8: PMD(tsallis(0.5), its Bregman)")
    figure.savefig(IMAGES / "convergence.png")


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    regularisers()
    rates()
