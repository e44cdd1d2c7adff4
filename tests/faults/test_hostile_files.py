"""Files of every kind that name code: nothing is imported or run, and one line refuses them.

A study, a configuration, a checkpoint, a folder of policies, a store, an export and a search: each
is written as a sound one would be, with names and plugins that would load code if a reader followed
them, or with its data changed at random.
"""

import contextlib
import copy
import json
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz import NASTY_TEXTS, Trap, amount, check_clean, check_refused, commanded
from harness import long_form
from stores import fill, made_outcome

from mirrorax.errors import UserError
from mirrorax.mdpo import checkpoint
from mirrorax.mdpo.session import Session
from mirrorax.runs import arrow, results
from mirrorax.runs.arrow import HEAD
from mirrorax.runs.chunk import make_chunk
from mirrorax.runs.settings import Settings
from mirrorax.spec.study import expand, parse
from mirrorax.store import files, load
from mirrorax.store.exporting import export

EACH = amount(50, 6)
STUDY = 'pairs = [["entropy", "kl"]]\nalpha = [0.01, 0.1]\nlam = [1.0, 2.0]\nseeds = 2\n'
FIELDS = (
    "environment",
    "potential",
    "drift",
    "alpha_schedule",
    "lam_schedule",
    "network",
    "optimizer",
    "plugins",
)


@pytest.fixture
def trap(tmp_path, monkeypatch):
    set_up = Trap(tmp_path, monkeypatch)
    yield set_up
    set_up.check()


def hostile(trap, rng, settings):
    """Return settings in which one or more names would load code."""
    changed = dict(settings)
    for field in rng.sample(FIELDS, rng.randint(1, 3)):
        changed[field] = rng.choice(trap.plugins if field == "plugins" else trap.names)
    return changed


def scrambled(data, rng):
    """Return JSON data with one value, at any depth, replaced by a strange one."""
    made = copy.deepcopy(data)
    place, key = made, None
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return made
        key = rng.choice(keys)
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.3:
            break
        place = place[key]
    strange = [None, True, -1, 10**30, 1e308, [], {}, [[]], [None], {"a": 1}, 0.5]
    place[key] = rng.choice([*strange, *NASTY_TEXTS])
    if isinstance(place, dict) and rng.random() < 0.2:
        del place[key]
    return made


def toml(value):
    return json.dumps(value) if not isinstance(value, dict) else "{ module = 1 }"


def test_a_study(trap, tmp_path):
    rng = random.Random("study")
    for _ in range(EACH):
        fields = hostile(trap, rng, {"environment": "Catch", "potential": "entropy", "drift": "kl"})
        text = "".join(
            f"{name} = {toml(fields[name])}\n"
            for name in ("alpha_schedule", "lam_schedule", "plugins")
            if name in fields and not isinstance((fields[name] or [""])[0], dict)
        )
        text += f"environments = [{toml(fields['environment'])}]\n"
        text += f"pairs = [[{toml(fields['potential'])}, {toml(fields['drift'])}]]\n"
        text += STUDY.partition("\n")[2]
        if fields["environment"] == "Catch" and text.count("trap") == 0:
            continue
        (tmp_path / "s.toml").write_text(text)
        for words in (
            ["sweep", "plan", "s.toml", "--store", "new"],
            ["sweep", "run", "s.toml", "--store", "new"],
        ):
            check_refused(words, lines=8)
        assert not (tmp_path / "new").exists()


