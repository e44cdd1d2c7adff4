"""Store files with a correct digest and ill-formed content: named by `verify`, read by nobody."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
from fuzz import NASTY_TEXTS, amount, check_clean, commanded
from mirrorax.sweep.task import Result

from mirrorax.errors import UserError
from mirrorax.runs import ids
from mirrorax.spec.expand import expand
from mirrorax.spec.study import parse
from mirrorax.store import copies, files, load, names, shards
from mirrorax.store.errors import DamagedShardWarning
from mirrorax.store.store import Store
from mirrorax.sweep import rows

STUDY = parse(
    'environments = ["Catch"]\npairs = [["entropy", "kl"]]\n'
    "alpha = [0.01, 0.1]\nlam = [1.0, 2.0]\nseeds = 2\n"
)
RUNS = expand(STUDY)
NOTES = {
    "mirrorax.name": "name",
    "mirrorax.study": STUDY.id,
    "mirrorax.text": STUDY.text,
    "mirrorax.lanes": "8",
    "mirrorax.algorithm_version": "1",
    "mirrorax.recorded_at": "now",
    "mirrorax.settings": json.dumps([s.model_dump() for s in RUNS.configurations]),
}
COMMANDS = (
    ["robustness", "--store", "store"],
    ["report", "--store", "store", "--out", "page.html"],
    ["sweep", "status", "--store", "store"],
    ["sweep", "plan", "study.toml", "--store", "store"],
    ["sweep", "export", "--store", "store", "--to", "out.csv"],
    ["suggest", "--env", "Catch", "--results", "store"],
)


def sound():
    returns = np.linspace(0, 1, 10 * len(RUNS)).reshape(len(RUNS), 10)
    never = np.full(len(RUNS), -1)
    return rows.done(RUNS, Result(returns, returns, never, 1.0, 8, "cpu"), {})


def put(root, kind, table, notes=None):
    """Write a file with the digest of its content in its name."""
    data = shards.encode(table, notes)
    number = "" if kind == "parts" else "00000009-"
    name = f"{number}{files.digest(data)}.parquet"
    files.write(root, kind, name, data)
    return f"{kind}/{name}"


def replaced(table, name, column):
    return table.set_column(table.column_names.index(name), name, column)


def wrong_columns(table, rng):
    """Return a table that no writer writes."""
    count = len(table)
    id_ = rng.choice(["short", "", "g" * 32, "A" * 32, "0" * 31, "0" * 33, "\x1b" * 32, None])
    text = rng.choice([t for t in NASTY_TEXTS if not t.isprintable()])
    filled = ["environment", "potential", "drift", "alpha_schedule", "seed", "lam", "status"]
    name = rng.choice(filled)
    typed = rng.choice([n for n in table.column_names if n != "run_id"])
    kind = table.schema.field(typed).type
    other = pa.array([[[1]]] * count) if kind != pa.list_(pa.list_(pa.int64())) else pa.nulls(count)
    bad = pa.StringArray.from_buffers(
        count,
        pa.py_buffer(np.arange(count + 1, dtype=np.int32) * 2),
        pa.py_buffer(b"\xff\xfe" * count),
    )
    return rng.choice(
        [
            lambda: replaced(table, "run_id", pa.array([id_] * count, pa.string())),
            lambda: replaced(table, "run_id", pa.array([3] * count)),
            lambda: table.drop_columns(["run_id"]),
            lambda: table.drop_columns(["status"]),
            lambda: table.append_column(rng.choice(table.column_names), table[0]),
            lambda: table.append_column(copies.SEQUENCE, pa.array([1] * count)),
            lambda: replaced(table, name, pa.nulls(count, table.schema.field(name).type)),
            lambda: replaced(table, typed, other),
            lambda: replaced(
                table, rng.choice(["environment", "device"]), pa.array([text] * count)
            ),
            lambda: replaced(table, "environment", pa.array(["x" * 5_000] * count)),
            lambda: replaced(table, "environment", bad),
            lambda: replaced(table, "status", pa.array(["perhaps"] * count)),
            lambda: replaced(table, "returns", pa.array([[]] * count, pa.list_(pa.float64()))),
            lambda: replaced(table, "returns", pa.array([[None]] * count, pa.list_(pa.float64()))),
            lambda: replaced(table, "lam", pa.array([float(rng.choice(["nan", "inf"]))] * count)),
            lambda: replaced(table, "return_max", pa.array([-1e9] * count)),
            lambda: table.append_column("later", pa.array([{"a": 1}] * count)),
        ]
    )()


def wrong_study(rng):
    """Return the record of a study that no writer writes, and its notes."""
    record = pa.table(
        {
            "run_id": ids.to_arrow(RUNS.ids),
            "configuration": pa.array(RUNS.configuration, pa.int32()),
        }
    )
    notes = dict(NOTES)
    match rng.randrange(6):
        case 0:
            del notes[rng.choice(list(notes))]
        case 1:
            key = rng.choice(["lanes", "algorithm_version", "settings", "name"])
            notes[f"mirrorax.{key}"] = rng.choice(["\x1b[2J", "-1\n", "9" * 5_000 + "\x07"])
        case 2:
            notes["mirrorax.settings"] = "[" * 5_000 + "]" * 5_000
        case 3:
            notes["mirrorax.settings"] = rng.choice(["{}", "[]", "[3]", "[{}]", '[{"drift": 1}]'])
        case 4:
            record = replaced(record, "configuration", pa.array([7] * len(record), pa.int32()))
        case _:
            record = replaced(record, "run_id", pa.array(["\x1b"] * len(record)))
    return record, notes


def wrong_file(root, rng):
    """Put one ill-formed file into a store; return its name."""
    table = sound()
    match rng.randrange(5):
        case 0 | 1:
            return put(root, "shards", wrong_columns(table, rng))
        case 2:
            copied = copies.with_sequence(table, "00000001")
            listed = names.listed(root, "shards")
            notes = rng.choice(
                [None, {"mirrorax.shards": "[" * 5_000}, {"mirrorax.shards": '["../x"]'}]
            )
            if rng.random() < 0.5:
                copied = replaced(copied, "run_id", pa.array(["x"] * len(copied)))
                notes = {"mirrorax.shards": json.dumps(listed)}
            return put(root, "parts", copied, notes)
        case 3:
            curves = rng.choice(
                [
                    pa.table({"return": [[1.0]]}),
                    pa.table({"run_id": ["x"], "return": [[1.0]]}),
                    pa.table({"run_id": ["0" * 32], "return": ["text"]}),
                ]
            )
            return put(root, "curves", curves)
        case _:
            return put(root, "studies", *wrong_study(rng))


@pytest.mark.filterwarnings("ignore::mirrorax.store.errors.DamagedShardWarning")
def test_an_ill_formed_file_is_named_and_left_out(tmp_path, monkeypatch):
    rng = random.Random("stores")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY.text)
    for number in range(amount(200, 12)):
        root = tmp_path / str(number)
        with Store(root) as store:
            store.record(STUDY, RUNS, 8)
            half = len(RUNS) // 2
            store.commit(sound().slice(0, half))
            store.commit(sound().slice(half))
        name = wrong_file(root, rng)
        said = ["sweep", "verify", "--store", str(number)]
        code, out, err = commanded(said)
        check_clean(out, err, name)
        assert code == 1, (number, name)
        assert f"damaged: {name}: " in out, (number, out)
        left = {row["run_id"]: row["returns"] for row in load(root).to_pylist()}
        assert left == {row["run_id"]: row["returns"] for row in sound().to_pylist()}
        for words in rng.sample(COMMANDS, 2):
            here = [str(number) if word == "store" else word for word in words]
            code, out, err = commanded(here)
            check_clean(out, err, (number, name))
            assert code in (0, 1, 2), (number, name)


def test_an_ill_formed_shard_is_set_aside_by_the_next_writer(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(sound())
    name = put(tmp_path / "store", "shards", sound().drop_columns(["status"]))
    with pytest.warns(DamagedShardWarning, match="it has no column 'status'"):
        load(tmp_path / "store")
    with Store(tmp_path / "store") as store:
        assert list(store.set_aside) == [name]
    assert len(load(tmp_path / "store")) == len(RUNS)


def test_a_damaged_shard_is_left_out_even_where_a_copy_has_its_rows(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(sound().slice(0, 3))
        broken = store.commit(sound().slice(3))
        store.consolidate(everything=True)
    path = names.inside(tmp_path / "store", "shards", broken)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.warns(DamagedShardWarning, match=broken):
        assert len(load(tmp_path / "store")) == 3


def test_the_mark_of_a_store_is_covered_by_a_digest(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(sound())
    path = tmp_path / "store" / names.MARK
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=f"{names.MARK}|has format"):
            load(tmp_path / "store")
    # Older stores have a mark without one.
    for old in ('{"format": 1, "created_by": "mirrorax 0.1.0"}', '{"format": 1}'):
        path.write_text(old)
        assert len(load(tmp_path / "store")) == len(RUNS)
