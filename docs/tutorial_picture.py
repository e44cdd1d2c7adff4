"""Draw the picture of docs/tutorial.md from the store that its commands make.

python docs/tutorial_picture.py bridge
"""

from __future__ import annotations

import sys
from pathlib import Path

from mirrorax.analysis import landscapes
from mirrorax.figures.heatmap import draw_panel, heat_map
from mirrorax.figures.style import PAGE, new, save, style
from mirrorax.store import read_results

IMAGES = Path(__file__).parent / "images"


def main(store: str) -> None:
    items = landscapes(read_results(store))
    with style():
        figure, _ = new(PAGE, PAGE * 0.45)
        figure.clear()
        draw_panel([heat_map(item) for item in items], figure)
        save(figure, IMAGES / "tutorial", ["png"])


if __name__ == "__main__":
    main(sys.argv[1])
