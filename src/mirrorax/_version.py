"""The version of mirrorax, and the version of its algorithm."""

__version__ = "0.1.0"

#: Raised by one whenever a change alters the result of a run; part of every run's identity.
ALGORITHM_VERSION = 3
