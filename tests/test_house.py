"""CONTRIBUTING.md is true: its drawing of the rooms and its walks through the files."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
#: A walk may become shorter, not longer.
LIMITS = {"train": 25, "study": 33}
STUDY = """
environments = ["Catch"]
pairs = [["entropy", "kl"]]
alpha = [0.01, 0.1]
lam = [0.1, 1.0]
seeds = 1
steps = 8192
"""
HEAT_MAP = """
import matplotlib
matplotlib.use("agg")
from mirrorax.analysis import landscapes
from mirrorax.figures.heatmap import draw_heat_map, heat_map
from mirrorax.figures.style import COLUMN, new, save, style
from mirrorax.store import read_results
with style():
    figure, ax = new(COLUMN)
    draw_heat_map(heat_map(landscapes(read_results("store"))[0]), ax)
    save(figure, "map", ["png"])
"""


def between(name: str, end: str) -> str:
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- {end} -->", TEXT, re.DOTALL)[1]


def test_the_drawing_shows_the_rooms_and_their_order():
    (layers,) = (
        contract["layers"]
        for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
            "importlinter"
        ]["contracts"]
        if contract["type"] == "layers"
    )
    contract = [layer.replace("mirrorax.", "").split(" | ") for layer in layers]
    drawing = [
        re.split(r"\s{2,}", line.strip())[0].split(" | ")
        for line in between("rooms", "end of rooms").splitlines()
        if re.match(r"    \S", line)
    ]
    assert drawing == contract
    rooms = {
        path.name.removesuffix(".py")
        for path in (ROOT / "src/mirrorax").iterdir()
        if path.is_dir() or path.suffix == ".py"
    }
    small = {"__init__", "__main__", "__pycache__", "formatting", "files"}
    assert {room for layer in contract for room in layer} == rooms - small


def test_changes_go_to_files_that_are_there():
    named = re.findall(r"`([\w/]+(?:\.(?:py|md|js)|/))`", between("changes", "end of changes"))
    assert len(named) > 30
    homes = (ROOT, ROOT / "src/mirrorax")
    assert not [name for name in named if not any((home / name).exists() for home in homes)]


def run(target: Path, folder: Path, *command: str) -> None:
    path = os.pathsep.join((str(ROOT / "tests/support/walk"), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "WALK": str(target), "PYTHONPATH": path}
    subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, check=True, capture_output=True
    )


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_passes_through_the_files_that_it_names(name, tmp_path):
    target = tmp_path / "files"
    # Not -m: what runs below a module of the package does not count, such as a worker.
    mirrorax = ("-c", "import sys; from mirrorax.cli import main; sys.exit(main(sys.argv[1:]))")
    if name == "train":
        run(target, tmp_path, *mirrorax, "train", "--env", "Catch", "--steps", "8192")
    else:
        (tmp_path / "study.toml").write_text(STUDY)
        sweep = ("sweep", "run", "study.toml", "--store", "store", "--workers", "1", "--quiet")
        run(target, tmp_path, *mirrorax, *sweep)
        run(target, tmp_path, "-c", HEAT_MAP)
    files = list(dict.fromkeys(target.read_text().split()))
    listed = re.findall(r"`([\w/]+\.py)`", between(f"walk {name}", "end of walk"))
    # It writes the sizes of a program to the cache, where the cache does not have them.
    sometimes = {"files.py"}
    assert set(files) ^ set(listed) <= sometimes, " ".join(f"`{file}`" for file in files)
    assert len(files) <= LIMITS[name]


def test_a_file_has_at_most_400_lines():
    lengths = {p: len(p.read_text().splitlines()) for p in (ROOT / "src").rglob("*.py")}
    assert not {str(path): length for path, length in lengths.items() if length > 400}
