"""The notebook in examples/ runs as it stands, and was kept with its outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import scripts

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"


@pytest.fixture(scope="module")
def tool():
    return scripts.load("docs/notebook.py")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(cell):
    return [output["output_type"] for output in cell["outputs"]]


def test_every_cell_runs_and_gives_the_kinds_of_output_that_were_kept(tool, tmp_path):
    kept = json.loads(NOTEBOOK.read_text())
    done = tool.execute(kept, tmp_path)
    for before, after in zip(code_cells(kept), code_cells(done), strict=True):
        assert kinds(before) == kinds(after), "".join(before["source"])
    # What does not depend on training is the same to the last digit: the values of h and B_h.
    assert code_cells(kept)[1]["outputs"] == code_cells(done)[1]["outputs"]


def test_it_was_kept_executed_in_order():
    cells = code_cells(json.loads(NOTEBOOK.read_text()))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum("display_data" in kinds(cell) for cell in cells) >= 3


def test_what_a_cell_prints_returns_and_draws_becomes_its_outputs(tool):
    space = {}
    (printed, value) = tool.run_cell("print('a')\n1 + 1", space, "cell")
    assert printed["text"] == ["a\n"]
    assert value["data"]["text/plain"] == ["2"]
    assert tool.run_cell("x = 3", space, "cell") == []
    assert tool.run_cell("x;", space, "cell") == []
    (drawn,) = tool.run_cell("import matplotlib.pyplot as p\np.plot([1, x]);", space, "cell")
    assert drawn["output_type"] == "display_data"
    with pytest.raises(ZeroDivisionError):
        tool.run_cell("1 / 0", space, "cell")
