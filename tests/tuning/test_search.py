"""The search, with a stand-in that trains at once on a landscape whose best place is known."""

from __future__ import annotations

import builtins
import json
import random
import sys

import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.tuning import space
from mirrorax.tuning.cells import CheckedCell, SearchBatch, at_full_length, best_cells
from mirrorax.tuning.journal import import_optuna, open_journal
from mirrorax.tuning.search import CANDIDATE_SEEDS, CHECK_SEEDS, Search
from mirrorax.tuning.space import batch_cost, log_axis, plan_budget, rung_updates, w_axis

BEST = {"alpha": 0.03, "lam": 2.0}
AXES = (log_axis("alpha", (0.001, 1.0)), log_axis("lam", (0.01, 100.0)))


class Landscape:
    """A round hill in decades; a run's score is the hill, its progress and its seed's noise."""

    def __init__(self, lanes=16, updates=40, noise=0.02, stop_after=None):
        self.lanes, self.updates, self.noise = lanes, updates, noise
        self.stop_after, self.calls, self.trained = stop_after, 0, []

    def hill(self, cell):
        apart = sum(np.log10(cell[name] / best) ** 2 for name, best in BEST.items())
        return float(np.exp(-apart))

    def start(self, cells, seeds):
        assert 1 <= len(cells) <= self.lanes
        return Running(self, list(zip(cells, seeds, strict=True)))


class Running:
    def __init__(self, landscape, runs, done=0):
        self.landscape, self.runs, self.done = landscape, runs, done

    def train(self, until):
        land = self.landscape
        land.calls += 1
        if land.stop_after is not None and land.calls > land.stop_after:
            raise KeyboardInterrupt
        land.trained += [(cell["alpha"], cell["lam"], s, self.done, until) for cell, s in self.runs]
        self.done = until
        share = until / land.updates
        return np.array([share * land.hill(c) + self._noise(c, s) for c, s in self.runs])

    def _noise(self, cell, seed):
        rng = np.random.default_rng([seed, *np.frombuffer(str(cell).encode(), "u1")])
        return self.landscape.noise * rng.standard_normal()

    def keep(self, rows):
        return Running(self.landscape, [self.runs[row] for row in rows], self.done)


def run(trainer, folder=None, budget=64, seed=0, **more):
    arguments = {"budget": budget, "seed": seed}
    with open_journal(folder) as storage:
        return Search(
            trainer, AXES, plan_budget(budget), storage, arguments=arguments, seed=seed, **more
        ).run()


def plain(found):
    return (found.batches, found.candidates, found.best, found.neighbours, found.spent)


def test_it_finds_the_hill_within_its_budget():
    trainer = Landscape()
    found = run(trainer, budget=128)
    assert np.hypot(*(np.log10(found.best.cell[n] / b) for n, b in BEST.items())) < 0.35
    assert found.best.mean > 0.9
    # What was spent is what was trained, in runs of full length, and no more than allowed.
    assert found.spent == pytest.approx(sum(b - a for *_, a, b in trainer.trained) / 40)
    assert 0.8 * 128 < found.spent <= 128


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_few_lanes_search_too_in_smaller_batches(lanes):
    trainer = Landscape(lanes=lanes)
    found = run(trainer, budget=64)
    assert {len(batch.cells) for batch in found.batches} == {lanes}
    assert found.spent == pytest.approx(sum(b - a for *_, a, b in trainer.trained) / 40)
    assert 0.8 * 64 < found.spent <= 64
    assert found.best.mean > 0.8


def test_the_worse_half_of_a_batch_is_stopped_at_each_rung():
    trainer = Landscape(noise=0.0)
    found = run(trainer)
    batch = found.batches[0]
    assert rung_updates(40) == (10, 20, 40)
    assert sorted(batch.reached) == [10] * 8 + [20] * 4 + [40] * 4
    hills = [trainer.hill(cell) for cell in batch.cells]
    ends = {until: [h for h, at in zip(hills, batch.reached, strict=True) if at == until]
            for until in (10, 20, 40)}  # fmt: skip
    assert max(ends[10]) <= min(ends[20])
    assert max(ends[20]) <= min(ends[40])
    assert batch.cost == batch_cost(16, (10, 20, 40)) == (8 * 10 + 4 * 20 + 4 * 40) / 40


