"""Fixtures of the fault tests; `harness` has what they are made of."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for harness and standin, here and in workers

from harness import Driver


@pytest.fixture
def driver(tmp_path):
    return Driver(tmp_path)


@pytest.fixture(scope="session")
def expected(tmp_path_factory):
    """The exports of a run that nothing interrupted."""
    made = Driver(tmp_path_factory.mktemp("expected"))
    summary = made.resume(made.folder / "store")
    assert (summary.done, summary.failed) == (48, 0)
    return made.exported(made.folder / "store")
