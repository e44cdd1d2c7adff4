"""What can go wrong with a store that is not a mistake in the input."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot be written or read; the text says why and what to do."""


class Damaged(StoreError):
    """A file of the store is not what was written."""


class DamagedShardWarning(UserWarning):
    """A shard was left out of a table because it is damaged."""
