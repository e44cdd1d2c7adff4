"""The values in the brackets of a name: `Corridor(length=9, walls=true, colour="red")`.

They are literals, read without evaluating anything, and checked against what the class or function
that the name stands for declares.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from typing import Any

from mirrorax.errors import UserError, nearest

_ARGUMENT = re.compile(
    r"""\s*(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>'[^'\\]*'|"[^"\\]*"|[+-]?[0-9.][^\s,]*|[A-Za-z]+)"""
    r"""\s*(?P<end>,|$)""",
    re.ASCII,
)
_WORDS = {"true": True, "True": True, "false": False, "False": False}
#: annotations of declared fields that a value is checked against
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
}


def read(text: str, inside: str | None, field: str) -> dict[str, Any]:
    """Read the `key=value, ...` in the brackets of a name: numbers, true, false, quoted text."""
    values: dict[str, Any] = {}
    at = 0
    while inside is not None and (at < len(inside) or at == 0):
        match = _ARGUMENT.match(inside, at)
        value = None if match is None else _literal(match["value"])
        if match is None or value is None or match["key"] in values or match.end() == at:
            raise UserError(
                f"{field}: {text!r}: the brackets take named plain values (numbers, true, false or "
                "quoted text), each once, e.g. (length=9)"
            )
        values[match["key"]] = value
        at = match.end()
    return values


def _literal(text: str) -> bool | int | float | str | None:
    """Return the value of a literal, or None."""
    if text[0] in "'\"":
        return text[1:-1] if text[1:-1].isprintable() else None
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def check(what: str, factory: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse values that a class or function does not declare, or declares as of another type."""
    if not arguments:
        return
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # something built in, which declares nothing
        parameters = {}.values()
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for key, value in arguments.items():
        if key not in named:
            guess = nearest(key, named)
            hint = f" (did you mean {guess!r}?)" if guess else ""
            raise UserError(f"{what} has no {key!r}{hint}; allowed: {', '.join(named) or 'none'}")
        declared = named[key].annotation
        wanted = declared if isinstance(declared, str) else getattr(declared, "__name__", "")
        if wanted in _TYPES and type(value) not in _TYPES[wanted]:
            raise UserError(f"{what}: {key} = {value!r}: expected {wanted}")
