"""Which runs are those of a panel of the paper, and how panels are cut to be compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from paper_worlds import as_the_paper_says, world

from mirrorax.paper import (
    catalogue,
)
from mirrorax.paper.panels import Panel
from mirrorax.paper.runs import ReadingRuns, alike, sizes
from mirrorax.spec.study import parse


def test_finer_strips_of_one_environment_do_not_make_holes_in_the_maps(faithful):
    found = ReadingRuns(faithful).find(Panel("baseline"))
    assert found.landscape.alphas.shape == found.landscape.lams.shape == (8,)
    assert found.given.all()
    assert found.size == "reduced: 8 x 8 of 29 x 29 cells, 2 of 5 seeds"
    assert found.runs == 8 * 8 * 4 * 2


def test_a_few_cells_beside_the_nested_grid_are_counted_and_left_out():
    rng = np.random.default_rng(7)
    study = catalogue.make(["baseline"], "reduced")
    finer = parse(
        study.text.replace("0.1, 2.5, 25.0", "0.1, 5.0, 25.0").replace(
            "0.004, 0.008, 0.03", "0.005"
        )
    )
    table = pa.concat_tables([world(each, as_the_paper_says, rng) for each in (study, finer)])
    ids = table["run_id"].to_pylist()
    table = table.take([ids.index(name) for name in dict.fromkeys(ids)])
    found = ReadingRuns(table).find(Panel("baseline"))
    assert found.given.shape == (8, 8)
    # 6 x 8 cells more, of which 5 x 7 are those of the nested grid
    assert found.size == "reduced: 8 x 8 of 29 x 29 cells (13 further cells left out), 2 of 5 seeds"
    # Beside a panel without such cells the size is said once.
    plain = replace(found, beyond=0)
    assert sizes([plain, found]) == found.size
    assert sizes([plain, plain]) == "reduced: 8 x 8 of 29 x 29 cells, 2 of 5 seeds"


def test_runs_with_other_settings_are_not_taken_for_the_papers(faithful):
    index = faithful.column_names.index("batch_size")
    other = faithful.set_column(index, "batch_size", pa.array([64] * len(faithful), pa.int64()))
    assert ReadingRuns(other).find(Panel("baseline")) is None


@pytest.mark.parametrize(
    ("name", "value"), [("gamma", 0.5), ("actor_lr", 0.1), ("algorithm_version", 99)]
)
def test_numbers_of_a_run_tell_the_papers_from_others_too(faithful, name, value):
    index = faithful.column_names.index(name)
    column = pa.array([value] * len(faithful), faithful.schema.field(name).type)
    other = ReadingRuns(faithful.set_column(index, name, column))
    assert other.find(Panel("baseline")) is None
    assert other.count == 0
    assert {tuple(other.lacks(item)) for item in other.items} == {(name,)}


def test_panels_to_compare_are_cut_to_the_cells_and_seeds_they_share(faithful):
    rng = np.random.default_rng(8)
    finer = world(catalogue.make(["baseline"], "reduced", grid=15, seeds=3), as_the_paper_says, rng)
    schedules = faithful.filter(pc.equal(faithful["lam_schedule"], "linear"))
    runs = ReadingRuns(pa.concat_tables([finer, schedules]))
    panels = [
        Panel("c", schedules=("constant", "constant")),
        Panel("l", schedules=("constant", "linear")),
    ]
    first, second = runs.find_all(panels)
    assert (first.given.shape, first.seeds) == ((15, 15), (3, 3))
    cut, same = alike((first, second))
    for each in (cut, same):
        assert (each.given.shape, each.seeds) == ((8, 8), (2, 2))
        assert each.given.all()
    assert cut.beyond == 15 * 15 - 64
    # What is left are the runs of that grid and of seeds 0 and 1, cell by cell.
    at = np.searchsorted(first.landscape.alphas, cut.landscape.alphas)
    to = np.searchsorted(first.landscape.lams, cut.landscape.lams)
    np.testing.assert_array_equal(
        cut.landscape.runs(), first.landscape.runs()[np.ix_(at, to)][..., :2]
    )
    np.testing.assert_array_equal(same.landscape.runs(), second.landscape.runs())
