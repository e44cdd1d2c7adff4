"""The compilation cache: where it is, and how it is turned off."""

import subprocess
import sys

import jax
import pytest

from mirrorax.mdpo.machine import VARIABLE, enable_cache


@pytest.fixture
def _restored():
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("_restored")
def test_the_folder_is_named_after_the_versions(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    folder = enable_cache()
    assert folder.is_dir()
    assert folder.parent == tmp_path
    assert f"jax-{jax.__version__}" in folder.name
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert enable_cache().is_relative_to(tmp_path / "home" / "mirrorax")


@pytest.mark.usefixtures("_restored")
def test_it_can_be_turned_off_and_fails_softly(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    monkeypatch.setenv(VARIABLE, "off")
    assert enable_cache() is None
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "below"))
    assert enable_cache() is None
    assert jax.config.jax_compilation_cache_dir == before


def test_a_second_process_loads_what_the_first_compiled(tmp_path):
    code = (
        "import jax, jax.numpy as jnp; from mirrorax.mdpo.machine import enable_cache;"
        "enable_cache();"
        "seen = []; jax.monitoring.register_event_listener(lambda e, **k: seen.append(e));"
        "jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones((7, 7)));"
        "print(sum(e.endswith('cache_hits') for e in seen))"
    )
    hits = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={VARIABLE: str(tmp_path), "PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        )
        hits.append(int(done.stdout))
    assert hits[0] == 0
    assert hits[1] > 0
