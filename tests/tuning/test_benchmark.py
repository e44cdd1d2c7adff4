"""The benchmark of searches: its measures on made-up tasks, and its tables in the docs."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirrorax.tuning.space import Cell, Run
from mirrorax.tuning.task import prepare

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def benchmark():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        return importlib.import_module("tune")


def test_the_tables_of_the_page_are_those_of_the_published_searches(benchmark):
    paths = [ROOT / path for path in (benchmark.PAGE, benchmark.SEARCHES, benchmark.SIMULATIONS)]
    assert benchmark.write_tables(*paths) == paths[0].read_text(encoding="utf-8")


def test_the_tutorials_search_finds_good_cells(benchmark):
    """With each of ten seeds a cell at 0.9 or more; random play has 0.256."""
    rows = [r for r in benchmark.read_lines(ROOT / benchmark.SEARCHES) if "task" in r]
    lines = benchmark.tutorial_table(rows)
    scores = [float(line.split("|")[2]) for line in lines[2:]]
    assert len(scores) == 10
    assert min(scores) >= 0.9


def test_a_simulated_run_is_between_the_published_ones(benchmark):
    """At a cell of the grid it is one of its seeds; the mean is linear in the logarithms."""
    runs = np.array([[[0.0, 1.0], [0.5, 0.5]], [[0.2, 0.6], [1.0, 1.0]]])
    axis = np.array([0.01, 1.0])
    item = benchmark.tune_landscapes.Simulated("made up", "Catch", axis, axis, runs)
    corner = [item.score(Run(Cell(0, (0.01, 0.01)), seed)) for seed in range(200)]
    assert set(corner) == {0.0, 1.0}
    assert 0.4 < np.mean(corner) < 0.6
    assert item.mean(Cell(0, (0.1, 0.01))) == pytest.approx((0.5 + 0.4) / 2)
    assert item.mean(Cell(0, (1e-9, 100.0))) == pytest.approx(0.5)  # the nearest cell
    assert item.best == 1.0


def test_a_search_that_stands_in_the_file_is_not_made_again(benchmark, tmp_path):
    file = tmp_path / "searches.jsonl"
    file.write_text('{"task": "Bridge", "seed": 0}\n{"task": "Bri')
    assert benchmark.read_lines(file) == [{"task": "Bridge", "seed": 0}]
    assert benchmark.read_lines(tmp_path / "none.jsonl") == []


def test_needed_runs_are_those_before_the_first_good_choice(benchmark):
    row = {"looks": {"1": 0.2, "4": 0.95, "8": 0.5, "19": 0.96}, "searched": 19}
    assert benchmark.runs_needed(row, 0.9) == 4
    assert benchmark.runs_needed(row, 0.955) == 19
    assert benchmark.runs_needed(row, 0.99) == 38


@pytest.mark.parametrize("method", ["default", "random", "tune"])
def test_every_method_has_the_same_runs_and_its_choice_is_one_of_its_cells(benchmark, method):
    spec = replace(prepare("Catch", budget=32), random=0.0, best=1.0)
    made = []

    def score(runs):
        made.extend(runs)
        return [1 - 0.1 * abs(np.log10(run.cell.values[0]) + 2) for run in runs]

    found = benchmark.play(method, spec, score)
    searched = 0 if method == "default" else spec.budget.search
    chosen = 0 if method == "default" else spec.budget.candidates * spec.budget.candidate_seeds
    assert len(made) == searched + chosen
    assert found["choice"] in [run.cell for run in made] + [spec.starts[0]]
    assert max(found["choices"]) == found["trials"]
    # No run of a search is one of the held-out ones.
    held = range(benchmark.HELD_SEEDS, benchmark.HELD_SEEDS + benchmark.HELD)
    assert not {run.seed for run in made} & set(held)
