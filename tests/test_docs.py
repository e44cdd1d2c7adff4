"""Every Python example in the README and in the docs runs, from top to bottom of its page."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import types
import zlib
from pathlib import Path

import pytest

from mirrorax.analysis.reference import parse_reference
from mirrorax.spec.study import expand, parse

ROOT = Path(__file__).parent.parent
#: the tutorial's code and commands belong together: tests/test_tutorial.py runs both
PAGES = [p for p in sorted((ROOT / "docs").glob("*.md")) if p.name != "tutorial.md"]
PAGES = [ROOT / "README.md", *PAGES]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run(page, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(page.read_text())
    module = types.ModuleType(f"example_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in blocks:
        # The examples are the project's own files, executed as a reader would type them.
        exec(compile(block, str(page), "exec"), vars(module))
    if page.name == "README.md":
        assert blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_studies_and_references_are_understood(page):
    for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        if "[[rows]]" in block:
            assert parse_reference(block).rows
        else:
            assert len(expand(parse(block))) > 0


def test_the_readmes_example_is_short():
    (block,) = BLOCK.findall((ROOT / "README.md").read_text())
    assert len(block.splitlines()) <= 15


def test_the_site_builds_without_a_warning(tmp_path):
    arguments = ["-W", "--keep-going", "-q", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()
    described = inventory(tmp_path / "objects.inv")
    for room in ("mirrorax", "mirrorax.analysis", "mirrorax.regularizers", "mirrorax.tabular"):
        module = importlib.import_module(room)
        for name in set(module.__all__) - {"__version__"}:
            value = getattr(module, name)
            full = f"{value.__module__}.{value.__qualname__}"
            assert full in described, f"{room}.{name} is not in the API reference"


def inventory(path):
    """Return the names that a built site describes, from the file other sites link by."""
    *_, packed = path.read_bytes().split(b"\n", 4)
    lines = zlib.decompress(packed).decode().splitlines()
    return {line.split()[0] for line in lines if " py:" in line}
