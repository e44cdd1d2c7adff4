from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mirrorax.analysis.landscape import landscapes, shared_environments
from mirrorax.analysis.summary import summarise
from mirrorax.errors import UserError
from mirrorax.runs.scoring import ABSENT, DIVERGED, FAILED
from mirrorax.runs.settings import RunValues, Settings


def shuffled(table: pa.Table, seed: int = 0) -> pa.Table:
    return table.take(np.random.default_rng(seed).permutation(table.num_rows))


def changed(table: pa.Table, name: str, values) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, pa.array(values))


def where(table: pa.Table, **equal) -> np.ndarray:
    mask = np.ones(table.num_rows, bool)
    for name, value in equal.items():
        mask &= pc.equal(table[name], value).to_numpy()
    return np.flatnonzero(mask)


def test_every_return_is_where_a_plain_loop_puts_it(small):
    table = shuffled(small.slice(0, small.num_rows - 5))
    seen = 0
    for item in landscapes(table):
        for row in table.to_pylist():
            if (row["potential"], row["drift"]) != (
                item.settings["potential"],
                item.settings["drift"],
            ):
                continue
            i = list(item.alphas).index(row["alpha"])
            j = list(item.lams).index(row["lam"])
            e = [x.label for x in item.environments].index(row["environment"])
            n = list(item.seeds[i, j, e]).index(row["seed"])
            low, high = row["return_min"], row["return_max"]
            expected = [(r - low) / (high - low) for r in row["returns"]]
            np.testing.assert_allclose(item.stochastic[i, j, e, n], expected, rtol=1e-12)
            expected = [(r - low) / (high - low) for r in row["greedy_returns"]]
            np.testing.assert_allclose(item.greedy[i, j, e, n], expected, rtol=1e-12)
            seen += 1
    assert seen == table.num_rows
    assert sum(int(item.counts.sum()) for item in landscapes(table)) == table.num_rows
    assert sum(int((item.state == ABSENT).sum()) for item in landscapes(table)) == 5


def test_the_order_of_rows_and_their_chunks_do_not_matter(small):
    halves = pa.concat_tables([shuffled(small).slice(100), shuffled(small).slice(0, 100)])
    for a, b in zip(landscapes(small), landscapes(halves), strict=True):
        assert a.label == b.label
        assert [e.label for e in a.environments] == [e.label for e in b.environments]
        np.testing.assert_array_equal(a.stochastic, b.stochastic)


def test_an_algorithm_is_named_by_what_sets_it_apart(synthetic, rng):
    algorithms = [{}, {"drift": "bregman(max)"}, {"actor_q": "unregularized"}]
    algorithms.append({"alpha_schedule": "learned", "lam_schedule": "linear"})
    grid = np.array([0.0, 0.1])
    table = synthetic.study(algorithms, rng, alphas=grid, lams=grid, seeds=1)
    items = landscapes(table)
    assert [item.label for item in items] == [
        "(entropy, bregman(max))",
        "(entropy, kl)",
        "(entropy, kl) [actor_q=unregularized]",
        "(entropy, kl) alpha learned, lam linear",
    ]
    assert [item.axis for item in items] == ["alpha", "alpha", "alpha", "w"]


def test_a_change_of_any_setting_is_another_algorithm(small):
    version = changed(small, "steps", np.full(small.num_rows, 5))
    assert len(landscapes(pa.concat_tables([small, version]))) == 4
    hidden = pa.array([[32, 32, 32]] * small.num_rows, pa.list_(pa.int64()))
    deeper = small.set_column(small.column_names.index("hidden"), "hidden", hidden)
    assert len(landscapes(pa.concat_tables([small, deeper]))) == 4


def test_environments_of_different_lengths_can_be_one_landscape(small):
    names = small["environment"].to_pylist()
    first = names[0]
    longer = [500 if name == first else 5 for name in names]
    table = changed(small, "steps", longer)
    assert len(landscapes(table)) > len(landscapes(small))
    for a, b in zip(landscapes(small), landscapes(table, across=("steps",)), strict=True):
        np.testing.assert_array_equal(a.stochastic, b.stochastic)
        assert set(a.settings) - set(b.settings) == {"steps"}
    with pytest.raises(UserError, match="two runs of"):
        landscapes(pa.concat_tables([small, table]), across=("steps",))


