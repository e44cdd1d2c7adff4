"""Table 1 as a reference, and what the rest of the package knows of the paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mirrorax
from mirrorax.paper.axes import BASELINE, SUITE, TSALLIS
from mirrorax.paper.table_1 import reference

ROOMS = ("analysis", "figures", "report", "store", "sweep", "tuning")


def test_table_1_is_complete():
    table = reference()
    assert len(table.rows) == 11
    assert table.cells == 28 * 28
    assert tuple(table.environments) == SUITE
    assert "".join(row.label for row in table.rows) == "ABCDEFGHIJK"
    printed = [row.rbst[0] for row in table.rows]
    assert printed == sorted(printed, reverse=True)
    assert all(row.rbst[1] <= row.rbst[0] for row in table.rows)
    assert BASELINE == ("entropy", "kl")
    assert TSALLIS == ("tsallis(0.5)", "bregman(tsallis(0.5))")
    assert table.settings["steps"] == 16_000_000


@pytest.mark.parametrize("room", ROOMS)
def test_the_other_rooms_do_not_know_the_paper(room):
    files = [
        path
        for path in (Path(mirrorax.__file__).parent / room).rglob("*")
        if path.suffix in (".py", ".js", ".html", ".css")
    ]
    assert files
    for path in files:
        found = re.search(r".*paper.*", path.read_text(encoding="utf-8"), re.IGNORECASE)
        assert found is None, f"{path}: {found[0]}"
