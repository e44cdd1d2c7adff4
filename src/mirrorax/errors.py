"""What a user's mistake raises: one clear line, never a traceback on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake in the input. Its text names the field, the value and what is allowed."""


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed spelling closest to `word`, or None where nothing is close."""
    candidates = list(allowed)
    by_lower = {name.lower(): name for name in candidates}
    close = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def unknown(field: str, value: object, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not among the allowed ones."""
    names = list(allowed)
    guess = nearest(str(value), names)
    hint = f" (did you mean {guess!r}?)" if guess else ""
    return UserError(f"{field}: unknown value {value!r}{hint}; allowed: {', '.join(names)}")
