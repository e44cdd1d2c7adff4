"""Draw the pictures of docs/analysis.md from made-up runs.

python docs/analysis_pictures.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import analysis_synthetic as synthetic

from mirrorax.analysis import cell_scores, landscapes, minimal_temperatures, top
from mirrorax.analysis.temperature import THRESHOLDS
from mirrorax.figures.bars import Bars, draw_best
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import draw_heat_map, draw_panel, heat_map
from mirrorax.figures.scaling import Scaling, draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, save, style

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    rng = np.random.default_rng(0)
    items = landscapes(synthetic.study(synthetic.pairs()[:4], rng))
    base = next(item for item in items if item.label == "(entropy, kl)")
    with style():
        figure, ax = new(COLUMN)
        draw_heat_map(heat_map(base), ax)
        save(figure, IMAGES / "analysis_heat_map", ["png"])
        figure, _ = new(PAGE, PAGE * 0.34)
        figure.clear()
        draw_panel([heat_map(base, environment=e.label) for e in base.environments], figure)
        save(figure, IMAGES / "analysis_panel", ["png"])
        figure, ax = new(COLUMN, COLUMN * 0.95)
        curves = [frequency_curve(item.label, item.runs(), cells=item.cells()) for item in items]
        draw_frequency(curves, ax)
        save(figure, IMAGES / "analysis_frequency", ["png"])
        tops = [
            [top(cell_scores(item.runs())[item.cells()], q) for q in (0.01, 0.1)] for item in items
        ]
        figure, ax = new(COLUMN)
        draw_best(Bars([item.label for item in items], ["best 1%", "best 10%"], tops), ax)
        ax.set_ylabel("mean score")
        save(figure, IMAGES / "analysis_best", ["png"])
        scaled = pa.concat_tables(
            [
                synthetic.block(
                    {},
                    "CartPole",
                    synthetic.ALPHAS,
                    synthetic.LAMS,
                    5,
                    rng,
                    reward_scale=most / 500,
                )
                for most in (1000, 750, 500, 400, 333, 300, 200, 143, 100, 50, 5)
            ]
        )
        (item,) = landscapes(scaled)
        points = {t: minimal_temperatures(item, "alpha", t) for t in THRESHOLDS}
        figure, ax = new(COLUMN)
        draw_scaling(Scaling("alpha", points), ax, log=True)
        save(figure, IMAGES / "analysis_scaling", ["png"])


def page() -> None:
    """Take a picture of the report."""
    import shutil
    import tempfile

    from playwright.sync_api import sync_playwright

    from mirrorax.report import build, facts, write

    table = synthetic.study(synthetic.pairs()[:6], np.random.default_rng(0))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        about = facts(table, title="Six pairs of regularisers", made="2026-01-01 10:00 UTC")
        path = write(build(table, about), Path(folder) / "report.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        tab.goto(path.as_uri())
        tab.select_option("#pair", label="C  (entropy, kl)")
        tab.locator("#maps canvas").first.hover(position={"x": 170, "y": 190})
        tab.screenshot(path=IMAGES / "report.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
    if "--page" in sys.argv:
        page()
