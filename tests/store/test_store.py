"""The store: what is committed comes back, whatever is done to the files is noticed."""

import ast
import errno
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from specification import specification_of
from stores import failed_outcome, made_outcome, of_configuration

from mirrorax.errors import UserError
from mirrorax.runs import arrow, flat, results
from mirrorax.runs.arrow import Damaged
from mirrorax.runs.chunk import PROVENANCE
from mirrorax.runs.presets import LATER
from mirrorax.spec.study import expand, parse
from mirrorax.store import files, load_curves, reading
from mirrorax.store import store as stores
from mirrorax.store.exporting import export, load, read_results
from mirrorax.store.files import DamagedShardWarning, StoreError
from mirrorax.store.store import Store

FLIPS = 10_000 if os.environ.get("MIRRORAX_FAULTS") == "long" else 1000

STUDY = parse(
    'environments = ["CartPole", { name = "Catch", reward_scale = 0.5 }]\n'
    'pairs = [["entropy", "kl"]]\nschedules = [["constant", "linear"], ["learned", "constant"]]\n'
    "alpha = [0.0, 0.1]\nw = 0.5\nlam = [0.1, 1.0]\nseeds = 3\n"
)
RUNS = expand(STUDY)


def chunk(which):
    """Return the runs of one configuration, and the bytes of their outcome."""
    runs = of_configuration(RUNS, which)
    return runs, made_outcome(runs).to_bytes()


def everything(root):
    return load(root, "all")


@pytest.fixture
def filled(tmp_path):
    """A store with one shard per configuration."""
    root = tmp_path / "store"
    with Store(root) as store:
        store.record(STUDY, RUNS, 8)
        for which in range(len(RUNS.configurations)):
            store.commit(chunk(which)[1])
    return root


def test_every_setting_value_and_result_comes_back_in_plain_columns(filled):
    table = everything(filled)
    assert len(table) == len(RUNS)
    assert not any(pa.types.is_dictionary(field.type) for field in table.schema)
    by_id = {row["run_id"]: row for row in table.to_pylist()}
    assert [row["run_id"] for row in table.to_pylist()] == sorted(by_id)
    for index in range(len(RUNS)):
        row = by_id[RUNS.ids[index].decode()]
        for name, value in specification_of(RUNS, index).items():
            assert row[name] == (list(value) if isinstance(value, tuple) else value)
    runs, _ = chunk(1)
    expected = made_outcome(runs)
    for place, run_id in enumerate(runs.ids):
        row = by_id[run_id.decode()]
        assert row["returns"] == expected.returns[place].tolist()
        assert row["greedy_returns"] == expected.greedy_returns[place].tolist()
        assert row["diverged"] == (place % 4 == 3)
        assert row["diverged_at"] == (17 if place % 4 == 3 else None)
        assert row["wall_seconds"] == 6.0 / len(runs)
        assert (row["status"], row["failure"], row["lanes"]) == ("done", None, 8)
    catch = [row for row in by_id.values() if row["environment"] == "Catch"]
    assert {(row["return_min"], row["return_max"]) for row in catch} == {(-0.5, 0.5)}


def test_a_shard_holds_the_very_bytes_that_were_committed(tmp_path):
    data = chunk(0)[1]
    with Store(tmp_path / "store") as store:
        name = store.commit(data)
    assert (tmp_path / "store" / "shards" / name).read_bytes() == data


def test_a_table_is_tidy_unless_all_columns_are_wanted(filled):
    table = load(filled)
    assert table.column_names == [
        *("run_id", "environment", "reward_scale", "potential", "drift"),
        *("alpha_schedule", "lam_schedule", "alpha", "lam", "w", "seed"),
        *("score", "greedy_score", "status", "diverged"),
    ]
    for row in everything(filled).to_pylist():
        low, high = row["return_min"], row["return_max"]
        mean = np.mean([(value - low) / (high - low) for value in row["returns"]])
        assert row["score"] == pytest.approx(0.0 if row["diverged"] else mean, rel=1e-12)
    assert load(filled, ["seed", "steps"]).column_names == ["seed", "steps"]
    with pytest.raises(UserError, match="columns: 'nothing'"):
        load(filled, ["nothing"])


