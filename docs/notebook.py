"""Execute a notebook and keep its outputs, without a notebook server.

    python docs/notebook.py examples/tutorial.ipynb

A cell is executed as Python would, top to bottom in one namespace: what it prints, the value of
its last line and the figures it draws become its outputs. The notebook is rewritten in place.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import types
from pathlib import Path


def run_cell(source: str, namespace: dict, name: str) -> list[dict]:
    """Execute one cell; return its outputs in the notebook's format."""
    import matplotlib.pyplot as plt

    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    # The cells are the project's own file, executed as a reader would.
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
    outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=90, metadata={"Software": None})
        encoded = base64.b64encode(picture.getvalue()).decode()
        data = {"image/png": encoded, "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    plt.close("all")
    # As in a notebook, a semicolon at the end hides the value.
    if value is not None and not source.rstrip().endswith(";"):
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_") and (page := value._repr_html_()):
            data["text/html"] = page.splitlines(keepends=True)
        result = {"output_type": "execute_result", "data": data, "metadata": {}}
        outputs.append(result)
    return outputs


def execute(notebook: dict, folder: Path) -> dict:
    """Return the notebook with the outputs of executing it in a folder."""
    import matplotlib

    matplotlib.use("agg")
    module = types.ModuleType("__main__")
    sys.modules["notebook_cells"] = module
    before = os.getcwd()
    os.chdir(folder)
    cells, count = [], 0
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                count += 1
                outputs = run_cell("".join(cell["source"]), vars(module), f"cell {count}")
                for output in outputs:
                    if output["output_type"] == "execute_result":
                        output["execution_count"] = count
                cell = {**cell, "execution_count": count, "outputs": outputs}
            cells.append(cell)
    finally:
        os.chdir(before)
        del sys.modules["notebook_cells"]
    return {**notebook, "cells": cells}


def main(path: str) -> None:
    import tempfile

    target = Path(path)
    notebook = json.loads(target.read_text())
    with tempfile.TemporaryDirectory() as folder:
        done = execute(notebook, Path(folder))
    target.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
