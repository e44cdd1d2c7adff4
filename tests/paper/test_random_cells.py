"""Values of Table 1 from random cells: bounds that hold, cells that end early, the verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from paper_worlds import EACH64, world

from mirrorax.cli import main
from mirrorax.paper import claims_on_pairs
from mirrorax.paper.axes import PAIRS, SUITE
from mirrorax.paper.matrix import judge_all
from mirrorax.paper.panels import Panel
from mirrorax.paper.random_cells import (
    COUNT,
    LARGEST,
    RandomCells,
    cells,
    mean_within,
    next_runs,
    random_cells,
)
from mirrorax.paper.runs import ReadingRuns
from mirrorax.paper.table_1 import printed_rbst
from mirrorax.runs.results import as_results
from mirrorax.spec.study import expand
from mirrorax.store.exporting import add, import_runs
from mirrorax.store.store import Store


def everywhere(score):
    return lambda settings, alpha, lam, scale: np.full(alpha.shape, score)


def played_out(score, seed=0):
    """Run what is asked for, round by round, in a made-up world; return the runs and rounds."""
    tables, runs, rng = [], None, np.random.default_rng(seed)
    while study := next_runs(runs, EACH64):
        tables.append(world(study, score, rng))
        runs = ReadingRuns(pa.concat_tables(tables), EACH64)
    return runs, tables


def judged(runs):
    return claims_on_pairs.values(runs, np.random.default_rng(0))


def test_the_bounds_are_those_of_a_share_where_nothing_or_everything_was_seen():
    # P(no success in n) = (1 - m)^n
    for n in (10, 100):
        nothing, everything = mean_within(np.zeros(n)), mean_within(np.ones(n))
        assert nothing.low == 0
        assert nothing.high == pytest.approx(1 - 0.025 ** (1 / n))
        assert everything.high == 1
        assert everything.low == pytest.approx(0.025 ** (1 / n))


@pytest.mark.parametrize("good", [0, 8, 80, 400])
def test_the_bounds_hold_for_cells_of_one_grid(good):
    rng = np.random.default_rng(good)
    grid = np.zeros(784)
    grid[:good] = rng.uniform(0, 1, good) ** 0.5
    held = [grid.mean() in mean_within(rng.choice(grid, COUNT, replace=False)) for _ in range(1000)]
    assert np.mean(held) >= 0.95


def test_cells_that_end_early_contribute_what_they_would_have():
    rng = np.random.default_rng(1)
    whole = np.clip(rng.normal(0.9, 0.1, (COUNT, 4, 5)) - rng.choice([0, 0.6], (COUNT, 4, 1)), 0, 1)
    none = np.zeros(0, int)  # rows of a table
    seen = RandomCells(np.where(np.arange(4)[:, None] < 1, whole, np.nan), none)
    while not seen.complete:
        scores = seen.scores.copy()
        for k, name in enumerate(seen.upcoming):
            if name is not None:
                scores[k, SUITE.index(name)] = whole[k, SUITE.index(name)]
        seen = RandomCells(scores, none)
    np.testing.assert_allclose(seen.contributions, RandomCells(whole, none).contributions)
    assert 0 < seen.value < 1
    assert np.isfinite(seen.scores).sum() < whole.size


def test_a_failing_world_needs_one_environment_a_good_one_all():
    for score, rounds in ((0.2, 1), (0.99, 4)):
        runs, tables = played_out(everywhere(score))
        assert len(tables) == rounds
        assert sum(map(len, tables)) == rounds * len(LARGEST) * COUNT * 5
        for each in random_cells(runs).values():
            assert each.value == pytest.approx(0.9 * (score > 0.9), abs=0.01)


def test_values_far_below_the_papers_are_excluded_without_the_whole_grid():
    claim = judged(played_out(everywhere(0.2))[0])
    assert claim.verdict == "not reproduced"
    assert claim.key == "0/4"
    assert f"{COUNT} random cells with 5 seeds of A B C D" in claim.note


def test_values_like_the_papers_are_not_excluded_and_not_taken_for_proof():
    share = {PAIRS[label]: value for label, value in printed_rbst(0.9).items()}

    def as_printed(settings, alpha, lam, scale):
        good = cells()[: round(COUNT * share[settings.potential, settings.drift])]
        return [1.0 if cell in good else 0.2 for cell in zip(alpha, lam, strict=True)]

    claim = judged(played_out(as_printed)[0])
    assert claim.verdict == "not decided"
    assert claim.key == "4/4"


def test_cells_that_are_not_finished_say_nothing():
    first = world(next_runs(None, EACH64), everywhere(0.99), np.random.default_rng(0))
    runs = ReadingRuns(first, EACH64)
    assert not random_cells(runs)
    assert judged(runs).verdict == "not decided"


def test_the_cells_are_fixed_and_positive():
    assert len(set(cells())) == COUNT
    assert min(min(cell) for cell in cells()) > 0
    ids = expand(next_runs(None, EACH64)).ids
    assert len(ids) == len(set(ids)) == len(LARGEST) * COUNT * 5


def test_cells_that_did_well_are_not_taken_for_a_grid():
    """Only these are trained in every environment; the region they make up is arbitrary."""
    good = cells()[::3]

    def every_third(settings, alpha, lam, scale):
        return [0.97 if cell in good else 0.2 for cell in zip(alpha, lam, strict=True)]

    runs, _ = played_out(every_third)
    assert all(each.value > 0.2 for each in random_cells(runs).values())
    assert runs.on_grid(Panel("C", PAIRS["C"])) is None
    claims = judge_all({"each64_all": runs}, 0).claims["each64_all"]
    assert {each.number for each in claims if each.runs} == {"1a"}
    assert claims[0].runs == len(runs.table)


@pytest.fixture
def random_of(tmp_path, monkeypatch):
    """Run the command with a made-up study function; return its exit code and what was run."""
    from mirrorax.cli import sweep

    def run(run_study):
        rounds = []

        def counted(study, args):
            rounds.append(len(expand(study)))
            return run_study(study, args)

        monkeypatch.setattr(sweep, "run_study", counted)
        line = ["paper", "run", "random", "--reading", "each64_all", "--store"]
        return main([*line, str(tmp_path / "s")]), rounds

    return run


def add_all(score, code=0):
    def run_study(study, args):
        table = world(study, everywhere(score), np.random.default_rng(0))
        with Store(args.store) as store:
            add(store, as_results(table))
        return code

    return run_study


def test_the_command_runs_round_after_round(random_of):
    first = len(LARGEST) * COUNT * 5
    assert random_of(add_all(0.2)) == (0, [first])
    assert random_of(add_all(0.2)) == (0, [])  # nothing is left to do


def test_the_command_goes_on_after_a_failed_run_and_ends_where_nothing_moves(random_of, capsys):
    code, rounds = random_of(lambda study, args: 1)
    assert (code, len(rounds)) == (1, 1)
    assert "--retry-failed" in capsys.readouterr().err
    code, rounds = random_of(add_all(0.99, code=1))
    assert (code, len(rounds)) == (1, 4)


def test_the_command_refuses_runs_of_an_older_algorithm(random_of, tmp_path, capsys):
    published = Path(__file__).parents[2] / "results" / "paper" / "each64_all"
    import_runs(tmp_path / "s", published / "best.parquet")
    assert random_of(add_all(0.2)) == (2, [])
    assert "of version 2 of the algorithm" in capsys.readouterr().err