def test_what_is_no_outcome_is_not_committed(tmp_path):
    data = chunk(0)[1]
    table = arrow.decode(data)
    wrong = table.set_column(1, "alpha", pa.array(table["alpha"].to_numpy() + 0.5))
    with Store(tmp_path / "store") as store:
        for bad, reason in (
            (b"", "not readable"),
            (data[:-100], "not readable"),
            (arrow.encode(table.drop_columns(["lam"])), "no column 'lam'"),
            (arrow.encode(table.replace_schema_metadata(None)), "no head"),
            (arrow.encode(wrong), "row 1: run_id .* is not that of its settings"),
        ):
            with pytest.raises(Damaged, match=reason):
                store.commit(bad)
    assert files.listed(tmp_path / "store", "shards") == []


def test_a_consolidated_copy_changes_nothing_that_is_read(filled, monkeypatch):
    before = everything(filled)
    with Store(filled) as store:
        store.consolidate()
    (copy,) = files.listed(filled, "parts")
    assert len(reading.copied(filled, files.listed(filled, "shards"))[1]) > 1
    kinds = []
    read = reading.read
    monkeypatch.setattr(reading, "read", lambda *a: kinds.append(a[3:]) or read(*a))
    assert len(reading.Reader(filled).results()) == len(before)
    assert kinds == [("parts",)]  # no shard is read singly
    assert everything(filled).equals(before)
    # A copy is only a copy: damaged or deleted, the shards speak for themselves.
    damage(filled / "parts" / copy, 1234)
    assert everything(filled).equals(before)
    (filled / "parts" / copy).unlink()
    assert everything(filled).equals(before)


def test_a_writer_copies_when_enough_shards_are_new(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "FULL", 2)
    root, sizes = tmp_path / "store", []
    with Store(root) as store:
        for i in range(12):
            store.commit(made_outcome(RUNS.select(np.array([i]))).to_bytes())
            sizes.append(len(reading.copied(root, files.listed(root, "shards"))[1]))
    assert sizes == [0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12]
    assert len(files.listed(root, "parts")) == 1
    monkeypatch.setattr(reading, "FULL", 1)
    with Store(root) as store:  # a quarter of the twelve
        for i in range(12, 15):
            assert len(reading.copied(root, files.listed(root, "shards"))[1]) == 12
            store.commit(made_outcome(RUNS.select(np.array([i]))).to_bytes())
    assert len(reading.copied(root, files.listed(root, "shards"))[1]) == 15


def test_a_part_is_void_once_one_of_its_shards_is_gone(filled):
    with Store(filled) as store:
        store.consolidate()
    gone = files.listed(filled, "shards")[0]
    lost = pq.read_table(filled / "shards" / gone)["run_id"].to_pylist()
    (filled / "shards" / gone).unlink()
    assert not set(lost) & set(everything(filled)["run_id"].to_pylist())


def test_a_reader_follows_a_writer_and_reads_each_file_once(tmp_path, monkeypatch):
    root = tmp_path / "store"
    read = []
    original = reading.read
    monkeypatch.setattr(
        reading, "read", lambda root, name, *rest: read.append(name) or original(root, name, *rest)
    )
    with Store(root) as store:
        reader = reading.Reader(root)
        for which in range(4):
            store.commit(chunk(which)[1])
            assert len(reader.results()) == sum(len(chunk(i)[0]) for i in range(which + 1))
        reader.results()
    assert sorted(read) == files.listed(root, "shards")


def test_done_beats_failed_the_first_done_stands_and_the_last_failure_speaks(tmp_path):
    root = tmp_path / "store"
    runs, done = chunk(0)
    others, _ = chunk(1)
    with Store(root) as store:
        store.commit(failed_outcome(runs, "first").to_bytes())
        store.commit(done)
        store.commit(made_outcome(runs, shift=1000.0).to_bytes())
        store.commit(failed_outcome(runs, "again").to_bytes())
        store.commit(failed_outcome(others, "one").to_bytes())
        store.commit(failed_outcome(others, "two").to_bytes())
    for consolidated in (False, True):
        table = everything(root)
        by_id = {row["run_id"]: row for row in table.to_pylist()}
        assert len(by_id) == len(table) == len(runs) + len(others)
        assert by_id[runs.ids[0].decode()]["status"] == "done"
        assert by_id[runs.ids[0].decode()]["returns"][0] == 0.0
        assert by_id[others.ids[0].decode()]["failure"] == "two"
        assert by_id[others.ids[0].decode()]["score"] is None
        if not consolidated:
            with Store(root) as store:
                store.consolidate()


