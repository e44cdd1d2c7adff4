from pictures import coarse  # noqa: F401 - a fixture
from results import rng, small  # noqa: F401 - fixtures
