"""The examples of the analysis page run as they stand, beside a store named "runs"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import stores

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "analysis.md"
EXAMPLES = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, small, tmp_path, monkeypatch, capsys):
    stores.fill(tmp_path / "runs", small)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) == 3


def test_the_table_of_coverages_is_what_the_benchmark_writes(suite):
    """Every landscape, size and number of seeds is in it, and no share of Rbst is below 90%."""
    text = (DOCS / "coverage.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- coverage -->\n(.*?)\n<!-- end of coverage -->", text, re.DOTALL)
    stated = re.search(r"`python benchmarks/analysis_coverage.py (\d+)`: (\d+) repetitions", block)
    assert stated[1] == stated[2]
    assert int(stated[2]) >= 100
    both, limits, others = re.split(r"\*\*Rbst with infinitely|\*\*freq as", block)
    shares = []
    for part in (both, limits):
        for name in suite.LANDSCAPES:
            for side in (7, 14, 28):
                (row,) = re.findall(
                    rf"^\| {re.escape(name)} \| {side} x {side} \|(.*)$", part, re.M
                )
                assert row.count("|") == 4  # 2, 3, 5 and 20 seeds
                shares += [int(x) for pair in re.findall(r"(\d+) / (\d+)", row) for x in pair]
    assert len(shares) == 2 * 2 * 4 * 3 * len(suite.LANDSCAPES)
    assert f"Of the {len(shares)} shares of Rbst the lowest is {min(shares)}%" in both
    assert min(shares) >= 90
    for title in ("rank correlation", "The mean of few seeds", "The exponent of minimal"):
        assert title in others