def damage(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    path.write_bytes(bytes(data))


def test_every_flipped_bit_is_detected(filled):
    """Single bits at random over all shards, footers included."""
    rng = random.Random(0)
    originals = {
        name: (filled / "shards" / name).read_bytes() for name in files.listed(filled, "shards")
    }
    footer = 0
    for _ in range(FLIPS):
        name = rng.choice(sorted(originals))
        data = bytearray(originals[name])
        position = rng.randrange(len(data))
        data[position] ^= 1 << rng.randrange(8)
        footer += position > len(data) - 8 - int.from_bytes(originals[name][-8:-4], "little")
        assert files.digest(bytes(data)) != files.digest_in(name)
    assert footer > FLIPS // 20
    # And through the front door: named by verify and load, set aside by the next writer.
    victim = sorted(originals)[1]
    damage(filled / "shards" / victim, 8 * 5000 + 3)
    sound, wrong = reading.verify(filled)
    assert list(wrong) == [f"shards/{victim}"]
    assert sound == len(originals)  # the other shards and the study
    with pytest.warns(DamagedShardWarning, match=victim):
        table = everything(filled)
    assert len(table) == len(RUNS) - len(chunk(1)[0])


def test_page_checksums_catch_what_the_digest_would_not_be_asked_about(filled):
    """The second net: the digest aside, no flipped bit gives other data."""
    name = files.listed(filled, "shards")[0]
    original = (filled / "shards" / name).read_bytes()
    table = arrow.decode(original)
    rng = random.Random(1)
    silent = 0
    for _ in range(300):
        data = bytearray(original)
        data[rng.randrange(4, len(data) - 8)] ^= 1 << rng.randrange(8)
        try:
            silent += not arrow.decode(bytes(data)).equals(table)
        except (Damaged, ValueError, pa.ArrowException, UnicodeDecodeError):
            continue
    # Pages are covered; what is left is the footer, which only the digest guards.
    footer = int.from_bytes(original[-8:-4], "little") / len(original)
    assert silent / 300 < footer


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "unreadable"])
def test_a_damaged_shard_is_set_aside_not_deleted_and_only_its_runs_are_missing(filled, how):
    victim = files.listed(filled, "shards")[0]
    path = filled / "shards" / victim
    lost = set(reading.read(filled, victim).rows["run_id"].to_pylist())
    with Store(filled) as store:
        store.consolidate()
    data = path.read_bytes()
    bad = {"truncated": data[: len(data) // 2], "flipped": None, "empty": b"", "unreadable": b"x"}
    if how == "flipped":
        damage(path, 8 * 777)
    else:
        path.write_bytes(bad[how])
    found = path.read_bytes()
    with Store(filled) as store:
        assert list(store.set_aside) == [f"shards/{victim}"]
    assert not path.exists()
    kept = filled / "quarantine" / f"{victim}.1"
    assert kept.read_bytes() == found
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        present = set(everything(filled)["run_id"].to_pylist())
    assert present == {run_id.decode() for run_id in RUNS.ids} - lost


@pytest.mark.parametrize(
    ("point", "number"),
    [
        *((point, errno.ENOSPC) for point in files.POINTS[:6]),
        ("temp-written", errno.EDQUOT),
        ("temp-synced", errno.EIO),
    ],
)
def test_an_error_while_writing_leaves_nothing_half_written(filled, point, number):
    before = everything(filled)
    shown = files.listed(filled, "shards")

    def fault(reached):
        if reached == point:
            raise OSError(number, os.strerror(number))

    with Store(filled, fault=fault) as store:
        with pytest.raises(StoreError, match="cannot write") as caught:
            store.commit(chunk(0)[1])
        if number != errno.EIO:
            assert "make room" in str(caught.value)
    assert files.listed(filled, "shards") == shown
    assert files.entries(filled, "tmp") == []
    assert everything(filled).equals(before)
    with Store(filled) as store:  # and when there is room again
        store.commit(chunk(0)[1])


def test_a_really_full_disk(tmp_path):
    """A small tmpfs, filled up, then given room again."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a tmpfs needs privileges")
    try:
        committed = 0
        with Store(place / "store") as store:
            data = chunk(0)[1]
            while shutil.disk_usage(place).free > 2 * len(data):
                store.commit(data)
                committed += 1
            (place / "filler").write_bytes(b"x" * (shutil.disk_usage(place).free - 4096))
            with pytest.raises(StoreError, match="no space left"):
                store.commit(data)
            assert committed >= 1
            assert len(files.listed(place / "store", "shards")) == committed
            assert files.entries(place / "store", "tmp") == []
        assert reading.verify(place / "store") == (committed, {})
        subprocess.run(["mount", "-o", "remount,size=4m", str(place)], check=True)
        with Store(place / "store") as store:
            store.commit(chunk(1)[1])
        assert len(everything(place / "store")) == len(chunk(0)[0]) + len(chunk(1)[0])
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("how", ["folder", "link"])
def test_a_lock_that_cannot_be_opened_is_said_in_one_line(filled, how):
    (filled / "lock").unlink()
    if how == "folder":
        (filled / "lock").mkdir()
    else:
        (filled / "lock").symlink_to(filled / "elsewhere")
    with pytest.raises(StoreError, match=r"cannot write .*/lock: ") as caught:
        Store(filled)
    assert len(str(caught.value).splitlines()) == 1


def test_a_store_on_a_read_only_file_system_is_said_in_one_line(filled):
    mounted = subprocess.run(["mount", "--bind", filled, filled], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting needs privileges")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", filled], check=True)
        with pytest.raises(StoreError, match="the file system is read-only"):
            Store(filled)
        assert len(everything(filled)) == len(RUNS)
    finally:
        subprocess.run(["umount", filled], check=True)


def test_temporary_files_that_cannot_be_removed_are_said_in_one_line(filled, monkeypatch):
    def refused(self):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Store, "_sweep_temp", refused)
    with pytest.raises(StoreError, match="no permission to write there"):
        Store(filled)
    monkeypatch.undo()
    Store(filled).close()  # and the lock was given back


def test_verify_names_shards_that_are_gone_and_not_those_that_were_set_aside(filled):
    with Store(filled) as store:
        store.consolidate()
    first, second, *_ = files.listed(filled, "shards")
    damage(filled / "shards" / first, 8 * 777)
    Store(filled).close()
    assert reading.verify(filled)[1] == {}
    (filled / "shards" / second).unlink()
    wrong = reading.verify(filled)[1]
    assert list(wrong) == [f"shards/{second}"]
    assert "is missing; parts/" in wrong[f"shards/{second}"]
    shutil.rmtree(filled / "shards")
    wrong = reading.verify(filled)[1]
    assert wrong["shards"] == "the folder is missing"
    assert f"shards/{first}" not in wrong


def test_a_file_in_the_place_of_a_store_is_called_a_file(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("x")
    for use in (reading.read_store, reading.verify, Store):
        with pytest.raises(UserError, match=r"notes\.txt is a file; a store is a folder"):
            use(path)
    with pytest.raises(UserError, match="does not exist"):
        everything(tmp_path / "absent")


@pytest.mark.parametrize("place", ["", "shards", "parts/../tmp"])
def test_nothing_is_exported_into_the_store_itself(filled, tmp_path, monkeypatch, place):
    before = sorted(filled.rglob("*"))
    (tmp_path / "alias").symlink_to(filled)
    monkeypatch.chdir(filled)
    for root in (filled, tmp_path / "alias", Path()):
        with pytest.raises(UserError, match="is inside the store"):
            export(filled, root / place / "runs.csv")
    assert sorted(filled.rglob("*")) == before
    assert export(filled, tmp_path / "store.csv") == len(RUNS)


BAD_NAMES = [
    "../outside.parquet",
    "/etc/passwd",
    "00000001-" + "a" * 32 + ".parquet\0",
    "00000001-" + "a" * 32 + ".parquet/..",
    "..",
    "",
    "00000001-" + "A" * 32 + ".parquet",
    "0000001\uff11-" + "a" * 32 + ".parquet",
    "00000001-" + "a" * 32 + ".parquet\n",
]


@pytest.mark.parametrize("kind", ["shards", "parts", "studies", "quarantine"])
def test_names_that_could_leave_the_store_are_refused(tmp_path, kind):
    for name in BAD_NAMES:
        for use in (files.inside, lambda *place: files.write(*place, b"x")):
            with pytest.raises(files.UnsafeName):
                use(tmp_path, kind, name)


def test_links_are_refused_wherever_they_stand(filled, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    name = files.listed(filled, "shards")[0]
    (filled / "shards" / name).rename(outside / name)
    (filled / "shards" / name).symlink_to(outside / name)
    with pytest.raises(files.UnsafeName):
        files.inside(filled, "shards", name)
    assert name not in files.listed(filled, "shards")
    assert "symbolic link" in reading.verify(filled)[1][f"shards/{name}"]
    (filled / "quarantine").rmdir()
    (filled / "quarantine").symlink_to(outside)
    with pytest.raises(files.UnsafeName):
        files.folder(filled, "quarantine")


def test_a_link_in_the_place_of_a_shard_is_named_and_set_aside(filled, tmp_path):
    name = files.listed(filled, "shards")[0]
    runs = len(reading.read(filled, name))
    with Store(filled) as store:
        store.consolidate()
    outside = tmp_path / name
    (filled / "shards" / name).rename(outside)
    for number in (1, 2):  # set aside twice: the first is not overwritten
        (filled / "shards" / name).symlink_to(outside)
        with pytest.warns(DamagedShardWarning, match=f"{name}: is a symbolic link"):
            assert len(everything(filled)) == len(RUNS) - runs
        with Store(filled) as store:
            assert store.set_aside == {f"shards/{name}": f"{name}: is a symbolic link"}
        assert not (filled / "shards" / name).is_symlink()
        assert (filled / "quarantine" / f"{name}.{number}").is_symlink()
    assert outside.is_file()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        everything(filled)


def test_a_part_that_lists_a_path_is_not_followed(filled):
    table = pa.table({"run_id": ["x"]})
    data = arrow.encode(arrow.with_head(table, {"shards": ["../../etc/passwd"]}))
    files.write(filled, "parts", f"{files.digest(data)}.parquet", data)
    assert reading.copied(filled, files.listed(filled, "shards")) == ("", [])
    assert len(everything(filled)) == len(RUNS)


@pytest.mark.parametrize("path", ["a\0b", ""])
def test_paths_that_are_none(path):
    with pytest.raises(UserError):
        Store(path)
    with pytest.raises(UserError):
        everything(path + "\0")


def test_a_folder_that_is_no_store_is_neither_read_nor_written(tmp_path):
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a store"):
        Store(tmp_path)
    with pytest.raises(UserError, match="not a store"):
        everything(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        everything(tmp_path / "absent")
    with pytest.raises(UserError, match="is a file"):
        Store(tmp_path / "precious.txt")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["precious.txt"]


def test_a_store_of_another_format_is_refused(filled):
    for number in (1, 99):
        (filled / files.MARK).write_text(json.dumps({"format": number}))
        for use in (load, read_results, Store, reading.verify):
            with pytest.raises(UserError, match=f"format {number}; this version .* reads format 2"):
                use(filled)


def test_the_second_writer_is_told_who_holds_the_store(filled):
    with Store(filled), pytest.raises(UserError, match=rf"process {os.getpid()} of .* since 20"):
        Store(filled)
    with Store(filled):  # and afterwards it is free
        pass


def test_taking_over_from_a_living_holder_on_this_machine_is_refused(filled):
    with Store(filled), pytest.raises(UserError, match="alive: stop it first"):
        Store(filled, take_over=True)


def test_a_dead_holder_never_blocks(filled):
    code = (
        "import os, sys\nfrom mirrorax.store.store import Store\nStore(sys.argv[1])\nos._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(filled)], check=False)
    assert done.returncode == 9
    assert (filled / "holder.json").exists()
    with Store(filled):
        assert stores.read_holder(filled).pid == os.getpid()
    assert not (filled / "holder.json").exists()


def test_a_holder_on_another_machine_is_taken_over_only_when_asked(filled):
    there = {
        "host": "elsewhere",
        "host_hash": "0" * 12,
        "pid": 4,
        "user": "ann",
        "since": "2026-01-01 00:00:00 UTC",
        "token": "t",
    }
    (filled / "holder.json").write_text(json.dumps(there))
    with pytest.raises(UserError, match=r"process 4 of ann on elsewhere, .*--take-over"):
        Store(filled)
    with Store(filled, take_over=True) as store:
        assert stores.read_holder(filled).host == socket.gethostname()
        store.lock.check()
        (filled / "holder.json").write_text(json.dumps(there))
        with pytest.raises(StoreError, match="taken over by process 4"):
            store.lock.check()
    assert stores.read_holder(filled).token == "t"  # theirs is left alone


def test_a_holder_file_that_says_nothing_is_no_holder(tmp_path):
    Store(tmp_path / "store").close()
    for text in ("", "{", "[]", "{}", '{"pid": "x"}', "null", "\xff"):
        (tmp_path / "store" / "holder.json").write_bytes(text.encode("latin-1"))
        Store(tmp_path / "store").close()


def test_export_is_sorted_and_lists_are_json(filled, tmp_path):
    assert export(filled, tmp_path / "out.csv") == len(RUNS)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == len(RUNS) + 1
    assert lines[0].startswith('"run_id","environment"')
    assert sorted(lines[1:]) == lines[1:]
    assert '"[64, 64]"' in lines[1]
    export(filled, tmp_path / "out.parquet")
    again = read_results(tmp_path / "out.parquet")
    assert again.table("all").equals(everything(filled))
    plain = pq.read_table(tmp_path / "out.parquet")
    tidy = load(filled)
    assert plain.select(tidy.column_names).equals(tidy)
    assert len(plain.column_names) < 30
    export(filled, tmp_path / "bare.csv", provenance=False)
    head = (tmp_path / "bare.csv").read_text().splitlines()[0]
    assert not any(f'"{name}"' in head for name in PROVENANCE)
    for wrong in ("out.txt", "absent/out.csv"):
        with pytest.raises(UserError, match=r"^to:"):
            export(filled, tmp_path / wrong)


def test_curves_are_columns_of_the_same_shard(tmp_path):
    runs = chunk(0)[0]
    curves = {"return": np.ones((len(runs), 2)), "update": np.full((len(runs), 2), 4.0)}
    with Store(tmp_path / "store") as store:
        store.commit(made_outcome(runs, curves=curves).to_bytes())
        with pytest.raises(UserError, match="columns: 'return'"):
            load(tmp_path / "store", ["return"])
        store.commit(chunk(1)[1])  # without curves
        for _ in range(2):
            found = load_curves(tmp_path / "store")
            assert sorted(found["run_id"].to_pylist()) == sorted(i.decode() for i in runs.ids)
            assert found["return"].to_pylist() == [[1.0, 1.0]] * len(runs)
            store.consolidate()
    export(tmp_path / "store", tmp_path / "runs.parquet")
    assert load_curves(tmp_path / "runs.parquet").equals(found)


def test_a_store_without_curves_says_so(filled):
    with pytest.raises(UserError, match="has no learning curves"):
        load_curves(filled)


def test_settings_younger_than_a_shard_have_the_value_of_before(tmp_path):
    runs, data = chunk(0)
    table = arrow.decode(data)
    head = json.loads(table.schema.metadata[b"mirrorax"])
    for name in LATER:
        del head["settings"][name]
    older = arrow.encode(table.replace_schema_metadata({b"mirrorax": json.dumps(head)}))
    with Store(tmp_path / "store") as store:
        store.commit(older)
    for row in everything(tmp_path / "store").to_pylist():
        for name, value in LATER.items():
            assert row[name] == (list(value) if isinstance(value, tuple) else value)
    assert len(everything(tmp_path / "store")) == len(runs)


def test_unknown_bounds_are_a_random_policys_return_and_the_best_run():
    study = parse(
        'environments = [{ name = "Breakout-MinAtar", reward_scale = 2.0 }]\n'
        'pairs = [["entropy", "kl"]]\nalpha = 0.1\nlam = 1.0\nseeds = 2\n'
    )
    data = made_outcome(expand(study), bounds=(0.4, None)).to_bytes()
    table = results.from_arrow(arrow.decode(data)).table("all")
    assert table["bounds_source"].to_pylist() == ["estimated"] * 2
    assert table["return_min"].to_pylist() == [0.8] * 2
    assert table["return_max"].to_pylist() == [None] * 2
    best = np.arange(10, 20).mean() + 0.5  # the second run's greedy returns
    first = (np.arange(10).mean() - 0.8) / (best - 0.8)
    assert table["score"][0].as_py() == pytest.approx(first, rel=1e-12)


def test_a_flat_table_is_read_back(filled):
    whole = read_results(filled)
    again = results.as_results(whole.table("all"))
    assert again.table("all").equals(whole.table("all"))
    without = whole.table("all").drop_columns(["run_id"])
    assert results.as_results(without).ids.tolist() == whole.ids.tolist()
    for name in flat.REQUIRED:
        with pytest.raises(UserError, match=f"no column {name}"):
            results.as_results(whole.table("all").drop_columns([name]))


def test_provenance_is_that_of_the_results_that_count(filled):
    with Store(filled) as store:
        store.commit(made_outcome(chunk(0)[0], provenance={"lanes": 16}).to_bytes())
    runs = reading.Reader(filled, ["wall_seconds"]).results()
    assert runs.done.all()
    assert runs.provenance("lanes") == [8]  # the first result of a run stands
    assert runs.provenance("jax_version") == ["0.10.2"]


def test_an_empty_store_is_an_empty_table(tmp_path):
    with Store(tmp_path / "store"):
        pass
    table = everything(tmp_path / "store")
    assert len(table) == 0
    assert {"run_id", "environment", "alpha", "seed", "score", "status"} <= set(table.column_names)


def test_loading_imports_no_jax(filled):
    code = (
        "import sys\nfrom mirrorax.store import load\n"
        "print(len(load(sys.argv[1])), [n for n in ('jax', 'gymnax') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(filled)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{len(RUNS)} []"


def test_readers_see_only_whole_shards_while_a_writer_commits_and_consolidates(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(reading, "FULL", 4)
    root = tmp_path / "store"
    outcomes = [made_outcome(RUNS.select(np.array([i]))).to_bytes() for i in range(len(RUNS))]
    failures = []

    def write():
        try:
            with Store(root) as store:
                for number, data in enumerate(outcomes):
                    store.commit(data)
                    if number % 7 == 6:
                        store.consolidate()
        except BaseException as error:
            failures.append(error)

    with Store(root):
        pass
    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    reader = reading.Reader(root)
    while writer.is_alive():
        counts.append(len(everything(root)))
        assert len(reader.results()) >= counts[-1]
    writer.join()
    assert failures == []
    assert counts == sorted(counts)
    assert len(set(counts)) > 1
    assert len(everything(root)) == len(RUNS)
    assert len(reader.results()) == len(RUNS)


def test_nothing_that_reads_a_study_or_a_store_can_execute_what_it_reads():
    import mirrorax

    forbidden = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "yaml", "joblib"}
    for package in ("spec", "store", "sweep"):
        for file in sorted((Path(mirrorax.__file__).parent / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                imported = set()
                if isinstance(node, ast.Import):
                    imported = {alias.name.partition(".")[0] for alias in node.names}
                if isinstance(node, ast.ImportFrom):
                    imported = {(node.module or "").partition(".")[0]}
                assert not imported & forbidden, file
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    assert node.func.id not in ("eval", "exec", "compile", "__import__"), file
                if isinstance(node, ast.Attribute):
                    assert node.attr not in ("load_module", "allow_pickle"), file


def test_ids_cross_between_numpy_and_arrow():
    text = arrow.id_column(RUNS.ids)
    assert text.to_pylist() == [run_id.decode() for run_id in RUNS.ids]
    halves = pa.chunked_array([text[:5], text[5:]])
    assert (arrow.read_ids(halves) == RUNS.ids).all()
    assert (arrow.read_ids(pa.chunked_array([text[3:7]])) == RUNS.ids[3:7]).all()
    assert len(arrow.read_ids(pa.chunked_array([text[:0]]))) == 0
    for wrong in (["short"], ["x" * 31, "x" * 33], [None]):
        with pytest.raises(ValueError, match="32 digits"):
            arrow.read_ids(pa.chunked_array([pa.array(wrong, pa.string())]))
