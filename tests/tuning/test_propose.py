"""The proposals of a search on made-up surfaces: numpy alone."""

import math

import numpy as np
import pytest

from mirrorax.runs.settings import make_settings
from mirrorax.tuning import surrogate
from mirrorax.tuning.propose import (
    Record,
    Trial,
    best_cells,
    most_telling,
    near_random,
    search,
    spread,
)
from mirrorax.tuning.space import Cell, Range, Run, Specification, plan_budget

ALPHA = Range("alpha", 1e-4, 1.0, limits=(1e-8, 1e3))
LAM = Range("lam", 1e-3, 1e3, limits=(1e-8, 1e6))


def make(budget=32, arms=1, **more):
    more = {"ranges": (ALPHA, LAM), "random": 0.0, "best": 1.0, **more}
    settings = make_settings(environment="Catch")
    return Specification(budget=plan_budget(budget), arms=(settings,) * arms, **more)


def bump(alpha, lam, width=0.6):
    """A region of cells that work, around a place in decades."""

    def score(run):
        x = np.log10(run.cell.values) - (alpha, lam)
        chance = np.exp(-0.5 * (x**2).sum() / width**2)
        draws = np.random.default_rng([run.seed, *(round(1e3 * (9 + v)) for v in x)])
        return float(draws.random() < chance)

    score.truth = lambda cell: float(
        np.exp(-0.5 * ((np.log10(cell.values) - (alpha, lam)) ** 2).sum() / width**2)
    )
    return score


def drive(spec, score, found=None):
    """Run a search to its end; return what it found and all batches."""
    proposals = search(spec, found)
    batches = [next(proposals)]
    try:
        while True:
            batches.append(proposals.send([score(run) for run in batches[-1]]))
    except StopIteration as end:
        return end.value, batches


def test_a_search_is_a_function_of_its_scores():
    spec, score = make(48, seed=3), bump(-2, 1)
    first, second = drive(spec, score), drive(spec, score)
    assert first[1] == second[1]
    assert first[0].best == second[0].best
    other = drive(make(48, seed=4), score)
    assert other[1][0] != first[1][0]


def test_finished_runs_are_all_that_a_search_needs_to_go_on():
    """Whatever was done before an interruption is looked up, and nothing is done twice."""
    spec, score = make(40), bump(-1, 0)
    whole, batches = drive(spec, score)
    store, done = {}, []
    for stop_after in (1, 3, 100):
        proposals, count = search(spec), 0
        try:
            batch = next(proposals)
            while count < stop_after:
                for run in batch:
                    if run not in store:
                        store[run] = score(run)
                        done.append(run)
                batch = proposals.send([store[run] for run in batch])
                count += 1
        except StopIteration as end:
            result = end.value
    assert result.best == whole.best
    assert sorted(map(str, done)) == sorted(str(run) for batch in batches for run in batch)


def test_a_budget_is_kept_and_no_run_is_asked_for_twice():
    for budget in (32, 45, 128):
        found, batches = drive(make(budget), bump(-2, 0))
        runs = [run for batch in batches for run in batch]
        assert found.spent == len(runs) <= budget
        assert len(set(runs)) == len(runs)


def test_the_first_batch_holds_the_starts_and_covers_the_range():
    start = Cell(0, (0.01, 0.1))
    _, batches = drive(make(128, starts=(start,)), bump(-2, 0))
    assert batches[0][0] == Run(start, 0)
    places = np.log10([run.cell.values for run in batches[0]])
    for axis, (low, high) in enumerate(((-4, 0), (-3, 3))):
        third = (high - low) / 3
        counts = np.histogram(places[:, axis], bins=[low, low + third, high - third, high])[0]
        assert counts.min() >= 2  # an outer third has 26% of the spread, eleven cells here


def test_a_spread_has_no_large_hole_and_is_denser_in_the_middle():
    cells = spread(make(), (ALPHA, LAM), 0, 64)
    unit = (np.log10([c.values for c in cells]) - (-4, -3)) / (4, 6)
    # The share of a Beta(2, 2) variable below u is 3 u^2 - 2 u^3.
    level = 3 * unit**2 - 2 * unit**3
    grid = np.stack(np.meshgrid(*[np.linspace(0.05, 0.95, 19)] * 2), axis=-1).reshape(-1, 2)
    hole = np.abs(grid[:, None] - level[None]).max(axis=-1).min(axis=1).max()
    assert hole < 0.13  # a grid of 8 x 8 has holes of 0.0625; random points of 0.2
    assert (np.abs(unit - 0.5) < 0.25).mean() > 0.6
    assert spread(make(), (ALPHA, LAM), 10, 5) == cells[10:15]


def test_a_run_is_most_telling_where_its_score_could_change_the_choice():
    """By hand: two tried cells far apart, of which one has a score of 1 and 20 runs."""
    sure, doubtful = Cell(0, (1e-4, 1e-3)), Cell(0, (1.0, 1e3))
    record = Record(ranges=(ALPHA, LAM))
    runs = [(sure, 0.9)] * 20 + [(doubtful, 1.0)]
    record.batches.append([Trial(Run(c, i), s) for i, (c, s) in enumerate(runs)])
    cells = most_telling(make(), record, 6)
    assert sure not in cells
    assert len(set(cells)) > 1
    assert most_telling(make(), record, 6) == cells


