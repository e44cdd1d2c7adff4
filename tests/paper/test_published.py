"""The published results are whole, are the paper's runs, and say what the pages say they do."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
import scripts

from mirrorax.paper.axes import ALPHAS, LAMS, SEEDS
from mirrorax.paper.claims_on_pairs import table_1
from mirrorax.paper.readings import FIRST, reading
from mirrorax.paper.runs import ReadingRuns
from mirrorax.store import read_results

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "results"
FOLDERS = sorted(path for path in (RESULTS / "paper").iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def tables():
    return scripts.load("docs/reproduction_tables.py")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_published_run_is_one_of_the_papers_and_finished(folder):
    table = read_results(folder)  # checks every page, and each id against its settings
    assert set(table["status"].to_pylist()) == {"done"}
    runs = ReadingRuns(table, reading(folder.name))
    assert runs.count == len(table)
    assert set(table["alpha"].to_pylist()) <= {*ALPHAS, None}
    assert set(table["lam"].to_pylist()) <= set(LAMS)
    assert set(table["seed"].to_pylist()) <= set(range(SEEDS))


def test_the_results_are_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 60e6
    assert {path.suffix for path in files} <= {".parquet", ".jsonl", ".md", ".toml", ".py"}


def test_the_pages_say_what_the_results_say(tables):
    """A figure that was edited by hand, or not brought up to date, is found."""
    for path, text in tables.pages().items():
        assert path.read_text(encoding="utf-8") == text, path


def test_a_pairs_interval_is_the_same_whatever_else_was_run():
    table = read_results(RESULTS / "paper" / FIRST).table("all")
    alone = table.filter(pc.equal(table["potential"], "max"))

    def interval(part):
        _, estimates = table_1(ReadingRuns(part))
        return estimates["B"].interval()

    assert interval(alone) == interval(table)
