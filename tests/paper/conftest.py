import numpy as np
import pytest
from paper_worlds import as_the_paper_says, world
from pictures import coarse  # noqa: F401 - a fixture

from mirrorax.paper import catalogue


@pytest.fixture(scope="session")
def faithful():
    study = catalogue.make(scale="reduced")
    return world(study, as_the_paper_says, np.random.default_rng(1))


@pytest.fixture(scope="session")
def strips():
    """Figure 4 alone: quicker to judge than everything."""
    study = catalogue.make(["cartpole"], scale="reduced")
    return world(study, as_the_paper_says, np.random.default_rng(1))
