"""What is left to do, in which order, at what rates."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specification import run_key, specification_of

import mirrorax
from mirrorax.cli import main
from mirrorax.envs import suite
from mirrorax.errors import UserError
from mirrorax.mdpo import machine
from mirrorax.mdpo.program import make_program, program_sizes
from mirrorax.runs import results
from mirrorax.runs.chunk import Chunk, Outcome
from mirrorax.runs.settings import Settings
from mirrorax.spec.study import expand, parse
from mirrorax.store.reading import Reader
from mirrorax.store.store import Store
from mirrorax.sweep import measure
from mirrorax.sweep import plan as planning
from mirrorax.sweep.engine import Activity
from mirrorax.sweep.progress import SCORE_COLUMNS, Display, Status, SweepProgress


def study(environments='["CartPole", "Acrobot"]', seeds=5, extra=""):
    return parse(
        f'environments = {environments}\npairs = [["entropy", "kl"], ["max", "zero"]]\n'
        f"alpha = [0.0, 0.1]\nlam = [0.1, 1.0]\nseeds = {seeds}\n{extra}"
    )


def nothing():
    return results.concat([])


def outcomes(runs, which, wall=4.0, lanes=8, returned=0.0, failure=None):
    """Yield an outcome of each configuration of some runs."""
    chosen = runs.select(which)
    for number in np.unique(chosen.configuration):
        mine = chosen.select(chosen.configuration == number)
        chunk = Chunk(runs.configurations[number], mine.values, lanes)
        if failure:
            yield Outcome.failed(chunk, failure, {"lanes": lanes})
            continue
        returns, never = np.full((len(mine), 10), returned), np.full(len(mine), -1)
        bounds = suite.environment(chunk.settings.environment).bounds or (0.0, None)
        origin = {"lanes": lanes, "device": "cpu"}
        yield Outcome(chunk, returns, returns, never, wall * len(mine), bounds, origin)


def done(runs, which, **fields):
    """Return what a store would know of some finished runs."""
    made = outcomes(runs, which, **fields)
    return results.concat(results.from_arrow(outcome.to_arrow()) for outcome in made)


@settings(max_examples=40, deadline=None)
@given(seeds=st.integers(1, 9), lanes=st.integers(1, 13), data=st.data())
def test_chunks_are_a_partition_of_what_is_left_longest_first(seeds, lanes, data):
    runs = expand(study(seeds=seeds))
    finished = data.draw(st.sets(st.integers(0, len(runs) - 1)))
    table = nothing()
    if finished:
        table = done(runs, np.array(sorted(finished)))
    plan = planning.make(runs, table, lanes=lanes)
    seen = [run_id for queued in plan.chunks for run_id in queued.chunk.ids.tolist()]
    assert sorted(seen) == sorted(set(runs.ids.tolist()) - set(runs.ids[list(finished)].tolist()))
    for queued in plan.chunks:
        assert 1 <= len(queued) <= lanes
        assert queued.chunk.settings == runs.configurations[queued.configuration]
    costs = [chunk.seconds for chunk in plan.chunks]
    assert costs == sorted(costs, reverse=True)
    assert [chunk.number for chunk in plan.chunks] == list(range(len(plan.chunks)))


def test_a_chunk_carries_the_runs_own_values_and_keys():
    runs = expand(study())
    plan = planning.make(runs, nothing(), lanes=8)
    for queued in plan.chunks:
        sent = Chunk.from_bytes(queued.chunk.to_bytes())
        for place, run_id in enumerate(queued.chunk.ids.tolist()):
            spec = specification_of(runs, runs.ids.tolist().index(run_id))
            assert queued.chunk.settings.environment == spec["environment"]
            assert queued.chunk.columns["alpha"][place] == spec["alpha"]
            assert queued.chunk.columns["seed"][place] == spec["seed"]
            assert tuple(sent.keys[place].tolist()) == run_key(spec)
        assert (sent.ids == queued.chunk.ids).all()
        assert (sent.settings, sent.lanes) == (queued.chunk.settings, 8)


def test_an_edited_study_keeps_what_matches_and_says_what_is_beyond():
    before, after = expand(study(seeds=5)), expand(study(seeds=3))
    table = done(before, np.arange(len(before)))
    plan = planning.make(after, table, lanes=8)
    assert plan.chunks == []
    assert plan.done.all()
    assert plan.beyond == len(before) - len(after)
    wider = expand(study(environments='["CartPole", "Acrobot", "Catch"]', seeds=5))
    plan = planning.make(wider, table, lanes=8)
    assert int(plan.done.sum()) == len(before)
    assert {queued.chunk.settings.environment for queued in plan.chunks} == {"Catch"}


def test_failed_runs_are_left_alone_unless_they_are_asked_for():
    runs = expand(study())
    mine = np.flatnonzero(runs.configuration == 0)
    table = done(runs, mine, failure="why")
    plan = planning.make(runs, table, lanes=8)
    assert int(plan.failed.sum()) == len(mine)
    assert 0 not in {chunk.configuration for chunk in plan.chunks}
    again = planning.make(runs, table, lanes=8, retry_failed=True)
    assert int(again.todo.sum()) == len(runs)


def test_time_comes_from_the_store_where_it_has_seen_the_environment():
    runs = expand(study())
    cartpole = np.flatnonzero(runs.configuration == 0)
    plan = planning.make(runs, done(runs, cartpole, wall=100.0), lanes=8)
    assert "finished runs in the store" in plan.rates.source
    seen = next(s for s in runs.configurations if s.environment == "CartPole")
    other = next(s for s in runs.configurations if s.environment == "Acrobot")
    assert plan.rates.seconds(seen) == pytest.approx(100.0)
    factor = 100.0 / measure.modelled_seconds(seen)
    assert plan.rates.seconds(other) == pytest.approx(factor * measure.modelled_seconds(other))
    assert planning.make(runs, nothing(), lanes=8).rates.source == "the shipped table"


def test_a_worker_that_was_paused_does_not_stretch_the_estimate():
    runs = expand(study(seeds=9))
    cartpole = np.flatnonzero(runs.configuration == 0)
    usual, paused = cartpole[8:], cartpole[:8]
    table = results.concat([done(runs, usual, wall=10.0), done(runs, paused, wall=3600.0)])
    seen = runs.configurations[0]
    assert planning.make(runs, table, lanes=8).rates.seconds(seen) == pytest.approx(10.0)


def test_a_time_that_nobody_has_measured_is_called_a_guess():
    runs = expand(study('["CartPole", "MountainCar-v0", "gymnasium:CartPole-v1"]'))
    unseen = planning.make(runs, nothing(), lanes=8)
    assert unseen.guessed() == ["MountainCar-v0", "gymnasium:CartPole-v1"]
    car = np.flatnonzero(
        [runs.configurations[c].environment == "MountainCar-v0" for c in runs.configuration]
    )
    assert (
        planning.make(runs, done(runs, car[:1], wall=9.0), lanes=8).guessed()
        == unseen.guessed()[1:]
    )
    measured = dict.fromkeys(runs.configurations, 1.0)
    assert planning.make(runs, nothing(), lanes=8, measured=measured).guessed() == []


@pytest.fixture
def sizes(tmp_path, monkeypatch):
    """A cache of sizes that is empty."""
    monkeypatch.setenv("MIRRORAX_COMPILE_CACHE", str(tmp_path))
    return tmp_path


def test_sizes_are_those_of_the_program_and_are_asked_once(sizes, monkeypatch):
    class Broken:
        return_bounds = (0.0, 1.0)

        def step(self): ...

    mirrorax.register_environment("PlanBroken", Broken)  # in this process only
    broken = Settings(environment="PlanBroken")
    small, wide, other = (
        Settings(environment="CartPole", **fields)
        for fields in ({}, {"hidden": (256,)}, {"steps": 512, "drift": "zero"})
    )
    real = {each: program_sizes(make_program(each)) for each in (small, wide)}
    assert measure.known_sizes([small]) == {}
    # A program that cannot be made has no size, and the length of a run has no part in it.
    asked = measure.ask_sizes([broken, small, wide, other])
    assert asked == {**real, other: real[small]}
    monkeypatch.setattr(measure, "_ask", None)
    assert measure.ask_sizes([small, wide]) == real
    assert measure.known_sizes([other]) == {other: real[small]}
    for file in sizes.iterdir():
        file.write_text("[1")
    assert measure.known_sizes([small]) == {}


@pytest.mark.parametrize("name", ["CartPole", "Catch"])
def test_a_lane_is_its_replay_buffer_and_its_networks(name):
    settings = Settings(environment=name)
    program = make_program(settings)
    more = make_program(Settings(environment=name, buffer_size=settings.buffer_size + 1600))
    size = program.env.memory_size
    row = 2 * size + 5 if program.env.memory_dtype == "uint8" else 4 * (2 * size + 2)
    found = program_sizes(program)
    assert program_sizes(more).lane_bytes - found.lane_bytes == 1600 * row
    # Actor and two critics with Adam's moments, two targets.
    networks = 4 * (3 * program.actor.num_parameters + 8 * program.critic.num_parameters)
    assert networks < found.lane_bytes - settings.buffer_size * row


def test_the_time_left_waits_for_the_longest_chunk_and_compiles_nothing_twice():
    runs = expand(study('["CartPole"]', seeds=1))
    plan = planning.make(runs, nothing(), lanes=4)
    progress = SweepProgress(plan, workers=2)
    assert len(plan.chunks) == 2
    whole = sum(chunk.seconds for chunk in plan.chunks)
    assert progress.seconds_left() == pytest.approx((whole + 2 * measure.COMPILE_SECONDS) / 2)
    for chunk in plan.chunks[:1]:
        progress._left -= chunk.seconds
        progress._uncompiled.discard(chunk.configuration)
    # A quarter of the last chunk took 20 s: 60 s are left, and the idle worker cannot help.
    last = plan.chunks[1]
    progress.activities = [
        Activity("worker 0"),
        Activity("worker 1", last, 0.25, 20.0),
    ]
    assert progress.seconds_left() == pytest.approx(60.0)


def test_no_time_left_is_shown_before_a_run_is_done(capsys):
    progress = SweepProgress(planning.make(expand(study()), nothing(), lanes=4), workers=2)
    Display().close(progress)
    assert capsys.readouterr().err == f"0 of {progress.total} runs\n"
    for done, shown in ((0, "running on 2 workers"), (3, "running on 2 workers: 0 runs/h, ")):
        counts = {("CartPole", "entropy kl"): Counter(runs=8, done=done)}
        status = Status("name", counts, 0, {}, progress.state())
        assert status.summary().split("\n")[1].startswith(shown)
        assert ("left" in status.summary()) == bool(done)


def test_the_best_cell_is_one_of_the_study_and_of_one_configuration(tmp_path):
    rest = 'pairs = [["entropy", "kl"]]\nalpha = [0.1]\nlam = [0.2]\nseeds = 3\n'
    block = f'[[blocks]]\nenvironments = ["CartPole"]\n{rest}'
    short, long = "steps = 100_000\n", "steps = 200_000\n"
    mine = expand(parse(f"{block}{short}{block}{long}"))
    other = expand(parse(f'environments = ["Acrobot"]\n{rest}'))
    with Store(tmp_path / "store") as store:
        (best,) = outcomes(other, slice(None), returned=-100.0)  # nearly the best there is
        store.commit(best.to_bytes())
        for number, returned in enumerate((250.0, 100.0)):  # of 500
            for outcome in outcomes(mine, mine.configuration == number, returned=returned):
                store.commit(outcome.to_bytes())
        stored = Reader(store.root, ["wall_seconds", *SCORE_COLUMNS]).results()
        progress = SweepProgress(planning.make(mine, stored, lanes=8), workers=1)
        progress.add_stored(stored)
    assert progress.best() == "CartPole (entropy, kl) alpha=0.1 lam=0.2: 0.500 over 3 seeds"


def test_the_shipped_table_agrees_with_what_it_was_measured_from():
    """Core-seconds of a run in 32 lanes, as benchmarks/train_speed.py printed them."""
    each = {"steps_counted": "per_env"}  # 244 updates
    long = {"steps_counted": "per_env", "steps": 16_000_000}
    for name, measured in {
        "CartPole": (0.25, 2.36, 4.06),
        "Acrobot": (0.28, 2.48, 4.44),
        "Catch": (0.14, 2.02, 2.22),
        "DeepSea": (0.07, 0.85, 1.11),
    }.items():
        for fields, seconds in zip((each, {}, long), measured, strict=True):
            model = measure.modelled_seconds(Settings(environment=name, **fields))
            assert model == pytest.approx(seconds, rel=0.05)


def test_a_store_that_mixes_lanes_or_versions_says_so():
    runs = expand(study())
    half = np.arange(len(runs) // 2)
    table = results.concat(
        [done(runs, half, lanes=8), done(runs, np.arange(len(half), len(runs)), lanes=32)]
    )
    assert planning.make(runs, table, lanes=8).mixed == {"lanes": ["32", "8"]}


def test_the_lane_width_wastes_little_and_stays_with_the_store(tmp_path):
    assert planning.choose_lanes(expand(study(seeds=8))) == 32  # 32 runs per configuration
    assert planning.choose_lanes(expand(study(seeds=4))) == 16
    assert planning.choose_lanes(expand(study(seeds=1))) == 8
    runs = expand(study(seeds=4))
    assert planning.lanes_for(runs, tmp_path, None, gpu=True) == 32
    assert planning.lanes_for(expand(study(seeds=64)), tmp_path, None, gpu=True) == 256
    with Store(tmp_path / "store") as store:
        store.record(study(seeds=4), runs, 5)
        assert planning.lanes_for(runs, store.root, None) == 5
        assert planning.lanes_for(runs, store.root, 7) == 7
    for bad in (0, -1, 10**9):
        with pytest.raises(UserError, match="lanes"):
            planning.lanes_for(runs, tmp_path, bad)


def test_memory_that_does_not_suffice_is_said_with_the_number_that_fits(monkeypatch):
    runs = expand(study('["CartPole"]'))
    plan = planning.make(runs, nothing(), lanes=512)
    sizes = measure.ask_sizes(runs.configurations)[runs.configurations[0]]
    monkeypatch.setattr(machine, "available_bytes", lambda: 2 * sizes.worker_bytes(100))
    with pytest.raises(UserError, match=r"lanes: 512 lanes .* would fit") as caught:
        plan.check_memory(2)
    fits = int(str(caught.value).split(" GiB are free; ")[1].split()[0])
    assert 0 < fits < 100
    planning.make(runs, nothing(), lanes=fits).check_memory(2)
    monkeypatch.setattr(machine, "available_bytes", lambda: 1000)
    with pytest.raises(UserError, match="fewer workers"):
        plan.check_memory(2)


def test_a_worker_keeps_to_the_configuration_it_has_compiled():
    runs = expand(study(seeds=6))
    plan = planning.make(runs, nothing(), lanes=4)
    queue = planning.Queue(plan.chunks)
    compiled = {"a": set(), "b": set()}
    last = {"a": None, "b": None}
    taken = []
    for turn in range(len(plan.chunks)):
        worker = "ab"[turn % 2]
        queued = queue.take(last[worker])
        compiled[worker].add(queued.configuration)
        last[worker] = queued.configuration
        taken.append(queued.number)
    assert queue.take("a") is None
    assert sorted(taken) == [chunk.number for chunk in plan.chunks]
    assert compiled["a"].isdisjoint(compiled["b"])
    assert taken[0] == 0  # the longest first


def test_a_chunk_put_back_is_the_next_to_be_taken():
    queue = planning.Queue(planning.make(expand(study()), nothing(), lanes=4).chunks)
    before = len(queue)
    queued = queue.take()
    queue.put_back(queued)
    assert len(queue) == before
    assert queue.take(3).number == queued.number
    queue.clear()
    assert queue.take() is None


def test_the_time_elsewhere_follows_from_the_rate_here():
    plan = planning.make(expand(study()), nothing(), lanes=8)
    work = sum(chunk.seconds for chunk in plan.chunks)
    longest = max(chunk.seconds for chunk in plan.chunks)
    compiled = len({chunk.configuration for chunk in plan.chunks})
    half = work / 2 + -(-compiled // 2) * measure.COMPILE_SECONDS
    assert plan.seconds_on(2) == pytest.approx(max(half, plan.seconds_on(10**6)))
    # A chunk is not divided, and somebody has to compile it.
    assert plan.seconds_on(10**6) == pytest.approx(longest + measure.COMPILE_SECONDS)
    assert plan.seconds_on(10**6, 4.0) == pytest.approx(longest / 4 + measure.COMPILE_SECONDS)
    faster = plan.seconds_on(1, 10.0) - compiled * measure.COMPILE_SECONDS
    assert faster == pytest.approx(work / 10)


def test_plan_says_what_a_gpu_and_a_cluster_would_take(tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text(study().text)
    command = ["sweep", "plan", str(file), "--store", str(tmp_path / "none"), "--workers", "2"]
    assert main(command) == 0
    assert "GPU" not in capsys.readouterr().out
    assert main([*command, "--speedup", "20", "--nodes", "3", "--node-workers", "100"]) == 0
    out = capsys.readouterr().out
    assert "on one GPU, 20 times as fast as a worker here (given, not measured)" in out
    assert "on 3 nodes of 100 workers like those here" in out
    assert "on 3 nodes with a GPU each" in out
    assert "more workers than that would idle" in out
    for wrong in ("0", "-1", "inf", "fast"):
        assert main([*command, "--speedup", wrong]) == 2
        assert "--speedup" in capsys.readouterr().err


def test_the_minatar_study_is_two_games_seen_through_a_convolution():
    text = (Path(__file__).parents[2] / "examples" / "minatar.toml").read_text("utf-8")
    runs = expand(parse(text))
    assert len(runs) == 36
    assert {s.environment for s in runs.configurations} == {
        "Breakout-MinAtar",
        "SpaceInvaders-MinAtar",
    }
    for each in {s.environment: s for s in runs.configurations}.values():
        channels = 4 if each.environment == "Breakout-MinAtar" else 6
        assert make_program(each).actor.shapes[0] == (16, 9 * channels)
