"""Write the tables and pictures of docs/family.md from the published results; nothing by hand.

    python docs/family_tables.py

Reads results/on_policy. Fills the places between `<!-- NAME -->` and `<!-- end of NAME -->` and
draws docs/images/on_policy_*.png. A test compares the page with what this makes of the results.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
from places import fill

from mirrorax.analysis import summarise
from mirrorax.analysis.summary import RobustnessTable
from mirrorax.figures.heatmap import draw_panel, heat_map
from mirrorax.figures.style import PAGE, PALETTE, new, save, style
from mirrorax.store import load_curves, read_results

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "on_policy"
STUDY, GAMES = RESULTS / "study.parquet", RESULTS / "minatar.parquet"
PAGE_FILE = ROOT / "docs" / "family.md"
IMAGES = ROOT / "docs" / "images"
#: mean returns of a random policy, as results/minatar/README.md tells
RANDOM = {"Breakout-MinAtar": 0.39, "SpaceInvaders-MinAtar": 4.35}


def tables() -> dict[str, str]:
    """Return the texts of the page by their names."""
    results = read_results(STUDY)
    table = summarise(results, thresholds=(0.9,))
    header = ["drift", "best (alpha, lam)", "its score", "freq(0.9)", "Rbst_0.9", "95%", "rank"]
    header += [f"freq(0.9), {name}" for name in table.environments]
    lines = [header, ["---"] * len(header)]
    for row in table.rows:
        ends, limits = row.rbst[0].interval(), row.ranks[0]
        first, last = limits or (0, 0)
        cells = row.landscape.runs("stochastic", "lowest").mean(axis=-1)[row.mask]
        lines.append(
            [
                f"`{row.landscape.settings['drift']}`",
                f"{row.best_alpha:g}, {row.best_lam:g}",
                f"{row.best:.3f}",
                f"{row.frequency[0].value:.2f}",
                f"{row.rbst[0].value:.4f}",
                f"{ends.low:.4f} to {ends.high:.4f}" if ends else "",
                f"{first}" if first == last else f"{first} to {last}",
                *(f"{share:.2f}" for share in (cells >= 0.9).mean(axis=0)),
            ]
        )
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return {"robustness": f"{rows}\n\n{finding(table)}"}


def finding(table: RobustnessTable) -> str:
    """Say what the table shows, and what it does not."""
    best, last = table.rows[0], table.rows[-1]
    ranks = [row.ranks[0] or (1, len(table.rows)) for row in table.rows]
    apart = sum(a[1] < b[0] for a in ranks for b in ranks)
    shares = [row.interplay.alpha.value for row in table.rows if row.interplay]
    first, least = (f"`{row.landscape.settings['drift']}`" for row in (best, last))
    text = (
        f"The largest Rbst_0.9 is that of {first}, the smallest that of {least}, from "
        f"{sum(row.runs for row in table.rows):,} runs. Of the {math.comb(len(ranks), 2)} pairs of "
        f"drifts, {apart or 'none'} {'is' if apart < 2 else 'are'} told apart by the ranks that "
        "the intervals allow."
    )
    if ranks[0][1] > 1:
        text += " So these runs do not say which drift forgives most."
    text += f" Of the variance of scores over the grid, alpha alone has {min(shares):.0%} to "
    return text + f"{max(shares):.0%}, noise of seeds taken off."


def pages() -> dict[Path, str]:
    """Return the page as it must be."""
    places = {name: f"\n{table}\n" for name, table in tables().items()}
    return {PAGE_FILE: fill(PAGE_FILE.read_text(encoding="utf-8"), places)}


def draw_study() -> None:
    """One heat map for each drift: mean scores over the environments that it has."""
    rows = summarise(read_results(STUDY), thresholds=(0.9,)).rows
    maps = [
        replace(heat_map(row.landscape), title=str(row.landscape.settings["drift"])) for row in rows
    ]
    with style():
        figure, _ = new(PAGE, PAGE * 0.27 * -(-len(maps) // 4) + 0.3)
        figure.clear()
        draw_panel(maps, figure)
        save(figure, IMAGES / "on_policy_drifts", ["png"])


def draw_games() -> None:
    """Learning curves of the games, and what random play earns."""
    results = read_results(GAMES)
    names = results.table().select(["run_id", "environment"]).to_pylist()
    games = {row["run_id"]: row["environment"] for row in names}
    curves = load_curves(GAMES).to_pylist()
    with style():
        figure, axes = new(PAGE, 2.4, ncols=len(RANDOM))
        for ax, (game, random) in zip(axes, RANDOM.items(), strict=True):
            for row in curves:
                if games[row["run_id"]] == game:
                    steps = 1024 * np.asarray(row["update"]) / 1000
                    ax.plot(steps, row["return"], color=PALETTE[0], linewidth=1)
            ax.axhline(random, color="0.4", linestyle="--", label="random play")
            ax.set(title=game, xlabel="thousand steps", ylabel="mean return of 10 episodes")
            ax.legend()
        save(figure, IMAGES / "on_policy_minatar", ["png"])


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
    draw_study()
    draw_games()