def test_the_result_is_of_fresh_seeds_alone():
    trainer = Landscape(noise=0.5)
    found = run(trainer, budget=128)
    budget = plan_budget(128)
    check = [t for t in trainer.trained if t[2] >= CHECK_SEEDS]
    best = tuple(found.best.cell[name] for name in ("alpha", "lam"))
    assert len(found.best.scores) == budget.check_seeds
    assert {t[2] for t in check} == {CHECK_SEEDS + i for i in range(budget.check_seeds)}
    assert sum(t[:2] == best for t in check) == budget.check_seeds
    # No run of the check was a run of the search or of the choice.
    before = {t[:3] for t in trainer.trained if t[2] < CHECK_SEEDS}
    assert not before & {t[:3] for t in check}
    assert {t[2] for t in trainer.trained if CANDIDATE_SEEDS <= t[2] < CHECK_SEEDS}
    # With noise as large as this the search flatters itself, and the result does not.
    assert found.best_single > 1.2
    assert found.best.mean < found.best_single - 0.3


def test_neighbours_are_one_step_away_in_one_temperature():
    found = run(Landscape())
    alpha, lam = found.best.cell["alpha"], found.best.cell["lam"]
    around = [(one.cell["alpha"] / alpha, one.cell["lam"] / lam) for one in found.neighbours]
    r = 10**0.5
    np.testing.assert_allclose(around, [(1 / r, 1), (r, 1), (1, 1 / r), (1, r)], rtol=0.01)
    assert w_axis().neighbours(0.05) == (0.15,)
    assert w_axis().neighbours(0.5) == (0.4, 0.6)


def test_the_same_seed_gives_the_same_search_and_another_seed_another():
    first, again, other = (run(Landscape(), seed=s) for s in (3, 3, 4))
    assert plain(first) == plain(again)
    assert first.batches[0].cells != other.batches[0].cells


@pytest.fixture(scope="module")
def whole():
    """A small search that nothing interrupts, and how often it trained."""
    trainer = Landscape(lanes=8)
    return run(trainer, budget=32), trainer.calls


@pytest.mark.parametrize("stop_after", [0, 1, 2, 3, 5, 9, -2, -1])
def test_interrupted_anywhere_it_goes_on_and_ends_as_it_would_have(stop_after, whole, tmp_path):
    expected, calls = whole
    stop_after %= calls
    with pytest.raises(KeyboardInterrupt):
        run(Landscape(lanes=8, stop_after=stop_after), tmp_path, budget=32)
    resumed = Landscape(lanes=8)
    assert plain(run(resumed, tmp_path, budget=32)) == plain(expected)
    # Only what was under way is done again: at most the rungs of one batch.
    assert resumed.calls <= calls - stop_after + 2
    third = Landscape(lanes=8, stop_after=0)
    assert plain(run(third, tmp_path, budget=32)) == plain(expected)
    assert third.calls == 0


def test_a_kill_between_the_lines_of_the_journal_is_survived(tmp_path):
    """Cut the journal within a line, here and there; the tail is asked for and trained again."""
    expected = run(Landscape(lanes=8), tmp_path / "whole", budget=32)
    lines = (tmp_path / "whole" / "search.jsonl").read_bytes().splitlines(keepends=True)
    for cut in (0, 1, 2, 20, len(lines) // 2, len(lines) // 2 + 1, len(lines) - 1):
        folder = tmp_path / str(cut)
        folder.mkdir()
        torn = b"".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2]
        (folder / "search.jsonl").write_bytes(torn)
        assert plain(run(Landscape(lanes=8), folder, budget=32)) == plain(expected), cut


def test_the_journal_is_plain_json_lines(tmp_path):
    run(Landscape(), tmp_path, budget=32)
    lines = (tmp_path / "search.jsonl").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)


