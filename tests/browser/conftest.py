"""A real browser for the page: Chromium from the system's packages, driven by Playwright."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scripts

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _unavailable(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}; under CI the page must be tested in a browser")
    pytest.skip(f"{reason}: the page is not tested in a browser")


def _executable() -> str | None:
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found:
            return found
    return None


@pytest.fixture(scope="session")
def browser():
    if importlib.util.find_spec("playwright") is None:
        _unavailable("the package playwright is not installed")
    executable = _executable()
    if executable is None:
        _unavailable("no Chromium is installed (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


class Visit:
    """A page open in the browser, with everything it complained about or asked for."""

    def __init__(self, page, path: Path) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog {dialog.message}"))
        page.on("request", lambda request: self.requests.append(request.url))
        page.set_default_timeout(20_000)
        page.goto(path.as_uri())
        self.until("document.documentElement.dataset.rendered >= 1")

    def until(self, condition: str) -> None:
        """Wait until a condition holds; the page's own policy forbids Playwright's way to."""
        for _ in range(1000):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(f"never true: {condition}")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def threshold(self, value: float) -> None:
        before = int(self.page.evaluate("document.documentElement.dataset.rendered"))
        self.page.locator("#threshold").fill(str(value))
        self.until(f"document.documentElement.dataset.rendered > {before}")

    def pixels(self, k: int = 0) -> str:
        return self.page.locator("#maps canvas").nth(k).evaluate("c => c.toDataURL()")

    def over(self, i: int, j: int, alphas, lams, map_index: int = 0) -> dict[str, float]:
        """Where on the canvas of a map a cell is."""
        canvas = self.page.locator("#maps canvas").nth(map_index)
        box = canvas.bounding_box()
        room = 290 if self.page.locator("#layout").input_value() == "pair" else 240
        cell = min(48, max(6, 2 * (room // (2 * max(len(alphas), len(lams))))))
        gap_x = 0.5 if j > 0 and lams[0] == 0 else 0.0
        x = 44 + cell * (j + gap_x + 0.5)
        gap_y = 0.5 if i > 0 and alphas[0] == 0 else 0.0
        y = box["height"] - 32 - cell * (i + gap_y + 0.5)
        return {"x": x, "y": y}


@pytest.fixture
def visit(browser, tmp_path):
    contexts = []

    def open_page(table, title="A study", beside=True, **context):
        from mirrorax.paper.table_1 import reference
        from mirrorax.report import build, facts, write

        about = facts(table, title=title, made="2026-01-01 10:00 UTC")
        page = build(table, about, reference() if beside else None)
        path = write(page, tmp_path / "report.html")
        opened = browser.new_context(
            viewport={"width": 1300, "height": 900}, accept_downloads=True, **context
        )
        contexts.append(opened)
        return Visit(opened.new_page(), path)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def table(synthetic):
    """Three algorithms of the paper's table on its four environments, a 12 x 13 grid, 4 seeds."""
    return synthetic.study(
        [{"drift": "bregman(max)"}, {}, {"potential": "max"}],
        np.random.default_rng(12),
        alphas=synthetic.ALPHAS[[0, 1, 3, 5, 8, 10, 11, 12, 14, 19, 22, 28]],
        lams=synthetic.LAMS[[0, 1, 3, 5, 8, 10, 13, 15, 17, 19, 21, 24, 28]],
        seeds=4,
        evaluations=3,
    )


@pytest.fixture(scope="session")
def suite():
    """Landscapes whose truth is known."""
    return scripts.load("benchmarks/analysis_landscapes.py")
