"""How fast the analysis is on a table of the paper's size: 504,600 runs with 2 x 10 returns.

    python benchmarks/analysis_speed.py [--page] [--store]

Prints the time for Rbst with its intervals of all 11 pairs, the time and memory for the
report, its size, with --page (needs playwright and Chromium) how long a slider move takes, and with
--store what both commands take from a store on disk, start of Python and loading included.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import analysis_synthetic as synthetic
import numpy as np
import pyarrow as pa

from mirrorax.analysis.estimates import robustness
from mirrorax.analysis.landscape import landscapes
from mirrorax.report import build, facts, write

SUITE = ["CartPole", "Acrobot", "Catch", "DeepSea"]


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def robustness_of_pairs(table: pa.Table) -> None:
    start = time.perf_counter()
    items = landscapes(table)
    loaded = time.perf_counter()
    pairs = {(item.settings["potential"], item.settings["drift"]) for item in items}
    constant = [
        item
        for item in items
        if item.settings["alpha_schedule"] == item.settings["lam_schedule"] == "constant"
        and item.settings["actor_q"] == "regularized"
        and item.settings["drift"] != "forward_kl"
    ]
    assert len(constant) == 11, (len(constant), pairs)
    begin = time.perf_counter()
    for item in constant:
        robustness(item.select(SUITE).runs(), [0.9, 0.95], cells=item.cells())
    took = time.perf_counter() - begin
    print(f"Rbst_0.9 and Rbst_0.95 with intervals, 11 pairs: {took:.2f} s")
    print(f"table to landscapes (once, before): {loaded - start:.2f} s")


def report(table: pa.Table, path: Path) -> None:
    start = time.perf_counter()
    write(build(table, facts(table, title="benchmark", made="now")), path)
    took = time.perf_counter() - start
    size = path.stat().st_size / 2**20
    print(f"report: built in {took:.2f} s, {size:.2f} MiB, peak memory {memory():.2f} GiB")


def page(path: Path) -> None:
    from playwright.sync_api import sync_playwright

    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run"
    flags += " --disable-background-networking --disable-component-update --disable-sync"
    # From the input event to the next frame after it: what a reader sees.
    move = """(value) => new Promise((done) => {
      const slider = document.getElementById("threshold");
      const start = performance.now();
      slider.value = value;
      slider.dispatchEvent(new Event("input"));
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - start)));
    })"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=flags.split()
        )
        tab = browser.new_page(viewport={"width": 1400, "height": 1000})
        start = time.perf_counter()
        tab.goto(path.as_uri())
        tab.wait_for_selector("#maps canvas")
        print(f"page: loaded in {time.perf_counter() - start:.2f} s")
        for layout in ("pair", "environment"):
            tab.select_option("#layout", layout)
            tab.wait_for_timeout(500)
            times = []
            for value in np.linspace(0.5, 0.98, 40).round(2):
                times.append(tab.evaluate(move, str(value)))
                tab.wait_for_timeout(30)
            maps = tab.locator("#maps canvas").count()
            print(
                f"page, {maps} maps: slider move to next frame: median {np.median(times):.0f} ms, "
                f"90% {np.quantile(times, 0.9):.0f} ms, slowest {max(times):.0f} ms"
            )
        browser.close()


def commands(table: pa.Table, folder: Path) -> None:
    from mirrorax.runs.results import as_results
    from mirrorax.store.exporting import add
    from mirrorax.store.store import Store

    store = folder / "store"
    with Store(store) as held:
        add(held, as_results(table.drop_columns(["run_id"])))
        held.consolidate()
    out = str(folder / "cli.html")
    for words in (
        ["report", "--store", str(store), "--out", out],
        ["robustness", "--store", str(store)],
    ):
        start = time.perf_counter()
        command = str(Path(sys.executable).with_name("mirrorax"))
        subprocess.run([command, *words], check=True, stdout=subprocess.DEVNULL)
        took = time.perf_counter() - start
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        print(f"mirrorax {words[0]}, from a store on disk: {took:.2f} s, peak {most:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--store", action="store_true")
    args = parser.parse_args()
    table = synthetic.paper(np.random.default_rng(0))
    print(f"{table.num_rows} runs, memory with the table {memory():.2f} GiB")
    robustness_of_pairs(table)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        report(table, path)
        if args.page:
            page(path)
        if args.store:
            commands(table, Path(folder))


if __name__ == "__main__":
    main()