def changed(data, rng):
    """Return JSON data in which one value, at any depth, is a strange one."""
    if isinstance(data, dict | list) and data and rng.random() < 0.9:
        key = rng.choice(list(data) if isinstance(data, dict) else range(len(data)))
        data[key] = changed(data[key], rng)
        return data
    return rng.choice([None, True, -1, 10**30, 0.5, "", "os:system", [], [[1]], {}, {"a": None}])


def test_a_journal_that_was_changed_is_refused_or_goes_on(tmp_path):
    rng = random.Random(0)
    run(Landscape(), tmp_path, budget=32)
    path = tmp_path / "search.jsonl"
    lines = path.read_text().splitlines()
    refused = 0
    for _ in range(30):
        at = rng.randrange(len(lines))
        broken = [*lines]
        broken[at] = json.dumps(changed(json.loads(lines[at]), rng))
        path.write_text("\n".join(broken) + "\n")
        try:
            run(Landscape(), tmp_path, budget=32)
        except UserError:
            refused += 1
    assert refused > 5


def test_another_search_is_not_mixed_into_a_store(tmp_path):
    run(Landscape(), tmp_path, budget=32)
    with pytest.raises(UserError, match=r"other arguments \(budget: 32, here 40\)"):
        run(Landscape(), tmp_path, budget=40)


def test_of_other_settings_the_one_that_differs_is_named(tmp_path):
    def search(steps):
        with open_journal(tmp_path) as storage:
            arguments = {"settings": {"environment": "Catch", "steps": steps}, "budget": 32}
            Search(Landscape(), AXES, plan_budget(32), storage, arguments=arguments)

    search(20_000)
    with pytest.raises(UserError, match=r"other arguments \(steps: 20000, here 30000\); choose"):
        search(30_000)


def test_two_at_once_in_one_store_are_refused(tmp_path):
    with open_journal(tmp_path), pytest.raises(UserError, match="another search is running"):
        run(Landscape(), tmp_path)


@pytest.mark.parametrize("data", [b"no json\n", b"[1]\n", b"\xff\xfe\n", b'{"a": 1}\n{"b"\n{}\n'])
def test_a_damaged_journal_is_one_line(data, tmp_path):
    (tmp_path / "search.jsonl").write_bytes(data)
    with pytest.raises(UserError, match="damaged or not the journal"):
        run(Landscape(), tmp_path)


def test_a_store_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="store: cannot use"):
        run(Landscape(), tmp_path / "file" / "below")


class Diverging(Landscape):
    """Returns below zero; runs of some cells diverge, at the end or from the first rung on."""

    def __init__(self, lanes, diverges, rung=10):
        super().__init__(lanes)
        self.diverges, self.rung = diverges, rung

    def hill(self, cell):
        return super().hill(cell) - 180.0

    def start(self, cells, seeds):
        group = super().start(cells, seeds)
        return self.watched(group)

    def watched(self, group):
        train, keep = group.train, group.keep

        def sometimes(until):
            bad = np.array([self.diverges(c) for c, _ in group.runs])
            return np.where(bad & (until >= self.rung), np.nan, train(until))

        group.train, group.keep = sometimes, lambda rows: self.watched(keep(rows))
        return group


@pytest.mark.parametrize("rung", [10, 40])
@pytest.mark.parametrize("lanes", [1, 4, 32])
def test_a_cell_that_diverges_is_worse_than_any_other_even_where_returns_are_negative(lanes, rung):
    found = run(Diverging(lanes, lambda cell: cell["alpha"] > 0.1, rung))
    assert found.best.cell["alpha"] <= 0.1
    assert all(one.cell["alpha"] <= 0.1 for one in found.candidates)
    assert -182 < found.best.mean < -178
    assert -182 < found.best_single < -178
    full = at_full_length(found.batches)
    assert any(cell["alpha"] > 0.1 for batch in found.batches for cell in batch.cells)
    assert all(np.isnan(score) == (cell["alpha"] > 0.1) for cell, score in full)


def test_a_candidate_of_which_some_seeds_diverge_loses_to_one_that_holds():
    lucky = CheckedCell({"alpha": 1.0}, (0.9, np.nan))
    holds = CheckedCell({"alpha": 0.1}, (0.5, 0.5))
    never = CheckedCell({"alpha": 9.0}, (np.nan, np.nan))
    assert sorted((never, holds, lucky), key=lambda one: one.rank) == [never, lucky, holds]
    assert (lucky.mean, lucky.diverged, never.diverged) == (0.9, 1, 2)
    assert np.isnan(never.mean)


