"""Draw the pictures of docs/mathematics.md.

python docs/mathematics_pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pictures import IMAGES, new_figure

from mirrorax.regularizers.figures import drift_on_simplex
from mirrorax.tabular import deepsea, mirror_step, solve

OLD = np.array([0.1, 0.6, 0.3])
Q = np.array([0.2, 0.0, 1.0])
PAIRS = [("entropy", "kl"), ("tsallis(0.5)", "kl"), ("lp(2)", "bregman(lp(2))")]


def corner(p):
    """Where a policy of three actions lies in the picture of the simplex."""
    p = np.asarray(p)
    return p[..., 1] + 0.5 * p[..., 2], np.sqrt(3) / 2 * p[..., 2]


def steps():
    """One mirror step for many temperatures: where it leads."""
    figure, axes = new_figure(10.2, 3.7, len(PAIRS))
    for ax, (h, d) in zip(axes, PAIRS, strict=True):
        drift_on_simplex(d, OLD, ax)
        ax.set_title(f"({h}, {d})", fontsize=10, pad=16)
        for alpha, colour in ((0.0, "C3"), (0.5, "C1"), (2.0, "C0")):
            lams = np.geomspace(0.02, 200, 60)
            points = np.array([mirror_step(Q, OLD, h, d, alpha, lam) for lam in lams])
            ax.plot(*corner(points), color=colour, lw=2, label=f"alpha {alpha:g}")
            ax.plot(*corner(points[0]), "o", color=colour, ms=5)
    axes[0].legend(fontsize=8, loc="upper left", frameon=False, bbox_to_anchor=(-0.12, 1.0))
    figure.savefig(IMAGES / "mathematics_steps.png")


def greedy():
    """What alpha does to the optimum: its probabilities as alpha grows."""
    figure, axes = new_figure(10.2, 3.1, 3)
    alphas = np.geomspace(0.01, 30, 120)
    for ax, h in zip(axes, ("entropy", "tsallis(0.5)", "lp(2)"), strict=True):
        chances = np.array([mirror_step(Q, OLD, h, "zero", a, 0.0) for a in alphas])
        for action in range(3):
            ax.plot(alphas, chances[:, action], label=f"Q = {Q[action]:g}")
        ax.set(xscale="log", xlabel="alpha", title=h, ylim=(-0.02, 1.02))
    axes[0].set_ylabel("probability")
    axes[0].legend(fontsize=8, frameon=False)
    figure.savefig(IMAGES / "mathematics_alpha.png")


def rates():
    """What lam does to the speed, and that both scale with the rewards."""
    figure, axes = new_figure(10.2, 3.4, 2)
    for lam in (0.1, 1.0, 10.0):
        trace = solve(deepsea(8), "entropy", "kl", alpha=0.05, lam=lam, iterations=80)
        axes[0].semilogy(trace.gap + 1e-16, label=f"lam {lam:g}")
    axes[0].set(xlabel="iteration", ylabel="gap to the optimum", title="lam: how fast")
    axes[0].set_ylim(1e-13, 10)
    axes[0].legend(fontsize=8, frameon=False)
    lams = np.geomspace(0.02, 200, 60)
    for scale, style in ((1.0, "-"), (10.0, "--")):
        points = np.array([mirror_step(scale * Q, OLD, "entropy", "kl", 0.5, lam) for lam in lams])
        axes[1].semilogx(lams, points[:, 2], style, color="C0", label=f"Q x {scale:g}, alpha 0.5")
    both = np.array([mirror_step(10 * Q, OLD, "entropy", "kl", 5.0, 10 * lam) for lam in lams])
    axes[1].semilogx(lams, both[:, 2], ":", color="C3", lw=3, label="Q, alpha and lam x 10")
    axes[1].set(xlabel="lam", ylabel="probability of the best action", title="scale: the same step")
    axes[1].legend(fontsize=8, frameon=False)
    figure.savefig(IMAGES / "mathematics_rates.png")


if __name__ == "__main__":
    Path(IMAGES).mkdir(exist_ok=True)
    steps()
    greedy()
    rates()