def test_all_settings_of_a_run_tell_algorithms_apart(small):
    fields = set(Settings.model_fields) | set(RunValues.model_fields)
    elsewhere = {"environment", "reward_scale", "alpha", "lam", "w", "v", "seed"}
    assert fields - elsewhere | {"algorithm_version"} == set(landscapes(small)[0].settings)


def test_cells_may_use_seeds_of_their_own(small):
    table = changed(small, "seed", np.arange(small.num_rows))
    for a, b in zip(landscapes(small), landscapes(table), strict=True):
        assert a.expected == b.expected == 3
        np.testing.assert_array_equal(a.stochastic, b.stochastic)


def test_rescaled_rewards_are_an_environment_of_their_own(synthetic, rng):
    grid = np.array([0.0, 0.1])
    tables = [
        synthetic.block({}, "CartPole", grid, grid, 2, rng, reward_scale=scale)
        for scale in (0.2, 1.0, 2.0)
    ]
    (item,) = landscapes(pa.concat_tables(tables))
    assert [e.label for e in item.environments] == ["CartPole", "CartPole x 0.2", "CartPole x 2"]
    assert [e.return_max for e in item.environments] == [500.0, 100.0, 1000.0]
    assert shared_environments([item]) == ("CartPole",)
    assert item.select(["CartPole x 2"]).stochastic.shape == (2, 2, 1, 2, 10)


def test_failed_and_diverged_runs_are_seen_and_counted(small):
    status = np.array(["done"] * small.num_rows, dtype=object)
    status[:3] = "failed"
    diverged = np.zeros(small.num_rows, bool)
    diverged[3:8] = True
    table = changed(changed(small, "status", status), "diverged", diverged)
    items = landscapes(table)
    assert sum(int((item.state == FAILED).sum()) for item in items) == 3
    assert sum(int((item.state == DIVERGED).sum()) for item in items) == 5
    item = next(item for item in items if item.settings["drift"] == "kl")
    lowest, excluded = item.runs(), item.runs(diverged="exclude")
    assert np.all(lowest[item.state == DIVERGED] == 0.0)
    assert np.isnan(excluded[item.state == DIVERGED]).all()
    assert np.isnan(lowest[item.state == FAILED]).all()
    assert int(item.counts.sum()) == int(np.isfinite(lowest).sum())


def test_a_failed_run_may_lack_its_returns_and_bounds(small):
    table = changed(small, "status", ["failed", *["done"] * (small.num_rows - 1)])
    for name in ("returns", "return_min", "return_max"):
        table = changed(table, name, [None, *small[name].to_pylist()[1:]])
    assert sum(int((item.state == FAILED).sum()) for item in landscapes(table)) == 1


def test_a_nan_return_makes_a_run_diverged_and_is_counted(small):
    returns = small["returns"].to_pylist()
    returns[0][2] = float("nan")
    returns[1][0] = float("inf")
    items = landscapes(changed(small, "returns", returns))
    item = next(item for item in items if item.settings["drift"] == "kl")
    assert item.unflagged.sum() == 2
    assert int((item.state == DIVERGED).sum()) == 2
    assert np.isfinite(item.runs()).all()


def test_fewer_evaluations_are_not_a_divergence(synthetic, rng):
    grid = np.array([0.0, 0.1])
    a = synthetic.block({"eval_episodes": 10}, "Catch", grid, grid, 2, rng)
    b = synthetic.block({"eval_episodes": 3}, "Catch", grid, grid, 2, rng, evaluations=3)
    for item in landscapes(pa.concat_tables([a, b])):
        assert not item.unflagged.any()
        assert np.isfinite(item.runs()).all()


def test_what_cannot_be_sorted_is_refused(small):
    high, alpha = (small[name].to_numpy().copy() for name in ("return_max", "alpha"))
    high[0], alpha[5] = 1.0, np.nan
    for table, message in (
        (small.slice(0, 0), "holds no runs"),
        (small.drop_columns(["greedy_returns"]), "no column greedy_returns"),
        (pa.concat_tables([small, small.slice(1, 1)]), r"two runs of \(entropy, kl\).*seed=1"),
        (changed(small, "return_max", high), "CartPole has 2 different pairs of bounds"),
        (changed(small, "alpha", alpha), "alpha: 1 runs"),
    ):
        with pytest.raises(UserError, match=message):
            landscapes(table)


