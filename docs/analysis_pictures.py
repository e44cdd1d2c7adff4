"""Draw the pictures of docs/analysis.md and docs/report.md from the published runs.

python docs/analysis_pictures.py          # the figures
python docs/analysis_pictures.py --page   # the report too; needs Chromium and playwright
"""

from __future__ import annotations

import sys
from pathlib import Path

from mirrorax.analysis import cell_scores, minimal_temperatures, summarise, top
from mirrorax.analysis.landscape import landscapes
from mirrorax.analysis.temperature import THRESHOLDS
from mirrorax.figures.bars import draw_best
from mirrorax.figures.frequency import draw_frequency, frequency_curve
from mirrorax.figures.heatmap import draw_heat_map, draw_panel, heat_map
from mirrorax.figures.scaling import draw_scaling
from mirrorax.figures.style import COLUMN, PAGE, new, save, style
from mirrorax.paper.table_1 import reference
from mirrorax.store import read_results

IMAGES = Path(__file__).parent / "images"
RESULTS = Path(__file__).parents[1] / "results" / "paper" / "each_each_bootstrap"


def main() -> None:
    items = landscapes(read_results(RESULTS, "results"))
    rows = summarise(items).rows
    best = rows[0].landscape
    with style():
        figure, ax = new(COLUMN)
        draw_heat_map(heat_map(best), ax)
        save(figure, IMAGES / "analysis_heat_map", ["png"])
        figure, _ = new(PAGE, PAGE * 0.34)
        figure.clear()
        draw_panel([heat_map(best, environment=e.label) for e in best.environments], figure)
        save(figure, IMAGES / "analysis_panel", ["png"])
        figure, ax = new(PAGE, COLUMN * 0.9)
        curves = [frequency_curve(r.label, r.landscape.runs(), cells=r.mask) for r in rows]
        draw_frequency(curves, ax)
        save(figure, IMAGES / "analysis_frequency", ["png"])
        scores = {r.label: cell_scores(r.landscape.runs())[r.mask] for r in rows}
        tops = {
            label: {"best 1%": top(values, 0.01), "best 10%": top(values, 0.1)}
            for label, values in scores.items()
        }
        figure, ax = new(PAGE, COLUMN)
        draw_best(tops, ax)
        ax.set_ylabel("mean score")
        save(figure, IMAGES / "analysis_best", ["png"])
        (item,) = (item for item in items if len(item.environments) > 4)
        scaled = item.select([e.label for e in item.environments if e.name == "CartPole"])
        points = {t: minimal_temperatures(scaled, "alpha", t) for t in THRESHOLDS}
        figure, ax = new(COLUMN)
        draw_scaling(points, ax, temperature="alpha")
        save(figure, IMAGES / "analysis_scaling", ["png"])


def page() -> None:
    """Take a picture of the report."""
    import shutil
    import tempfile

    from playwright.sync_api import sync_playwright

    from mirrorax.report import build, facts, write

    table = read_results(RESULTS, "results")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        about = facts(table, title="Eleven pairs of regularisers", made="from results/paper")
        path = write(build(table, about, reference()), Path(folder) / "report.html")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--headless", "--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1240, "height": 1560}, color_scheme="light")
        tab.goto(path.as_uri())
        tab.locator("#maps canvas").first.hover(position={"x": 200, "y": 190})
        tab.screenshot(path=IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
    if "--page" in sys.argv:
        page()