@pytest.mark.parametrize("place", [(-1, 2), (-3, -2), (-2, 0)])
def test_it_finds_a_small_region_more_often_than_random_search(place):
    """A region of 0.4 decades in each direction: 4% of the range."""
    score = bump(*place, width=0.4)
    tuned, random = [], []
    for seed in range(8):
        spec = make(64, seed=seed)
        found, _ = drive(spec, score)
        tuned.append(score.truth(found.best.cell))
        rng = np.random.default_rng([5, seed])
        runs = [
            Run(Cell(0, (10 ** rng.uniform(-4, 0), 10 ** rng.uniform(-3, 3))), i)
            for i in range(spec.budget.search)
        ]
        random.append(score.truth(max(runs, key=score).cell))
    assert np.mean(tuned) >= np.mean(random) - 0.02
    assert np.median(tuned) > 0.5


def test_the_range_grows_towards_a_best_cell_at_its_edge():
    score = bump(-5.5, 0, width=1.0)  # outside of [1e-4, 1]
    found, _ = drive(make(128), score)
    assert found.ranges[0].low < 1e-4
    assert score.truth(found.best.cell) > 0.6


def test_the_range_grows_while_nothing_is_better_than_random():
    found, _ = drive(make(64), lambda run: 0.01)
    assert found.ranges[0].low < ALPHA.low
    assert found.ranges[0].high > ALPHA.high
    assert found.ranges[1].high <= 1e6
    places = np.log10([t.run.cell.values[0] for t in found.trials[:24]])
    assert ((places >= -4) & (places <= 0)).all()  # not before it has been looked at
    fixed = (Range("alpha", 1e-4, 1.0), Range("lam", 1e-3, 1e3))
    assert drive(make(64, ranges=fixed), lambda run: 0.01)[0].ranges == fixed


def test_what_is_near_random():
    spec = make(random=0.256, best=1.0)
    assert near_random(spec, 0.28)
    assert not near_random(spec, 0.5)
    assert not near_random(make(random=None), 0.0)


def test_static_choices_are_searched_with_the_values():
    """Of three arms one works, and every arm is tried."""

    def score(run):
        return bump(-2, 0, width=1.0)(run) if run.cell.arm == 2 else 0.05

    found, batches = drive(make(96, arms=3), score)
    assert found.best.cell.arm == 2
    tried = [run.cell.arm for run in batches[0]]
    assert min(tried.count(arm) for arm in range(3)) >= 3
    late = [t.run.cell.arm for t in found.trials[len(found.trials) // 2 :]]
    assert late.count(2) > len(late) / 2


def test_other_values_than_temperatures():
    ranges = (LAM, Range("gamma", 0.9, 0.999, scale="complement"), Range("w", 0, 1, scale="linear"))
    found, batches = drive(make(64, ranges=ranges), lambda run: 0.5 + run.cell.values[1] / 10)
    for run in batches[0]:
        lam, gamma, w = run.cell.values
        assert 1e-3 <= lam <= 1e3
        assert 0.9 <= gamma <= 0.999
        assert 0 <= w <= 1
    assert len(found.neighbours) >= 5


def test_runs_that_diverge_are_the_worst_and_never_the_choice():
    def score(run):
        return math.nan if run.cell.values[1] < 1 else 0.3 + 0.1 * np.log10(run.cell.values[1])

    found, _ = drive(make(64), score)
    assert found.best.diverged == 0
    assert found.best.cell.values[1] > 10
    lost, _ = drive(make(32), lambda run: math.nan)
    assert lost.best.diverged == len(lost.best.scores)


def test_one_lucky_run_does_not_make_a_cell_the_best():
    spec, found = make(), Record(ranges=(ALPHA, LAM))
    lucky = Cell(0, (1e-4, 1e-3))
    good = [Cell(0, (0.1 * 10 ** (0.1 * i), 10.0)) for i in range(8)]
    rest = [Cell(0, (1e-4 * 10 ** (0.1 * i), 1.5e-3)) for i in range(1, 9)]
    batch = [Trial(Run(lucky, 0), 1.0)]
    batch += [Trial(Run(cell, 0), 0.9) for cell in good] + [
        Trial(Run(cell, 0), 0.0) for cell in rest
    ]
    found.batches.append(batch)
    assert best_cells(spec, found, 1)[0] in good


def test_the_surrogate_predicts_a_smooth_surface_and_knows_where_it_does_not():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (60, 2))
    arm = np.zeros(60, int)
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + 0.05 * rng.standard_normal(60)
    model = surrogate.fit(x, arm, y)
    at = rng.uniform(-1.8, 1.8, (50, 2))
    mean, covariance = model.predict(at, np.zeros(50, int))
    error = mean - (np.sin(at[:, 0]) + 0.5 * at[:, 1])
    assert np.sqrt((error**2).mean()) < 0.1
    far = model.predict(np.array([[9.0, 9.0]]), np.zeros(1, int))[1]
    assert far[0, 0] > 10 * covariance[0, 0]
    # A second arm of which nothing is known is less certain, too.
    other = model.predict(at[:1], np.ones(1, int))[1]
    assert other[0, 0] > 2 * covariance[0, 0]


def test_repeated_runs_count_as_one_place_with_less_noise():
    x = np.array([[0.0], [0.0], [0.0], [1.0]])
    y = np.array([0.0, 1.0, 0.5, 2.0])
    model = surrogate.fit(x, np.zeros(4, int), y)
    assert len(model.x) == 2
