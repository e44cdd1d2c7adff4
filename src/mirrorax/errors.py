"""What a user's mistake raises: one clear line, never a traceback on the command line."""

from __future__ import annotations

import difflib
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: The longest line that is shown, and the longest value within one. What comes from a file may be
#: of any length.
_LONGEST_LINE = 1200
_LONGEST_VALUE = 120


def plain(text: object) -> str:
    """Return a text as one line that a terminal can show: control characters escaped, cut short.

    Whatever comes from outside, such as the text of a store, passes through here or through
    `shown` before it is printed.
    """
    line = str(text)
    if len(line) > _LONGEST_LINE:
        line = f"{line[: _LONGEST_LINE - 400]} ... {line[-390:]}"
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def shown(value: object) -> str:
    """Return a value as it is written in Python, cut short."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return f"a {type(value).__name__} that is too large to show"
    return plain(text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}...")


class UserError(ValueError):
    """A mistake in the input. Its text names the field, the value and what is allowed.

    One line, safe to print; `more` are the lines below it, one for each of several mistakes.
    """

    def __init__(self, text: object = "", *more: object) -> None:
        super().__init__("\n  ".join(map(plain, (text, *more))))


class Failure(Exception):
    """What went wrong, though the input was right. Its text says why; commands end with code 1."""


def what_is_wrong(mistake: Mapping[str, Any]) -> str:
    """Return what pydantic says of a value in our words: what it must be."""
    if mistake["type"] == "tuple_type":
        return "must be a list"
    reason = str(mistake["msg"]).removeprefix("Value error, ")
    return (reason[0].lower() + reason[1:]).replace("input should", "must")


def nearest(word: str, allowed: Iterable[str], likeness: float = 0.5) -> str | None:
    """Return the allowed spelling closest to `word`, or None where nothing is close."""
    if len(word) > _LONGEST_VALUE:  # comparing takes the square of the length
        return None
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


def unknown(field: str, value: object, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not among the allowed ones."""
    names = list(allowed)
    guess = nearest(value if isinstance(value, str) else shown(value), names)
    hint = f" (did you mean {guess!r}?)" if guess else ""
    return UserError(f"{field}: unknown value {shown(value)}{hint}; allowed: {', '.join(names)}")
