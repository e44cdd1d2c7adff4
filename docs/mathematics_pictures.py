"""Draw the pictures of docs/mathematics.md.

python docs/mathematics_pictures.py
"""

from __future__ import annotations

import numpy as np
from pictures import IMAGES
from simplex_pictures import drift_on_simplex

from mirrorax.figures.style import LINES, PAGE, PALETTE, new, save, style
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
    figure, axes = new(PAGE, PAGE * 0.43, ncols=len(PAIRS))
    for ax, (h, d) in zip(axes, PAIRS, strict=True):
        drift_on_simplex(d, OLD, ax)
        ax.set_title(f"({h}, {d})", pad=14)
        for alpha, colour in ((0.0, "black"), (0.5, PALETTE[0]), (2.0, PALETTE[3])):
            lams = np.geomspace(0.02, 200, 60)
            points = np.array([mirror_step(Q, OLD, h, d, alpha, lam) for lam in lams])
            ax.plot(*corner(points), color=colour, lw=1.5, label=rf"$\alpha$ = {alpha:g}")
            ax.plot(*corner(points[0]), "o", color=colour, ms=4, clip_on=False, zorder=5)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, IMAGES / "mathematics_steps", ["png"])


def greedy():
    """What alpha does to the optimum: its probabilities as alpha grows."""
    figure, axes = new(PAGE, PAGE * 0.3, ncols=3, sharey=True)
    alphas = np.geomspace(0.01, 30, 120)
    for ax, h in zip(axes, ("entropy", "tsallis(0.5)", "lp(2)"), strict=True):
        chances = np.array([mirror_step(Q, OLD, h, "zero", a, 0.0) for a in alphas])
        for k, action in enumerate(np.argsort(-Q)):
            look = {"color": PALETTE[k], "ls": LINES[k]}
            ax.plot(alphas, chances[:, action], **look, label=f"action with Q = {Q[action]:g}")
        ax.set(xscale="log", xlabel=r"$\alpha$", title=h, ylim=(-0.02, 1.02))
    axes[0].set_ylabel("probability")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, IMAGES / "mathematics_alpha", ["png"])


def rates():
    """What lam does to the speed, and that both scale with the rewards."""
    figure, (left, right) = new(PAGE, PAGE * 0.36, ncols=2)
    for k, lam in enumerate((0.1, 1.0, 10.0)):
        trace = solve(deepsea(8), "entropy", "kl", alpha=0.05, lam=lam, iterations=80)
        look = {"color": PALETTE[k], "ls": LINES[k]}
        left.semilogy(trace.gap + 1e-16, **look, label=rf"$\lambda$ = {lam:g}")
    left.set(xlabel="iteration", ylabel="gap to the optimum", title="DeepSea: how fast")
    left.set(ylim=(1e-13, 10), xlim=(0, 80))
    left.legend(loc="lower right")
    lams = np.geomspace(0.02, 200, 60)

    def chance(scale, alpha, times):
        return [mirror_step(scale * Q, OLD, "entropy", "kl", alpha, times * lam)[2] for lam in lams]

    right.semilogx(lams, chance(1, 0.5, 1), color=PALETTE[0], label=r"$Q$, $\alpha$, $\lambda$")
    right.semilogx(
        lams, chance(10, 0.5, 1), "--", color=PALETTE[1], label=r"10 $Q$, $\alpha$, $\lambda$"
    )
    right.semilogx(
        lams,
        chance(10, 5.0, 10),
        ":",
        color="black",
        lw=2.4,
        label=r"10 $Q$, 10 $\alpha$, 10 $\lambda$",
    )
    right.set(xlabel=r"$\lambda$", ylabel="probability of the best action")
    right.set_title(r"One step, $\alpha$ = 0.5: the same if all are scaled")
    right.legend()
    save(figure, IMAGES / "mathematics_rates", ["png"])


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with style():
        steps()
        greedy()
        rates()