def test_a_search_in_which_all_diverge_is_one_line():
    with pytest.raises(UserError, match=r"tune: all .* runs that the search finished diverged"):
        run(Diverging(8, lambda cell: True))


def test_a_search_with_diverged_runs_goes_on_as_it_would_have(tmp_path):
    def some(cell):
        return cell["alpha"] > 0.03

    whole = run(Diverging(8, some), tmp_path / "whole", budget=32)
    stopped = Diverging(8, some)
    stopped.stop_after = 7
    with pytest.raises(KeyboardInterrupt):
        run(stopped, tmp_path / "cut", budget=32)
    resumed = run(Diverging(8, some), tmp_path / "cut", budget=32)
    assert repr(plain(resumed)) == repr(plain(whole))  # NaN is not equal to itself
    for line in (tmp_path / "cut" / "search.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)  # plain JSON: no NaN in it


def test_a_lonely_lucky_cell_does_not_win_over_a_good_neighbourhood():
    good = [{"alpha": 0.03 * 1.1**i, "lam": 2.0} for i in range(4)]
    lucky = {"alpha": 5.0, "lam": 0.01}
    batch = SearchBatch(0, (*good, lucky), (0.95, 0.96, 0.94, 0.95, 1.0), (40,) * 5, 1.0)
    bad = tuple({"alpha": 5.0 * 1.05**i, "lam": 0.0105} for i in (1, 2))
    worse = SearchBatch(1, bad, (0.0, 0.1), (40, 40), 1.0)
    (first, *_) = best_cells(AXES, [batch, worse], 3)
    assert first["lam"] == 2.0
    assert len(best_cells(AXES, [batch, worse], 10)) < 7  # those nearly the same count once


def test_the_first_batch_starts_where_it_was_suggested():
    trainer = Landscape()
    first = {"alpha": 0.5, "lam": 50.0}
    found = run(trainer, first=first)
    cells = found.batches[0].cells
    assert cells[0] == first
    for cell in cells:
        assert 0.001 <= cell["alpha"] <= 1.0
        assert 0.01 <= cell["lam"] <= 100.0
    later = [cell for batch in found.batches[1:] for cell in batch.cells]
    assert all(0.0001 <= cell["alpha"] <= 10.0 for cell in later)


@pytest.mark.parametrize("total", [32, 33, 256, 100_000])
def test_a_budget_is_never_exceeded_by_its_plan(total):
    budget = plan_budget(total)
    assert budget.search + budget.after == total
    assert budget.search >= total / 2
    assert budget.check_seeds >= 5
    assert budget.candidates >= 2


@pytest.mark.parametrize("total", [31, True, 3.5, 10**7])
def test_budgets_that_cannot_be_are_refused(total):
    with pytest.raises(UserError, match="budget: "):
        plan_budget(total)


@pytest.mark.parametrize("given", [(1.0, 0.1), (0.0, 1.0), (1.0,), (1.0, float("inf")), 5])
def test_ranges_that_cannot_be_are_refused(given):
    with pytest.raises(UserError, match="alpha_range: "):
        log_axis("alpha", (0.1, 1.0), given)


@pytest.mark.parametrize("updates", [1, 3, 244, 3906])
def test_rungs_rise_to_the_end(updates):
    rungs = rung_updates(updates)
    assert list(rungs) == sorted(set(rungs))
    assert rungs[-1] == updates
    assert rungs[0] >= 1
    assert batch_cost(8, rungs) <= 8
    assert space.batch_size(32, 3.0, rungs) <= 32
    size = space.batch_size(32, 3.0, rungs)
    assert batch_cost(size, rungs) <= 3.0 < batch_cost(size + 1, rungs)


def test_without_optuna_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name == "optuna":
            raise ImportError(name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.split(".")[0] == "optuna"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'mirrorax\[tune\]'"):
        import_optuna()
