"""The examples of the analysis page run as they stand, beside a store named "runs"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mirrorax.store import schema
from mirrorax.store.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "analysis.md"
EXAMPLES = re.findall(r"```py\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, small, tmp_path, monkeypatch, capsys):
    with Store(tmp_path / "runs") as held:
        held.commit(schema.in_order(small).select(schema.runs().names))
    monkeypatch.chdir(tmp_path)
    exec(compile(example, str(PAGE), "exec"), {})


def test_there_are_examples():
    assert len(EXAMPLES) == 2