def test_a_configuration(trap, tmp_path):
    rng = random.Random("configuration")
    for _ in range(EACH):
        fields = hostile(trap, rng, {"environment": "Catch"})
        if any(isinstance(one, dict) for one in fields.get("plugins", [])):
            continue
        lines = [f"{name} = {toml(value)}" for name, value in fields.items()]
        (tmp_path / "c.toml").write_text("\n".join(lines))
        check_refused(["train", "--config", "c.toml", "--out", "new"])
        assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small session as it is saved: arrays and data."""
    settings = Settings(
        environment="Catch",
        steps=64,
        num_envs=2,
        env_steps_per_update=8,
        batch_size=8,
        buffer_size=64,
        hidden=(4,),
    )
    path = tmp_path_factory.mktemp("saved") / "state.npz"
    keys = np.array([[1, 2], [3, 4]], np.uint32)
    Session(make_chunk(settings, {"alpha": [0.1, 0.2], "lam": [1.0, 1.0]}, 2, keys)).save(path)
    return checkpoint.load(path)


def test_a_checkpoint(trap, tmp_path, saved):
    rng = random.Random("checkpoint")
    arrays, meta = saved
    path = tmp_path / "state.npz"
    for _ in range(EACH):
        checkpoint.save(path, arrays, {**meta, "settings": hostile(trap, rng, meta["settings"])})
        with pytest.raises(UserError, match="checkpoint: ") as error:
            Session.restore(path)
        assert str(error.value).isprintable()


def test_a_checkpoint_whose_data_was_changed(trap, tmp_path, saved):
    rng = random.Random("changed checkpoint")
    arrays, meta = saved
    path = tmp_path / "state.npz"
    for _ in range(EACH):
        changed = dict(arrays)
        if rng.random() < 0.3:
            name = rng.choice(list(arrays))
            changed[name] = rng.choice([np.zeros(0), np.zeros((2, 3)), np.array("text")])
        checkpoint.save(path, changed, scrambled(meta, rng))
        with contextlib.suppress(UserError):  # what is still sound is restored
            Session.restore(path)


def test_a_folder_of_policies(trap, tmp_path, saved):
    rng = random.Random("folder")
    _, meta = saved
    data = {"settings": meta["settings"], "runs": [{"alpha": 0.1, "lam": 1.0, "seed": 0}]}
    policies = {"policies": np.zeros((1, 10), np.float32)}
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "policies.npz"
    for _ in range(EACH):
        checkpoint.save(path, policies, {**data, "settings": hostile(trap, rng, data["settings"])})
        check_refused(["play", "out"])
        checkpoint.save(path, policies, scrambled(data, rng))
        check_refused(["play", "out"])  # where the data is sound, the policies do not fit it
    for values in ({"alpha": None}, {"alpha": 0.1, "w": 0.5}):
        checkpoint.save(path, policies, {**data, "runs": [values]})
        assert "runs: " in check_refused(["play", "out"])
    path.write_bytes(rng.randbytes(500))
    check_refused(["play", "out"])


def table(**changed):
    """Return finished runs as a flat table, with columns replaced by one value each."""
    runs = expand(parse('environments = ["Catch"]\n' + STUDY))
    made = results.from_arrow(made_outcome(runs).to_arrow()).table("all")
    for name, value in changed.items():
        field = made.schema.field(name)
        column = pa.array([value] * len(made), field.type)
        made = made.set_column(made.column_names.index(name), field, column)
    return made


READERS = (
    ["robustness", "--store", "store"],
    ["report", "--store", "store", "--out", "page.html"],
    ["sweep", "status", "--store", "store"],
    ["sweep", "verify", "--store", "store"],
    ["sweep", "export", "--store", "store", "--to", "out.parquet"],
    ["suggest", "--env", "Catch", "--results", "store"],
    *([["paper", "report", "--store", "store", "--out", "paper"]] if long_form() else []),
)


def changed_rows(trap, rng):
    """Return rows of a store in which names would load code, if anybody followed them."""
    changed = hostile(trap, rng, {})
    if "plugins" in changed and not all(isinstance(text, str) for text in changed["plugins"]):
        changed["plugins"] = [trap.module]
    return {
        name: [v] if name == "plugins" and isinstance(v, str) else v for name, v in changed.items()
    }


def test_a_store_and_its_export(trap, tmp_path):
    """Results of names that are not known are results; to train them is refused."""
    rng = random.Random("store")
    for number in range(EACH):
        fields = changed_rows(trap, rng)
        made = table(**fields)
        root = tmp_path / f"store{number}"
        fill(root, made)
        assert len(load(root)) == len(made)
        for words in READERS if number < 2 else [rng.choice(READERS)]:
            here = [word.replace("store", root.name) if word == "store" else word for word in words]
            code, out, err = commanded(here)
            check_clean(out, err, here)
            assert code in (0, 1, 2)
        export(root, tmp_path / "rows.parquet")
        code, out, err = commanded(
            ["sweep", "import", "--store", f"again{number}", "--from", "rows.parquet"]
        )
        check_clean(out, err, fields)
        assert (code, "are new" in out) == (0, True), err


def test_a_recorded_study(trap, tmp_path):
    rng = random.Random("recorded")
    runs = expand(parse('environments = ["Catch"]\n' + STUDY))
    fill(tmp_path / "store", table())
    for number in range(1, EACH + 1):
        settings = hostile(trap, rng, {"environment": "Catch", "potential": "max", "drift": "kl"})
        text = f"plugins = {json.dumps(trap.plugins[0])}\nenvironments = ['{trap.module}:run']\n"
        head = {
            "name": "name",
            "study": "0" * 32,
            "text": text + STUDY,
            "lanes": 8,
            "algorithm_version": 1,
            "plugins": [],
            "recorded_at": "now",
            "settings": [settings],
        }
        found = {
            "run_id": arrow.id_column(runs.ids),
            "configuration": pa.array(np.zeros(len(runs)), pa.int32()),
        }
        data = arrow.encode(arrow.with_head(pa.table(found), head))
        name = f"{number:08d}-{files.digest(data)}.parquet"
        files.write(tmp_path / "store", "studies", name, data)
        words = rng.choice(READERS)
        code, out, err = commanded(list(words))
        check_clean(out, err, settings)
        assert code in (0, 2)
    assert files.existing(tmp_path / "store")


def changed_export(sound, rng):
    """Return an export with one column changed, missing or there twice, or with a changed head."""
    if rng.random() < 0.4:
        head = scrambled(json.loads(sound.schema.metadata[HEAD]), rng)
        return sound.replace_schema_metadata({HEAD: json.dumps(head)})
    name = rng.choice(sound.column_names)
    strange = [
        pa.array([rng.choice(NASTY_TEXTS)] * len(sound)),
        pa.array([rng.choice([0, -1, 2**62])] * len(sound)),
        pa.array([[["x"]]] * len(sound)),
        pa.nulls(len(sound)),
        pa.array([b"\xff\xfe"] * len(sound)),
    ]
    if rng.random() < 0.2:
        return sound.drop_columns([name])
    if rng.random() < 0.2:
        return sound.append_column(name, sound[name])
    return sound.set_column(sound.column_names.index(name), name, rng.choice(strange))


def test_an_export_that_was_changed(trap, tmp_path):
    rng = random.Random("export")
    fill(tmp_path / "store", table())
    export(tmp_path / "store", tmp_path / "rows.parquet")
    exported = arrow.decode((tmp_path / "rows.parquet").read_bytes())
    for number in range(2 * EACH):
        wrong = changed_export(exported, rng)
        if number == 0:
            wrong = table()  # a flat one is no export
        (tmp_path / "rows.parquet").write_bytes(arrow.encode(wrong))
        for words in (
            ["sweep", "import", "--store", "new", "--from", "rows.parquet"],
            ["suggest", "--env", "Catch", "--results", "rows.parquet"],
        ):
            code, out, err = commanded(words)
            check_clean(out, err, number)
            assert code in (0, 2)
            assert err.count("\n") <= 1


def test_a_search(trap, tmp_path):
    pytest.importorskip("optuna", reason="the tune extra is not installed")
    rng = random.Random("search")
    words = ["tune", "--env", "Catch", "--budget", "32", "--steps", "512", "--quiet"]
    words += ["--store", "search", "--num-envs", "2", "--env-steps-per-update", "16"]
    words += ["--batch-size", "8", "--lanes", "8"]
    create = {
        "op_code": 0,
        "worker_id": "w",
        "study_name": "mirrorax",
        "directions": [2],
    }
    attribute = {"op_code": 2, "worker_id": "w", "study_id": 0}
    (tmp_path / "search").mkdir()
    for _ in range(amount(50, 2)):
        settings = hostile(trap, rng, {"environment": "Catch"})
        said = {**attribute, "user_attr": {"arguments": {"settings": settings}}}
        lines = [create, said]
        if rng.random() < 0.5:
            at = rng.randrange(2)
            lines[at] = scrambled(lines[at], rng)
            lines.append(said)
        (tmp_path / "search" / "search.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
        check_refused(words)


SMALL_STUDY = 'environments = ["Catch(4x3)"]\n' + STUDY + "steps = 512\nhidden = [4]\n"


def test_a_folder_with_modules_that_others_look_for(tmp_path):
    """jax runs what it finds under `jax_plugins`: the current folder is not on a worker's path."""
    marker = tmp_path / "executed"
    (tmp_path / "jax_plugins").mkdir()
    code = f"open({str(marker)!r}, 'w')\ndef initialize(): pass\n"
    (tmp_path / "jax_plugins" / "hostile.py").write_text(code)
    (tmp_path / "study.toml").write_text(SMALL_STUDY)
    words = ["sweep", "run", "study.toml", "--store", "runs", "--workers", "1"]
    program = f"import sys; from mirrorax.cli import main; sys.exit(main({words!r}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not marker.exists()


def test_the_children_of_the_command_do_not_import_from_the_current_folder(monkeypatch):
    from mirrorax.cli import doctor

    commands = []

    def noted(words, **_):
        commands.append(words)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(doctor.subprocess, "run", noted)
    doctor.self_test()
    assert commands[0][:2] == [sys.executable, "-P"]


def test_a_plugin_of_the_current_folder_leaves_the_path_as_it_was(tmp_path, monkeypatch):
    from mirrorax import plugins

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mx_here.py").write_text("__version__ = '1'\n")
    before = list(sys.path)
    assert str(plugins.load_plugin("mx_here")) == "mx_here==1"
    assert sys.path == before
    monkeypatch.delitem(plugins._LOADED, "mx_here")


def test_an_export_with_settings_that_are_no_numbers(tmp_path):
    rows_ = table()
    place = rows_.schema.get_field_index("tau")
    column = pa.array([float("nan")] * rows_.num_rows)
    pq.write_table(rows_.set_column(place, "tau", column), tmp_path / "nan.parquet")
    words = ["sweep", "import", "--store", str(tmp_path / "x"), "--from", str(tmp_path)]
    check_refused(words)
