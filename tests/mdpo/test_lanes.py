"""Many runs at once: each is the same alone, in company, interrupted, or beside a disaster."""

import jax
import numpy as np
import pytest

from mirrorax.errors import UserError
from mirrorax.mdpo import train, update
from mirrorax.mdpo.session import Session, train_chunk
from mirrorax.mdpo.train import evaluate
from mirrorax.runs.chunk import make_chunk

LANES = 4


def columns_for(count):
    """Different temperatures in every lane."""
    return {
        "alpha": np.linspace(0.01, 0.2, count),
        "lam": np.linspace(0.0, 5.0, count),
        "reward_scale": np.linspace(1.0, 2.0, count),
    }


def pick(columns, order):
    return {name: np.asarray(column)[order] for name, column in columns.items()}


@pytest.fixture(scope="module", params=["map", "vmap"])
def layout(request):
    return request.param


@pytest.fixture(scope="module")
def whole(small, some_keys, layout):
    """Six runs in two sessions of four lanes, the last one padded."""
    settings = small(eval_every=15)
    return train_chunk(make_chunk(settings, columns_for(6), LANES, some_keys(6)), layout=layout)


def test_a_chunk_has_one_row_for_each_run_and_none_for_padding(whole, small):
    assert whole.returns.shape == whole.greedy_returns.shape == (6, 4)
    assert whole.diverged_at.tolist() == [-1] * 6
    assert whole.provenance["lanes"] == LANES
    assert whole.provenance["device"].startswith("cpu")
    assert whole.curves["update"].tolist() == [[15, 30]] * 6
    assert set(update.METRICS) < set(whole.curves)
    for name, curve in whole.curves.items():
        assert curve.shape == (6, 2), name
        assert np.isfinite(curve).all(), name
    scale = np.linspace(1.0, 2.0, 6)[:, None]
    np.testing.assert_allclose(np.abs(whole.returns), np.broadcast_to(scale, (6, 4)), rtol=1e-6)
    np.testing.assert_allclose(whole.curves["alpha"], [[a] * 2 for a in np.linspace(0.01, 0.2, 6)])


@pytest.mark.parametrize(
    "order",
    [
        pytest.param([5, 2, 0], id="other lanes, neighbours and chunk, beside padding"),
        pytest.param([3], id="alone"),
        pytest.param([1, 1, 4, 1], id="beside itself"),
    ],
)
def test_a_run_is_bit_identical_whatever_its_lane_neighbours_or_chunk(
    whole, small, some_keys, layout, order
):
    settings, keys, columns = small(eval_every=15), some_keys(6), pick(columns_for(6), order)
    other = train_chunk(make_chunk(settings, columns, LANES, keys[order]), layout=layout)
    np.testing.assert_array_equal(other.returns, whole.returns[order])
    np.testing.assert_array_equal(other.greedy_returns, whole.greedy_returns[order])
    for name, curve in other.curves.items():
        np.testing.assert_array_equal(curve, whole.curves[name][order], err_msg=name)


@pytest.mark.parametrize("layout", ["map", "vmap"])
@pytest.mark.parametrize(("lanes", "batch"), [(3, 24), (8, 24), (3, 64)])
def test_not_a_bit_of_a_policy_depends_on_the_lane(small, some_keys, layout, lanes, batch):
    """Every run in every place, at widths that do and do not fit a vector of the processor.

    The larger batch has more transitions than the board has states.
    """
    settings, keys = small(hidden=(13,), batch_size=batch), some_keys(lanes)
    columns = columns_for(lanes)
    order = np.arange(lanes)
    found = []
    for _ in order:
        order = np.roll(order, 1)
        columns_here = pick(columns, order)
        session = Session(make_chunk(settings, columns_here, lanes, keys[order]), layout=layout)
        session.advance(12)
        learner = session._state.learner
        back = np.argsort(order)
        found.append([np.asarray(x)[back] for x in (learner.actor, learner.critics)])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


