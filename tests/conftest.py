"""Strict numerics for every test: nothing is promoted, rounded or warned about in silence."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import hypothesis
import jaxtyping
import pytest
import scripts

# A shell starts what it puts in the background with Ctrl-C ignored, and children inherit that: the
# tests that press Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Shapes and types of the mathematics are checked at run time, while the tests run. (Not those of
# tabular.mdp, which checks its input itself, with better messages.)
_CHECKED = ["mirrorax.simplex", "mirrorax.convex", "mirrorax.regularizers"]
_CHECKED += [f"mirrorax.tabular.{room}" for room in ("evaluation", "mirror", "pmd", "roots")]
jaxtyping.install_import_hook(_CHECKED, "typecheck.check")

# Most of the time is spent compiling programs that run only once. Here and in the processes that
# tests start, XLA leaves LLVM's optimisations out, which is about twice as fast. Tests that need
# the programs that users run are in `OPTIMISED` or marked `optimised`. With this variable at 0 all
# of them run those.
_PLAIN = "JAX_DISABLE_MOST_OPTIMIZATIONS"
_PLAIN_BY_DEFAULT = os.environ.setdefault(_PLAIN, "1")

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "standard")
jax.config.update("jax_enable_x64", False)

from mirrorax.mdpo.machine import enable_cache  # noqa: E402

hypothesis.settings.register_profile(
    "mirrorax", deadline=None, derandomize=True, print_blob=False, max_examples=50
)
hypothesis.settings.load_profile("mirrorax")


#: Files whose tests or fixtures take long, and rooms that train. They start first, so that short
#: ones fill what is left of the time at the end.
LONG = (
    "test_tutorial.py",
    "test_notebook.py",
    "tuning/test_tune.py",
    "faults/test_ray.py",
    "faults/test_trainer.py",
    "faults/test_killing.py",
    "mdpo/",
    "test_docs.py",
    "plugins/",
    "cli/test_doctor.py",
    "probes/",
    "test_house.py",
    "test_callbacks.py",
    "regularizers/",
)

#: Files that run optimised programs: those about bits, about what is compiled, about what is
#: learned, and those that do what a user does, which train for long.
OPTIMISED = (
    "faults/test_trainer.py",
    "mdpo/test_compiled.py",
    "mdpo/test_lanes.py",
    "mdpo/test_tables.py",
    "probes/",
    "sweep/test_local.py",
    "test_docs.py",
    "test_notebook.py",
    "test_tutorial.py",
    "tuning/test_tune.py",
)


def _path(item):
    return item.path.relative_to(Path(__file__).parent).as_posix()


def pytest_collection_modifyitems(items):
    """Put the long ones first; the order is else the same."""

    def rank(item):
        path = _path(item)
        return next((k for k, start in enumerate(LONG) if path.startswith(start)), len(LONG))

    items.sort(key=rank)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Choose how the programs of a test are compiled, before its fixtures are made."""
    optimised = _path(item).startswith(OPTIMISED) or item.get_closest_marker("optimised")
    plain = "0" if optimised else _PLAIN_BY_DEFAULT
    if plain != os.environ[_PLAIN]:
        os.environ[_PLAIN] = plain
        jax.config.update(_PLAIN.lower(), plain == "1")
        jax.clear_caches()  # else a program of the other kind would be used again


@pytest.fixture(autouse=True, scope="session")
def _own_compile_cache(tmp_path_factory, worker_id):
    """Share compiled programs in this session: none is read from the user's cache or left there."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "compiled"  # workers share it
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRRORAX_COMPILE_CACHE", str(folder))
        enable_cache()
        yield


@pytest.fixture(scope="session")
def synthetic():
    """Made-up studies whose truth is known."""
    return scripts.load("benchmarks/analysis_synthetic.py")


@pytest.fixture
def x64():
    """Compute in float64 with jax inside one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def debug_nans():
    """Raise at the operation that first makes a NaN."""
    with jax.debug_nans(True):
        yield


@pytest.fixture(autouse=True)
def _own_names():
    """Forget after each test what it registered: a name means one thing in one process."""
    from mirrorax import plugins, registry

    kept = (plugins._LOADED, plugins._SEARCHED, registry._REGISTERED)
    before = [each.copy() for each in kept]
    yield
    for now, then in zip(kept, before, strict=True):
        now.clear()
        now.extend(then) if isinstance(now, list) else now.update(then)
