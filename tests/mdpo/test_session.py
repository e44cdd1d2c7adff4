"""How the host drives training: segments that keep a person informed, files that are whole."""

import os

import jax
import numpy as np
import pytest

from mirrorax import files
from mirrorax.errors import UserError
from mirrorax.mdpo import program, session
from mirrorax.mdpo.session import Session
from mirrorax.runs.chunk import make_chunk


class Clock:
    """Stands in for the module `time`: it moves only when work is done."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.mark.parametrize("cost", [1e-4, 0.01, 0.3, 1.5])
@pytest.mark.parametrize("compiling", [0.0, 20.0])
def test_segments_are_cut_to_about_a_second_however_long_an_update_takes(
    small, some_keys, monkeypatch, cost, compiling
):
    """But for the first, which compiles: a person hears of every second or every update."""
    clock, heard = Clock(), []
    monkeypatch.setattr(session, "time", clock)
    made = Session(make_chunk(small(steps=16 * 5000), {}, 2, some_keys(1)))

    def advance(updates):
        clock.now += cost * updates + (0 if heard else compiling)
        made._state = made._state._replace(k=made._state.k + updates)

    monkeypatch.setattr(made, "advance", advance)
    made.run(lambda progress: heard.append((progress.updates_done, clock.now)))
    updates, times = (np.array(column) for column in zip(*heard, strict=True))
    assert updates[-1] == 5000
    gaps = np.diff(times)
    assert gaps.max(initial=0) <= max(1.0, cost) + 1e-9
    # And no more often than needed, once the pace is known.
    later = gaps[20:-1]
    assert (later >= 0.5).all() or cost >= 0.5 or len(later) == 0


def test_a_session_that_is_being_saved_is_there_as_before_or_as_new(
    small, some_keys, tmp_path, monkeypatch
):
    path = tmp_path / "state.npz"
    made = Session(make_chunk(small(), {}, 2, some_keys(1)))
    made.save(path)
    before = path.read_bytes()
    made.run(until=3)
    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:

            def failing(*_):
                raise OSError(28, "No space left on device")

            patch.setattr(files.os, name, failing)
            with pytest.raises(OSError, match="No space"):
                made.save(path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["state.npz"]
    made.save(path)
    assert Session.restore(path).k == 3


def test_nothing_in_a_file_is_executed(tmp_path):
    """An object in an archive is a pickle, which could run anything when it is read."""

    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "executed"),))

    trapped = np.empty(1, object)
    trapped[0] = Trap()
    path = tmp_path / "state.npz"
    np.savez(path, **{"meta.json": trapped, "keys": trapped})
    with pytest.raises(UserError, match="checkpoint: "):
        Session.restore(path)
    assert os.listdir(tmp_path) == ["state.npz"]
    np.load(path, allow_pickle=True)["keys"]
    assert (tmp_path / "executed").is_dir()  # it would have been


@pytest.mark.parametrize(
    ("backend", "lanes", "layout"), [("cpu", 32, "map"), ("gpu", 256, "vmap"), ("tpu", 256, "vmap")]
)
def test_width_and_layout_suit_the_device(backend, lanes, layout, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert (program.default_lanes(), program.default_layout()) == (lanes, layout)
