"""`mirrorax doctor` finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

import json
import stat
import sys

import numpy as np
import pytest

from mirrorax import selftest
from mirrorax.cli import doctor, main
from mirrorax.mdpo.session import Session


def test_a_sound_installation_passes_and_says_what_it_saw(capsys):
    assert main(["doctor", "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert seen["ok"] is True
    assert set(seen["self_test"]) == set(selftest.CHECKS)
    assert seen["versions"]["jax"]
    assert set(seen["extras"]) >= {"ray", "tensorboard", "tune"}
    assert seen["cores"] >= 1
    assert seen["self_test"]["learning"]["share"] > 0.9
    assert seen["self_test"]["matrix products"]["gflops"] > 0
    speed = seen["self_test"]["speed"]
    assert speed["ratio"] == pytest.approx(
        speed["core_seconds_per_run"] / speed["expected_core_seconds"]
    )


def test_without_the_self_test_it_is_quick_and_readable(capsys):
    assert main(["doctor", "--no-self-test"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok      mirrorax")
    assert lines[-1] == "nothing is wrong"


def test_a_device_that_is_not_there_is_wrong_and_the_exit_code_is_1(capsys, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "wrong   device" in shown
    assert "abacus" in shown
    assert "Traceback" not in shown
    assert shown.splitlines()[-1].startswith("wrong: device")


@pytest.mark.parametrize(
    ("version", "said"),
    [(None, "jax is missing"), ("0.4.1", "jax 0.4.1, but <0.11,>=0.10 is needed")],
)
def test_a_missing_or_unfit_package_is_named(version, said, capsys, monkeypatch):
    real = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: version if name == "jax" else real(name))
    assert main(["doctor", "--no-self-test"]) == 1
    assert said in capsys.readouterr().out


def test_an_extra_that_is_absent_is_no_fault(capsys, monkeypatch):
    real = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if "ray" in name else real(name))
    assert main(["doctor", "--no-self-test"]) == 0
    assert "absent (pip install 'mirrorax[ray]')" in capsys.readouterr().out


def test_a_policy_that_did_not_learn_is_found(monkeypatch):
    monkeypatch.setattr(Session, "run", lambda *_: None)
    result = selftest.learning()
    assert result["share"] < 0.5
    assert result["status"] == "wrong"


def test_a_wrong_mirror_step_is_found(monkeypatch):
    from mirrorax import tabular

    monkeypatch.setattr(tabular, "mirror_step", lambda *_: np.full(4, 0.25))
    assert selftest.mirror_step()["status"] == "wrong"


def test_a_check_that_raises_is_told_in_one_line(monkeypatch):
    def fails():
        raise RuntimeError("no\nluck")

    monkeypatch.setitem(selftest.CHECKS, "speed", fails)
    (result,) = selftest.findings(("speed",))
    assert result["status"] == "wrong"
    assert result["text"].startswith("RuntimeError: no luck (test_doctor.py, ")


def test_what_was_found_before_the_end_is_kept(tmp_path, monkeypatch):
    """A process that is killed half-way, and one that hangs."""
    python = tmp_path / "python"
    line = json.dumps({"check": "speed", "status": "ok", "text": "fast", "ratio": 5.0})
    for ending, reason in (("kill -9 $$", "-9"), ("sleep 60", "still running after 1 seconds")):
        python.write_text(f"#!/bin/sh\necho '{line}'\nexec 2>/dev/null\n{ending}\n")
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(python))
        results = doctor.self_test(timeout=1.0)
        assert results["speed"]["ratio"] == 5.0
        assert reason in results["self-test"]["text"]
        assert [result["status"] for result in results.values()] == ["ok", "wrong"]


def test_slowness_is_a_remark_and_the_cache_says_where_it_is(tmp_path, monkeypatch):
    assert selftest.judge_speed(50.0, 5.0)["status"] == "remark"
    assert selftest.judge_speed(5.5, 5.0)["status"] == "ok"
    monkeypatch.setenv("MIRRORAX_COMPILE_CACHE", "off")
    assert selftest.cache()["text"] == "off: every start compiles again"
    (tmp_path / "file").touch()
    monkeypatch.setenv("MIRRORAX_COMPILE_CACHE", str(tmp_path / "file" / "below"))
    assert selftest.cache()["status"] == "remark"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, for plugins; what they add to the path goes again."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_names_of_a_plugin_are_checked(folder, capsys):
    (folder / "doctored.py").write_text(
        "import mirrorax\n"
        "mirrorax.register_potential('doc_square', lambda p: (p * p).sum())\n"
        "mirrorax.register_potential('doc_bump', lambda p: -(p * p).sum())\n"
        "mirrorax.register_drift('doc_vector', lambda p, q: p - q)\n"
        "mirrorax.register_environment('DocNothing', object())\n"
    )
    (folder / "doctored_empty.py").write_text("")
    assert main(["doctor", "--no-self-test", "--plugin", "doctored", "--json"]) == 1
    told = {one["subject"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert told["potential doc_square"]["status"] == "ok"
    assert told["potential doc_bump"]["text"].startswith("fails convexity")
    assert told["drift doc_vector"]["text"].endswith("sum over the actions")
    assert "not an Environment" in told["environment DocNothing"]["text"]
    assert {one["status"] for name, one in told.items() if "doc_square" not in name} >= {"wrong"}
    assert main(["doctor", "--no-self-test", "--plugin", "no_such_doctored"]) == 2
    assert "there is no module" in capsys.readouterr().err


def test_environments_that_cannot_be_played_here_are_not_called_wrong(folder, capsys):
    (folder / "doctored_envs.py").write_text(
        "import mirrorax\n"
        "from mirrorax.envs.boards import Catch\n"
        "from mirrorax.envs.host import Gymnasium\n"
        "mirrorax.register_environment('DocLake', lambda: Gymnasium('FrozenLake-v1'))\n"
        "mirrorax.register_environment('DocSized', lambda rows: Catch(rows, 5))\n"
    )
    assert main(["doctor", "--no-self-test", "--plugin", "doctored_envs", "--json"]) == 0
    told = {one["subject"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert told["environment DocLake"]["status"] == "remark"
    assert "check_env" in told["environment DocLake"]["text"]
    assert told["environment DocSized"]["status"] == "remark"
    assert "DocSized(...)" in told["environment DocSized"]["text"]
