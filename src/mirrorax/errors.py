"""What a user's mistake raises: one clear line, never a traceback on the command line."""

from __future__ import annotations

import difflib
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path


class UserError(ValueError):
    """A mistake in the input. Its text names the field, the value and what is allowed."""


def nearest(word: str, allowed: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the allowed spelling closest to `word`, or None where nothing is close."""
    candidates = list(allowed)
    by_lower = {name.lower(): name for name in candidates}
    close = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=likeness)
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
    known = [_ADVICE[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in _ADVICE]
    text = " ".join(f"{type(error).__name__}: {known[0] if known else error}".split())
    text = text if len(text) <= 300 else f"{text[:297]}..."
    place = "" if isinstance(error, SyntaxError) else _place(error)  # which says so itself
    return f"{text} ({place})" if place else text


def _place(error: BaseException) -> str:
    """Return the last line of the user's own code that an exception went through."""
    paths = sysconfig.get_paths()
    others = [str(Path(__file__).parent), *(paths[name] for name in ("stdlib", "purelib"))]
    own = [
        f"{Path(frame.filename).name}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", *others)) and "site-packages" not in frame.filename
    ]
    return own[-1] if own else ""


def unknown(field: str, value: object, allowed: Iterable[str], advice: str = "") -> UserError:
    """Build the error for a name that is not among the allowed ones."""
    names = list(allowed)
    guess = nearest(str(value), names)
    hint = f" (did you mean {guess!r}?)" if guess else ""
    hint += f"; {advice}" if advice else ""
    return UserError(f"{field}: unknown value {value!r}{hint}; allowed: {', '.join(names)}")
