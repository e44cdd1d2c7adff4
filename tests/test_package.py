"""The package as a whole: what importing costs, what is public, what the repository says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mirrorax

ROOT = Path(__file__).parent.parent


def test_importing_it_imports_nothing_heavy():
    code = "import sys, mirrorax; print(sorted({'jax', 'numpy', 'gymnax'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    for name in mirrorax.__all__:
        value = getattr(mirrorax, name)
        if name != "__version__":
            assert inspect.getdoc(value), f"mirrorax.{name} has no documentation"
    assert set(mirrorax.__all__) <= set(dir(mirrorax))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mirrorax.nothing


def tracked():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_the_repository_names_no_machine_and_no_package_index():
    forbidden = re.compile(r"/(?:work|root|home)/|--(?:extra-)?index-url|files\.pythonhosted")
    for path in tracked():
        if path == Path(__file__):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        found = forbidden.search(text)
        assert found is None, f"{path.relative_to(ROOT)}: {found[0]}"


def test_the_version_is_written_once():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (Unreleased|\d)", changelog, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {mirrorax.__version__}" in citation
