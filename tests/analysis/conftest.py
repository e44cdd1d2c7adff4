import pytest
import scripts
from results import full, rng, small  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def suite():
    """Landscapes whose truth is known."""
    return scripts.load("benchmarks/analysis_landscapes.py")