def test_no_common_environment_is_an_error(synthetic, rng):
    grid = np.array([0.0, 0.1])
    a = synthetic.block({}, "Catch", grid, grid, 1, rng)
    b = synthetic.block({"drift": "forward_kl"}, "DeepSea", grid, grid, 1, rng)
    with pytest.raises(UserError, match="none in common"):
        shared_environments(landscapes(pa.concat_tables([a, b])))


def test_unknown_choices_name_the_allowed_ones(small):
    item = landscapes(small)[0]
    with pytest.raises(UserError, match="did you mean 'CartPole'"):
        item.select(["Cartpole"])
    with pytest.raises(UserError, match="stochastic, greedy"):
        item.runs("greed")
    with pytest.raises(UserError, match="lowest, exclude"):
        item.runs(diverged="skip")
    with pytest.raises(UserError, match="positive, all"):
        item.cells("some")


def test_unknown_bounds_are_a_random_policys_return_and_the_best_run_seen(small):
    estimated = np.array(small["environment"].to_pylist()) == "Acrobot"
    table = small.append_column(
        "bounds_source", pa.array(np.where(estimated, "estimated", "known").tolist())
    )
    table = changed(table, "return_min", np.where(estimated, -450.0, 0.0))
    table = changed(table, "return_max", [None if e else 500.0 for e in estimated])
    seen = [
        np.mean(row[kind])
        for row in table.to_pylist()
        for kind in ("returns", "greedy_returns")
        if row["environment"] == "Acrobot"
    ]
    for item in landscapes(shuffled(table)):
        known, guessed = item.environments
        assert (known.label, known.bounds_source) == ("CartPole", "known")
        assert (guessed.label, guessed.bounds_source) == ("Acrobot", "estimated")
        assert guessed.return_min == -450.0
        assert guessed.return_max == pytest.approx(max(seen), rel=1e-12)
    scores = np.stack([item.stochastic[:, :, 1].mean(-1) for item in landscapes(table)])
    greedy = np.stack([item.greedy[:, :, 1].mean(-1) for item in landscapes(table)])
    assert max(np.nanmax(scores), np.nanmax(greedy)) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("wrong", [np.inf, 1e9])
def test_a_diverged_run_is_not_the_best_one_seen(small, wrong):
    table = small.append_column("bounds_source", pa.array(["estimated"] * small.num_rows))
    before = [e.return_max for e in landscapes(table)[0].environments]
    returns = table["returns"].to_pylist()
    returns[0] = [wrong] * len(returns[0])
    broken = changed(table, "returns", returns)
    flags = [wrong < np.inf, *([False] * (small.num_rows - 1))]
    broken = (
        changed(broken, "diverged", flags)
        if "diverged" in broken.column_names
        else broken.append_column("diverged", pa.array(flags))
    )
    for item in landscapes(broken):
        assert [e.return_max for e in item.environments] == pytest.approx(before)


def test_seeds_are_kept_to_the_last_digit(small):
    clock = 1_718_000_000_000_000_000
    table = changed(small, "seed", small["seed"].to_numpy() + clock)
    for item in landscapes(table):
        assert set(np.unique(item.seeds)) - {-1} == {clock, clock + 1, clock + 2}
    for wrong in (small["seed"].to_numpy() + 0.5, [None] * small.num_rows):
        with pytest.raises(UserError, match="seed: a whole number"):
            landscapes(changed(small, "seed", wrong))


def test_the_table_says_which_bounds_are_estimated(small, rng):
    source = ["estimated" if e == "Acrobot" else "known" for e in small["environment"].to_pylist()]
    table = small.append_column("bounds_source", pa.array(source))
    notes = summarise(table).notes
    (note,) = [note for note in notes if "bounds" in note]
    assert note.startswith("Acrobot: the bounds of its returns are estimated: 0 is a random")
