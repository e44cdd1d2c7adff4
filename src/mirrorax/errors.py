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


#: what to do about an exception that users of jax meet, by its name, and why it was raised
_ADVICE = {
    "TracerBoolConversionError": "it decides by a value of an array, with if, and, or, not, min or "
    "max; use jnp.where, &, |, ~, jnp.minimum or jnp.maximum",
    "TracerArrayConversionError": "it gives an array to numpy; use jax.numpy in its place",
    "ConcretizationTypeError": "it makes a Python number of an array; leave it an array",
    "TracerIntegerConversionError": "it uses an array as a Python index or size; use jnp.take, or "
    "a number that is fixed",
}


def in_one_line(error: BaseException) -> str:
    """Say what an exception of a user's code says, in one line, and what to do where we know."""
    for cls in type(error).__mro__:
        if cls.__name__ in _ADVICE:
            return f"{type(error).__name__}: {_ADVICE[cls.__name__]}"
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else f"{text[:297]}..."


def unknown(field: str, value: object, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not among the allowed ones."""
    names = list(allowed)
    guess = nearest(str(value), names)
    hint = f" (did you mean {guess!r}?)" if guess else ""
    return UserError(f"{field}: unknown value {value!r}{hint}; allowed: {', '.join(names)}")
