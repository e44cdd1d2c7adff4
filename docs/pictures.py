"""Draw the pictures that the documentation and the README show.

    python docs/pictures.py

They are kept in docs/images, so that a page can be read without running anything.
"""

from __future__ import annotations

from pathlib import Path

from simplex_pictures import drift_on_simplex, potential_on_simplex

from mirrorax.figures.style import COLUMN, PAGE, new, save, style
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


def regularisers():
    for name, panels in ROWS.items():
        width = 2.2 * len(panels)
        figure, axes = new(width, 2.3, ncols=len(panels), squeeze=False)
        for ax, (kind, regulariser) in zip(axes[0], panels, strict=True):
            if kind == "h":
                potential_on_simplex(regulariser, ax)
            else:
                drift_on_simplex(regulariser, OLD_POLICY, ax)
        save(figure, IMAGES / name, ["png"])


def rates():
    figure, axes = new(PAGE, COLUMN * 0.8, ncols=2)
    trace = solve(garnet(50, 4, seed=0, gamma=0.9), "entropy", "kl", 0.5, 2.0, 60)
    convergence(trace, axes[0], title="Garnet 50 x 4: (entropy, kl), alpha 0.5, lambda 2")
    trace = solve(deepsea(8), "tsallis(0.5)", "bregman(tsallis(0.5))", 0.01, 0.1, 60)
    convergence(
        trace,
        axes[1],
        title="DeepSea 8: (tsallis(0.5), bregman(tsallis(0.5))),\nalpha 0.01, lambda 0.1",
    )
    save(figure, IMAGES / "convergence", ["png"])


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with style():
        regularisers()
        rates()
