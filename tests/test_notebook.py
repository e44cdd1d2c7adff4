"""The notebook in examples/ runs as it stands, and was kept with its outputs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import scripts

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
KEPT = json.loads(NOTEBOOK.read_text())
#: A run is the same in any grid and in any worker: one worker, which compiles once, and the cells
#: that the notebook speaks of are enough.
LESS = {
    "workers=2": "workers=1",
    "alpha=[0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]": "alpha=[0.003, 0.03, 1.0]",
    "lam=[0.01, 0.1, 1.0, 10.0, 100.0]": "lam=[0.1, 100.0]",
}


@pytest.fixture(scope="module")
def tool():
    return scripts.load("docs/notebook.py")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(cell):
    """Return the kinds of a cell's outputs, and whether there is a picture in them."""
    texts = json.dumps(cell["outputs"])
    return [output["output_type"] for output in cell["outputs"]], "image/png" in texts


def shown(notebook, source):
    """Return as text what the cell with this piece of code shows."""
    (cell,) = (cell for cell in code_cells(notebook) if source in "".join(cell["source"]))
    parts = [o.get("text") or o["data"]["text/plain"] for o in cell["outputs"]]
    return "".join(text for part in parts for text in part)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Execute a copy, in a process of its own: it registers names."""
    copy = tmp_path_factory.mktemp("notebook") / "tutorial.ipynb"
    text = NOTEBOOK.read_text()
    for much, less in LESS.items():
        assert much in text
        text = text.replace(much, less)
    copy.write_text(text)
    command = [sys.executable, str(ROOT / "docs" / "notebook.py"), str(copy)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return json.loads(copy.read_text())


def test_every_cell_runs_and_gives_the_kinds_of_output_that_were_kept(done):
    for before, after in zip(code_cells(KEPT), code_cells(done), strict=True):
        assert kinds(before) == kinds(after), "".join(before["source"])
    # What does not depend on training is the same to the last digit.
    for source in ("check_potential", "tabular.solve"):
        assert shown(KEPT, source) == shown(done, source)


@pytest.mark.parametrize("which", ["kept", "done"])
def test_what_it_says_about_the_results_is_so(which, request):
    notebook = KEPT if which == "kept" else request.getfixturevalue("done")
    assert float(re.search(r"mean score ([\d.]+)", shown(notebook, '"Catch"'))[1]) > 0.9
    runs = 140 if which == "kept" else 24
    assert f"{runs} of {runs} runs done" in shown(notebook, "mirrorax.sweep")
    best = dict(re.findall(r"([\d.]+) +([\d.]+)\n", shown(notebook, "groupby") + "\n"))
    assert float(best["0.003"]) > 0.9
    assert float(best["1.000"]) < 0.6
    assert float(re.search(r"return ([\d.]+) on", shown(notebook, "mirrorax.tune"))[1]) > 0.9


def test_it_was_kept_executed_in_order_and_draws_with_the_package():
    cells = code_cells(KEPT)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(kinds(cell)[1] for cell in cells) >= 6
    source = "".join(text for cell in cells for text in cell["source"])
    assert "imshow" not in source


def test_what_a_cell_prints_returns_and_draws_becomes_its_outputs(tool):
    plt.close("all")  # what another test has drawn is not of this cell
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