def states_equal(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize(("layout", "trials"), [("map", 3), ("vmap", 1)])
def test_a_stopped_run_goes_on_bit_identically(small, some_keys, tmp_path, layout, trials):
    settings = small(eval_every=15, alpha_schedule="learned_linear", lam_schedule="linear")
    columns = {"w": [0.2, 0.9], "lam": [0.1, 3.0], "alpha": [None, None]}

    def fresh():
        return Session(
            make_chunk(settings, columns, LANES, some_keys(2)), layout=layout, evaluate_every=10
        )

    straight = fresh()
    straight.run()
    rng = np.random.default_rng(0)
    for trial in range(trials):
        session = fresh()
        for cut in sorted(rng.integers(1, settings.updates, 2)):
            session.run(until=int(cut))
            path = tmp_path / f"{trial}-{cut}.npz"
            session.save(path)
            session = Session.restore(path)
            assert session.k == cut
        session.run()
        states_equal(session._state, straight._state)
        for name, curve in straight.curve_arrays().items():
            np.testing.assert_array_equal(session.curve_arrays()[name], curve)
        for ours, theirs in zip(session.evaluate(), straight.evaluate(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    alpha = straight.curve_arrays()["alpha"]
    assert (alpha != 1).all()


def test_a_callback_that_raises_stops_between_segments(small, some_keys):
    session = Session(make_chunk(small(eval_every=15), columns_for(2), LANES, some_keys(2)))

    class Enough(Exception):
        pass

    def stop(progress):
        assert 0 < progress.fraction <= 1
        if progress.updates_done >= 10:
            raise Enough

    with pytest.raises(Enough):
        session.run(stop)
    assert 10 <= session.k < session.total
    session.run()
    whole = Session(make_chunk(small(eval_every=15), columns_for(2), LANES, some_keys(2)))
    whole.run()
    states_equal(session._state, whole._state)


def test_a_diverged_lane_is_frozen_and_its_neighbours_never_notice(whole, small, some_keys, layout):
    settings, keys = small(eval_every=15), some_keys(4)
    columns = pick(columns_for(6), range(4))
    # A learning rate that overflows at the second update.
    columns["critic_lr"] = np.array([0.0025, 3e38, 0.0025, 0.0025])
    found = train_chunk(make_chunk(settings, columns, LANES, keys), layout=layout)
    assert found.diverged_at[1] >= 0
    assert found.diverged_at[[0, 2, 3]].tolist() == [-1] * 3
    for lane in (0, 2, 3):
        np.testing.assert_array_equal(found.returns[lane], whole.returns[lane])
        for name, curve in found.curves.items():
            np.testing.assert_array_equal(curve[lane], whole.curves[name][lane], err_msg=name)
    assert np.isfinite(found.returns).all()


def test_a_frozen_lane_keeps_its_last_healthy_state(small, some_keys):
    settings = small(eval_every=15)
    session = Session(make_chunk(settings, {"reward_scale": [1e30]}, LANES, some_keys(1)))
    session.run(until=5)
    at = session.diverged_at[0]
    assert at >= 0
    frozen = jax.tree.map(np.array, session._state.learner)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(frozen))
    session.run(until=9)
    states_equal(session._state.learner, frozen)
    assert session.diverged_at[0] == at


def test_one_compilation_for_every_static_configuration(small, some_keys):
    """Temperatures, seeds, rates, lengths and the number of runs are data."""
    train_chunk(make_chunk(small(eval_every=15), {}, LANES, some_keys(1)))
    before = train.segment._cache_size()
    for settings, columns, count in [
        (small(eval_every=15), {"alpha": [0.5], "lam": [3.0], "gamma": [0.5]}, 1),
        (small(eval_every=20, steps=16 * 25), {"actor_lr": [0.1, 0.2], "critic_lr": [1.0, 2.0]}, 2),
        (small(eval_every=3, steps=16 * 7), {"reward_scale": [0.1] * 3}, 3),
    ]:
        train_chunk(make_chunk(settings, columns, LANES, some_keys(count + 1)[1:]))
    assert train.segment._cache_size() == before
    evaluations = evaluate._cache_size()
    train_chunk(make_chunk(small(eval_every=15, hidden=(8,)), {}, LANES, some_keys(1)))
    assert train.segment._cache_size() == before + 1
    assert evaluate._cache_size() == evaluations + 1


def test_the_layouts_agree(small, some_keys):
    """Mapped and batched updates differ in rounding only: one update is the same to float32."""
    sessions = [
        Session(
            make_chunk(small(eval_every=15), columns_for(4), LANES, some_keys(4)), layout=layout
        )
        for layout in ("map", "vmap")
    ]
    for session in sessions:
        session.advance(2)
    first, second = (session._state.learner for session in sessions)
    for a, b in zip(first, second, strict=True):
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
            x, y = np.asarray(x)[:LANES], np.asarray(y)[:LANES]  # without padding
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_mistakes_in_the_runs_are_named(small, some_keys):
    with pytest.raises(UserError, match="alpha: 3 values for 2 runs"):
        train_chunk(make_chunk(small(), {"alpha": [0.1] * 3}, LANES, some_keys(2)))
    with pytest.raises(UserError, match="betta: not a traced value"):
        train_chunk(make_chunk(small(), {"betta": [0.1] * 2}, LANES, some_keys(2)))
    with pytest.raises(UserError, match="keys: "):
        train_chunk(make_chunk(small(), {}, LANES, np.zeros((0, 2), np.uint32)))


def test_a_file_that_is_no_checkpoint_is_a_users_mistake(small, some_keys, tmp_path):
    torn = tmp_path / "torn.npz"
    session = Session(make_chunk(small(eval_every=15), {}, LANES, some_keys(1)))
    session.save(torn)
    torn.write_bytes(torn.read_bytes()[:1000])
    foreign = tmp_path / "foreign.npz"
    np.savez(foreign, x=np.zeros(3))
    for path in (torn, foreign, tmp_path / "missing.npz"):
        with pytest.raises(UserError, match="checkpoint: "):
            Session.restore(path)
    with pytest.raises(UserError, match="must end in"):
        session.save(tmp_path / "state.pickle")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["foreign.npz", "torn.npz"]


def test_runs_that_are_kept_go_on_as_if_all_had_been(whole, small, some_keys, layout):
    """Four runs to a third, three of them to two thirds, two to the end, in another order."""
    settings, keys = small(eval_every=15), some_keys(6)
    columns = pick(columns_for(6), slice(0, LANES))
    session = Session(make_chunk(settings, columns, LANES, keys[:LANES]), layout=layout)
    session.run(until=13)
    fewer = session.select([3, 0, 2])
    fewer.run(until=26)
    last = fewer.select([2, 0])
    last.run()
    returns, greedy = last.evaluate()
    np.testing.assert_array_equal(returns, whole.returns[[2, 3]])
    np.testing.assert_array_equal(greedy, whole.greedy_returns[[2, 3]])
    for name, curve in last.curve_arrays().items():
        np.testing.assert_array_equal(curve, whole.curves[name][[2, 3]], err_msg=name)
    # The one that was left behind goes on as well.
    session.run()
    np.testing.assert_array_equal(session.evaluate()[0], whole.returns[:LANES])
    with pytest.raises(UserError, match="rows: "):
        last.select([2])
