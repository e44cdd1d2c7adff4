"""Store files with a correct digest and ill-formed content: named by `verify`, read by nobody."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest
from fuzz import NASTY_TEXTS, amount, check_clean, commanded
from stores import made_outcome

from mirrorax.errors import UserError
from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import HEAD
from mirrorax.spec.study import expand, parse
from mirrorax.store import files, load, reading
from mirrorax.store.files import DamagedShardWarning
from mirrorax.store.store import Store

STUDY = parse(
    'environments = ["Catch"]\npairs = [["entropy", "kl"]]\n'
    "alpha = [0.01, 0.1]\nlam = [1.0, 2.0]\nseeds = 2\n"
)
RUNS = expand(STUDY)
RECORD = {
    "format": 2,
    "name": "name",
    "study": STUDY.id,
    "text": STUDY.text,
    "lanes": 8,
    "algorithm_version": 1,
    "plugins": [],
    "recorded_at": "now",
    "settings": [s.model_dump(mode="json") for s in RUNS.configurations],
}
COMMANDS = (
    ["robustness", "--store", "store"],
    ["report", "--store", "store", "--out", "page.html"],
    ["sweep", "status", "--store", "store"],
    ["sweep", "plan", "study.toml", "--store", "store"],
    ["sweep", "export", "--store", "store", "--to", "out.csv"],
    ["suggest", "--env", "Catch", "--results", "store"],
)


def sound(start=0, stop=None):
    """Return the table of a sound outcome of some of the runs."""
    return made_outcome(RUNS.select(np.arange(len(RUNS))[start:stop])).to_arrow()


def put(root, kind, table, notes=None):
    """Write a file with the digest of its content in its name."""
    table = table if notes is None else table.replace_schema_metadata(notes)
    data = arrow.encode(table)
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
    name = rng.choice(["seed", "lam", "gamma", "reward_scale"])
    typed = rng.choice([n for n in table.column_names if n != "run_id"])
    other = pa.array([[[1]]] * count)
    lists = pa.list_(pa.float64())
    bad = pa.StringArray.from_buffers(
        count,
        pa.py_buffer(np.arange(count + 1, dtype=np.int32) * 2),
        pa.py_buffer(b"\xff\xfe" * count),
    )
    return rng.choice(
        [
            lambda: replaced(table, "run_id", pa.array([id_] * count, pa.string())),
            lambda: replaced(table, "run_id", pa.array([3] * count)),
            lambda: table.drop_columns([rng.choice(table.column_names)]),
            lambda: table.append_column(rng.choice(table.column_names), table[0]),
            lambda: replaced(table, name, pa.nulls(count, table.schema.field(name).type)),
            lambda: replaced(table, typed, other),
            lambda: table.append_column("later", pa.array(["\x1b[2J"] * count)),
            lambda: table.append_column("later", pa.array(["x" * 5_000] * count)),
            lambda: table.append_column("later", bad),
            lambda: table.append_column("later", pa.array([{"a": 1}] * count)),
            lambda: table.append_column("curve.return", pa.array(["text"] * count)),
            lambda: table.append_column("curve.return", pa.array([[None]] * count, lists)),
            lambda: replaced(table, "returns", pa.array([[]] * count, lists)),
            lambda: replaced(table, "returns", pa.array([[None]] * count, lists)),
            lambda: replaced(table, "lam", pa.array([float(rng.choice(["nan", "inf"]))] * count)),
        ]
    )()


def wrong_head(table, rng):
    """Return a table whose head no writer writes."""
    head = json.loads(table.schema.metadata[HEAD])
    settings, provenance = head["settings"], head["provenance"]
    text = rng.choice([t for t in NASTY_TEXTS if not t.isprintable()])
    changes = [
        *({**head, key: rng.choice([3, "x", [], [[]]])} for key in ("settings", "provenance")),
        *({k: v for k, v in head.items() if k != key} for key in head if key != "failure"),
        {**head, "format": rng.choice([1, 3, "2", None])},
        {**head, "algorithm_version": rng.choice([0, -1, 10**30, "1", True, 1.0, None])},
        {**head, "bounds": rng.choice([[1, 0], [1], [0, "1"], {}, "x", [None, 1], [0, 10**400]])},
        {**head, "failure": rng.choice([3, [], "x" * 200_000])},
        {**head, "settings": {**settings, rng.choice(["environment", "drift", "network"]): text}},
        {**head, "settings": {**settings, "environment": "x" * 5_000}},
        {**head, "settings": {**settings, "steps": rng.choice([0, -1, 10**30, "x", None])}},
        {**head, "settings": {**settings, "hidden": rng.choice([[0], "64 x 64", [[64]], None])}},
        {**head, "settings": {**settings, "unknown": 1}},
        {**head, "provenance": {**provenance, "host": rng.choice([text, [], {}, "x" * 5_000])}},
        {**head, "provenance": {**provenance, text: 1}},
        {**head, "provenance": {str(k): k for k in range(1_000)}},
    ]
    written = json.dumps(rng.choice(changes))
    deep = ["[" * 5_000 + "]" * 5_000, '{"format": 2, "settings": ' + "[" * 900 + "]" * 900 + "}"]
    written = rng.choice([written] * 9 + ["", "{", "null", "\x00", *deep])
    return table.replace_schema_metadata({HEAD: written})


def wrong_copy(root, rng):
    """Return a copy of all shards that no writer writes."""
    listed = files.listed(root, "shards")
    table = results.to_arrow(results.concat(reading.read(root, name) for name in listed))
    head = {**json.loads(table.schema.metadata[HEAD]), "shards": listed}
    count = len(table)
    origin = pa.array([rng.choice([-1, 2, 10**6, None])] * count, pa.int32())
    origins = [{**each, "configuration": rng.choice([-1, 7, None])} for each in head["origins"]]
    copy, wrong = rng.choice(
        [
            (table, {"shards": "[" * 5_000}),
            (table, {"shards": ["../x"]}),
            (table, {"shards": listed[:1]}),
            (table, {"shards": None}),
            (table, {"shards": 5}),
            (table, {"configurations": None}),
            (table, {"origins": origins}),
            (table, {"configurations": [3]}),
            (replaced(table, "run_id", pa.array(["x"] * count)), {}),
            (replaced(table, "origin", origin), {}),
            (table.drop_columns(["origin"]), {}),
        ]
    )
    return copy, {HEAD: json.dumps({**head, **wrong})}


def wrong_study(rng):
    """Return the record of a study that no writer writes, and its notes."""
    record = pa.table(
        {
            "run_id": arrow.id_column(RUNS.ids),
            "configuration": pa.array(RUNS.configuration, pa.int32()),
        }
    )
    head = dict(RECORD)
    match rng.randrange(6):
        case 0:
            del head[rng.choice(list(head))]
        case 1:
            key = rng.choice(["lanes", "algorithm_version", "settings", "name"])
            head[key] = rng.choice(["\x1b[2J", "-1\n", "9" * 5_000 + "\x07"])
        case 2:
            head["settings"] = rng.choice([{}, [], [3], [{}], [{"drift": 1}], -1])
        case 3:
            return record, {HEAD: '{"format": 2, "settings": ' + "[" * 5_000 + "]" * 5_000 + "}"}
        case 4:
            record = replaced(record, "configuration", pa.array([7] * len(record), pa.int32()))
        case _:
            record = replaced(record, "run_id", pa.array(["\x1b"] * len(record)))
    return record, {HEAD: json.dumps(head)}


def wrong_file(root, rng):
    """Put one ill-formed file into a store; return its name."""
    match rng.randrange(5):
        case 0:
            return put(root, "shards", wrong_columns(sound(), rng))
        case 1 | 2:
            return put(root, "shards", wrong_head(sound(), rng))
        case 3:
            return put(root, "parts", *wrong_copy(root, rng))
        case _:
            return put(root, "studies", *wrong_study(rng))


@pytest.mark.filterwarnings("ignore::mirrorax.store.files.DamagedShardWarning")
def test_an_ill_formed_file_is_named_and_left_out(tmp_path, monkeypatch):
    rng = random.Random("stores")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY.text)
    for number in range(amount(200, 12)):
        root = tmp_path / str(number)
        with Store(root) as store:
            store.record(STUDY, RUNS, 8)
            half = len(RUNS) // 2
            store.commit(arrow.encode(sound(0, half)))
            store.commit(arrow.encode(sound(half)))
        name = wrong_file(root, rng)
        said = ["sweep", "verify", "--store", str(number)]
        code, out, err = commanded(said)
        check_clean(out, err, name)
        assert code == 1, (number, name)
        assert f"damaged: {name}: " in out, (number, out)
        assert sorted(load(root)["run_id"].to_pylist()) == sorted(sound()["run_id"].to_pylist())
        for words in rng.sample(COMMANDS, 2):
            here = [str(number) if word == "store" else word for word in words]
            code, out, err = commanded(here)
            check_clean(out, err, (number, name))
            assert code in (0, 1, 2), (number, name)


def test_an_ill_formed_shard_is_set_aside_by_the_next_writer(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(arrow.encode(sound()))
    name = put(tmp_path / "store", "shards", sound().drop_columns(["lam"]))
    with pytest.warns(DamagedShardWarning, match="it has no column 'lam'"):
        load(tmp_path / "store")
    with Store(tmp_path / "store") as store:
        assert list(store.set_aside) == [name]
    assert len(load(tmp_path / "store")) == len(RUNS)


def test_a_damaged_shard_is_left_out_even_where_a_copy_has_its_rows(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(arrow.encode(sound(0, 3)))
        broken = store.commit(arrow.encode(sound(3)))
        store.consolidate()
    path = files.inside(tmp_path / "store", "shards", broken)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.warns(DamagedShardWarning, match=broken):
        assert len(load(tmp_path / "store")) == 3


def test_the_mark_of_a_store_is_covered_by_a_digest(tmp_path):
    with Store(tmp_path / "store") as store:
        store.commit(arrow.encode(sound()))
    path = tmp_path / "store" / files.MARK
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(UserError, match=f"{files.MARK}|has format"):
            load(tmp_path / "store")
    # A mark without a digest, as the message on a damaged one advises to write it, will do.
    for plain in ('{"format": 2, "created_by": "mirrorax 0.1.0"}', '{"format": 2}'):
        path.write_text(plain)
        assert len(load(tmp_path / "store")) == len(RUNS)
