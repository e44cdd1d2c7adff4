from results import rng, small  # noqa: F401 - fixtures
