"""What can go wrong with a store that is not a mistake in the input."""

from __future__ import annotations

from mirrorax.errors import plain


class StoreError(Exception):
    """The store cannot be written or read; the text says why and what to do, in one line."""

    def __init__(self, text: object = "") -> None:
        super().__init__(plain(text))


class DamagedShardWarning(UserWarning):
    """A shard was left out of a table because it is damaged."""
