"""The paper's studies: the appendix's grids, the number of runs, nested smaller forms."""

from __future__ import annotations

import pytest

from mirrorax.errors import UserError
from mirrorax.paper import catalogue
from mirrorax.spec.study import expand, parse

# Appendix C, typed from the paper: steps of 0.001, 0.01 and 0.1; the drift's values one by one.
ALPHAS = tuple(
    round(k * unit, 3)
    for unit, last in ((0.001, 9), (0.01, 9), (0.1, 10))
    for k in range(1, last + 1)
)
LAMS = (
    *(5e-5, 7.5e-5, 1e-4, 2.5e-4, 5e-4, 7.5e-4, 1e-3, 5e-3, 1e-2),
    *(2.5e-2, 5e-2, 1e-1, 2.5e-1, 5e-1, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(25.0, 50.0, 1e2, 5e2, 1e3, 2.5e3, 5e3, 1e4, 5e4),
)


def test_every_study_has_the_grids_of_the_appendix_and_five_seeds():
    for entry in catalogue.ENTRIES:
        for block in entry.study().blocks:
            assert block.alpha == (0.0, *ALPHAS)
            assert block.lam == (0.0, *LAMS)
            assert len(block.alpha) == len(block.lam) == 29
            assert block.w in ((), block.alpha)
            assert block.seeds == (0, 1, 2, 3, 4)


def test_the_total_is_the_papers():
    """120 environments and algorithms of 841 cells and 5 seeds each, none of them twice."""
    assert sum(entry.runs for entry in catalogue.ENTRIES) == 120 * 4205 == 504_600
    assert len(expand(catalogue.make(scale="full"))) == 504_600


def test_numbers_of_runs_follow_from_the_papers_counts():
    cell = 4205
    suite = 4
    wanted = {
        "baseline": suite,
        "catch": 2,
        "apmd": suite,
        "pairs": 10 * suite,
        "forward_kl": suite,
        "schedules": 14 * suite,
        "cartpole": 10,
    }
    assert {entry.name: entry.runs for entry in catalogue.ENTRIES} == {
        name: count * cell for name, count in wanted.items()
    }


def test_the_rescaled_maximum_returns():
    ((name, scales),) = catalogue.entry("cartpole").study().blocks[0].environments
    assert name == "CartPole"
    assert [round(500 * scale) for scale in scales] == [
        1000,
        750,
        400,
        333,
        300,
        200,
        143,
        100,
        50,
        5,
    ]


def test_what_is_done_counts_towards_every_larger_study():
    def ids(grid, seeds):
        names = ["baseline", "catch", "cartpole"]
        return set(expand(catalogue.make(names, "reduced", grid=grid, seeds=seeds)).ids)

    full = set(expand(catalogue.make(["baseline", "catch", "cartpole"], "full")).ids)
    assert ids(8, 1) < ids(8, 2) < ids(15, 2) < ids(15, 3) < ids(29, 3) < ids(29, 5) == full


def test_sizes_of_the_reduced_studies():
    count = lambda names: len(expand(catalogue.make(names, "reduced")))  # noqa: E731
    assert count(["baseline", "pairs"]) == 11 * 4 * 8 * 8 * 2 == 5632
    # Eleven CartPoles: 29 x 3 cells and 3 x 29 cells share 3 x 3.
    assert count(["cartpole"]) == 11 * (2 * 29 * 3 - 9) * 2
    assert "the strips of Figure 4, 2 seeds" in catalogue.make(["cartpole"], "reduced").name
    assert count(["schedules"]) == 2 * 7 * 4 * 64 * 2


def test_the_demonstration_is_small_has_two_pairs_and_says_what_it_is():
    study = catalogue.make(scale="demo")
    (block,) = study.blocks
    assert len(block.pairs) == 2
    assert len(expand(study)) <= 400
    assert "demonstration" in study.name
    assert set(block.alpha) <= {0.0, *ALPHAS}
    assert set(block.lam) <= {0.0, *LAMS}


def test_a_reduced_grid_takes_every_fourth_value():
    block = catalogue.make(["schedules"], "reduced").blocks[0]
    assert block.alpha == block.w == (0.0, 0.004, 0.008, 0.03, 0.07, 0.2, 0.6, 1.0)
    assert block.lam == (0.0, 2.5e-4, 5e-3, 0.1, 2.5, 25.0, 1e3, 5e4)


@pytest.mark.parametrize("entry", catalogue.ENTRIES, ids=lambda entry: entry.name)
def test_a_study_written_down_is_read_back(entry):
    study = entry.study()
    again = parse(catalogue.to_toml('x"y', study.blocks, "two\nlines"))
    assert again.blocks == study.blocks
    assert again.name == 'x"y'


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"names": ["baselin"]}, "study"),
        ({"scale": "half"}, "scale"),
        ({"scale": "reduced", "grid": 9}, "grid: 9"),
        ({"scale": "full", "grid": 8}, "grid: 8"),
        ({"scale": "reduced", "seeds": 6}, "seeds: 6"),
        ({"scale": "demo", "seeds": 1}, "demo"),
        ({"scale": "demo", "seeds": 0}, "demo"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(UserError, match=message):
        catalogue.make(**arguments)
